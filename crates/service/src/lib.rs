//! bot-companion: the backend of a chat bot's dashboard and website.
//!
//! The modules, from the outside in; imports go down this list and never up:
//! - [`cli`]: the commands. `cli/dev` wraps the service from outside; no other module knows about it. [`reload`]: what a running
//!   service takes over from a changed configuration. [`systemd`]: notifications for systemd.
//! - [`admin`]: the admin listener, for metrics and health.
//! - [`server`]: sockets, TLS, timeouts, connection limits, graceful shutdown.
//! - [`http`]: routes by zone, middleware, extractors, handlers.
//! - [`app`]: what a handler can reach, and the periodic tasks.
//! - [`views`]: cached responses. [`live`]: live streams. [`site`]: pages for people.
//! - [`accounts`]: users: sign-in, sessions, provider grants, guild lists.
//! - [`sources`]: what views and accounts are built on. [`vault`]: encryption at rest. [`audit`]: what happened.
//!   [`rate_limits`]: per client, user and bot key. [`floods`]: what strangers cause over and over, for the log.
//! - [`config`]: the configuration.

pub mod accounts;
pub mod admin;
pub mod app;
pub mod audit;
pub mod cli;
pub mod config;
pub mod floods;
pub mod http;
pub mod live;
pub mod rate_limits;
pub mod reload;
pub mod server;
pub mod site;
pub mod sources;
pub mod systemd;
pub mod vault;
pub mod views;
