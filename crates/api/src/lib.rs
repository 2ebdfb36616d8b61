//! What goes over the wire: the shapes of requests and responses, the envelope, the error codes, and their schemas. One file
//! per resource. Shapes are built from domain values; a field's comment is its description in the OpenAPI document. Nothing
//! here knows the web framework: `http` turns these bytes into responses.

pub mod auth;
pub mod document;
pub mod envelope;
pub mod error;
pub mod error_responses;
pub mod examples;
pub mod feed;
pub mod feedback;
pub mod guilds;
pub mod incidents;
pub mod live;
pub mod me;
pub mod picture;
pub mod readiness;
pub mod sessions;
pub mod stats;
pub mod status;
pub mod team;
pub mod user;
