//! bot-companion: the backend of a chat bot's dashboard and website.
//!
//! The rooms, from the outside in; imports go down this list and never up:
//! - [`cli`]: the commands.
//! - [`server`]: sockets, TLS, timeouts, connection limits, drain.
//! - [`http`]: routes, the envelope, errors, authentication, CORS, the ready answers.
//! - [`app`]: what a handler can reach.
//! - [`accounts`]: people coming and going; one code, one exchange.
//! - [`views`]: answers kept ready in memory. [`uploads`]: what the bot is sending.
//! - [`store`]: what lasts. [`idp`]: the identity provider. [`vault`]: encryption at rest. [`config`]: what can be set.
//! - [`domain`]: pure rules.
//!
//! Tools that any room may use: [`clock`] and [`random`] (handed in, never global), [`background`] (work that outlives its
//! request), [`flights`] (one flight a key), [`rates`] (limits of client addresses), [`log_throttle`] (one log line per minute), [`outside`] (text from outside in a log),
//! [`version`].

pub mod accounts;
pub mod app;
pub mod background;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod flights;
pub mod http;
pub mod idp;
pub mod log_throttle;
pub mod outside;
pub mod random;
pub mod rates;
pub mod server;
pub mod store;
pub mod uploads;
pub mod vault;
pub mod version;
pub mod views;
