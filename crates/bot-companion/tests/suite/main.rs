//! The service, driven end to end over real sockets as a browser, a bot or an operator would: built by the same function as in
//! production, against a provider that is a real HTTP server with switchable faults.

mod guilds;
mod harness;
mod public;
