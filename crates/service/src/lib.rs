//! bot-companion: the backend of a chat bot's dashboard and website.
//!
//! The rooms, from the outside in; imports go down this list and never up:
//! - [`cli`]: the commands. [`reload`]: what a running service takes over from a changed configuration.
//! - [`admin`]: the listener for operators: metrics and health.
//! - [`server`]: sockets, TLS, timeouts, connection limits, graceful shutdown.
//! - [`http`]: routes by zone, middleware, extractors, handlers.
//! - [`app`]: what a handler can reach.
//! - [`views`]: cached responses. [`uploads`]: what the bot is sending.
//! - [`accounts`]: people: sign-in, sessions, provider grants, guild lists.
//! - [`store`]: the database. [`idp`]: the identity provider. [`vault`]: encryption at rest. [`config`]: the settings.
//!   [`sandbox`]: the provider that `dev` and the tests use in place of the real one.
//! - [`api`]: what goes over the wire: shapes, envelope, error codes, schemas.
//! - [`domain`]: pure rules and values.
//!
//! Tools that any room may use: [`clock`] and [`random`] (handed in, never global), [`clock_watch`] (whether the clock was set),
//! [`background`] (background tasks),
//! [`single_flight`] (one task per key), [`shared_check`] (one check for all who ask), [`metrics`] (counting), [`rate_limit`],
//! [`concurrency`] (a concurrency limit), [`fair_pool`] (one that keys share fairly), [`subjects`] (whom a client counts as),
//! [`log_throttle`] (floods of log lines), [`floods`] (what strangers cause again and again),
//! [`request_id`] (of the request that a task works for), [`traces`] (spans for OpenTelemetry), [`sources`] (what views and
//! accounts are built from), [`audit`] (what happened), [`recorder`] (how the bot did), [`untrusted`] (escapes untrusted text for the log),
//! [`file_access`] (who may use a file), [`version`].

pub mod accounts;
pub mod admin;
pub mod app;
pub mod audit;
pub mod cli;
pub mod clock_watch;
pub mod config;
pub mod floods;
pub mod http;
pub mod live;
pub mod rate_limits;
pub mod recorder;
pub mod reload;
pub mod server;
pub mod site;
pub mod sources;
pub mod uploads;
pub mod vault;
pub mod views;
