//! bot-companion: the backend of a chat bot's dashboard and website.
//!
//! The rooms, from the outside in; imports go down this list and never up:
//! - [`cli`]: the commands.
//! - [`server`]: sockets, TLS, timeouts, connection limits, drain.
//! - [`http`]: routes, the envelope, errors, authentication, CORS, the ready answers.
//! - [`app`]: what a handler can reach.
//! - [`sign_in`]: one code, one exchange, a session each.
//! - [`views`]: answers kept ready in memory.
//! - [`store`]: what lasts. [`idp`]: the identity provider. [`vault`]: encryption at rest. [`config`]: what can be set.
//! - [`domain`]: pure rules. [`clock`] and [`random`]: handed in, never global.

pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod http;
pub mod idp;
pub mod random;
pub mod server;
pub mod sign_in;
pub mod store;
pub mod vault;
pub mod views;
