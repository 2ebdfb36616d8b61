//! The HTTP side: the route table, the middleware, and a file of handlers per resource, which extract, make a call or two and
//! respond.

mod access;
mod auth;
mod badges;
mod bounds;
mod context;
mod cors;
mod credentials;
pub(crate) mod date;
mod encoding;
mod error;
mod etag;
mod fast_path;
mod feed;
mod feedback;
mod framing;
#[cfg(test)]
mod fuzz;
mod guilds;
mod hot_request;
mod hot_response;
mod language;
mod live;
mod me;
mod measure;
mod openapi;
mod pages;
mod pipeline;
mod readiness;
mod respond;
mod routes;
mod sessions;
mod stats;
mod status;
mod team;
mod zone;

pub use context::Peer;
pub(crate) use credentials::bot_key;
pub(crate) use hot_request::{HotRequest, NotHot};
#[cfg(test)]
pub(crate) use openapi::describe;
pub use openapi::document;
pub use pipeline::HttpService;
