//! The service, driven end to end over real sockets like a browser, a bot or an operator would: built by the same function as
//! in production, against a provider that is a real HTTP server with switchable faults.

#![allow(unreachable_pub, reason = "nothing of a test binary can be reached; `pub` says what the harness offers")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]
#![allow(
    clippy::format_collect,
    clippy::similar_names,
    clippy::case_sensitive_file_extension_comparisons,
    reason = "what is read most easily is right for a test"
)]

mod admin;
mod admin_limits;
mod audit;
mod backup_files;
mod browsers;
mod clock;
mod command_json;
mod command_line;
mod compression;
mod connections;
mod dashboard;
mod dashboard_docs;
mod dev;
mod drain;
mod errors;
mod exit_codes;
mod fast_path;
mod feed;
mod feed_commands;
mod feed_docs;
mod feed_fairness;
mod feed_keys;
mod feed_model;
mod feed_ownership;
mod feed_uploads;
mod freshness;
mod freshness_model;
mod guild_lists;
mod guild_plus;
mod guilds;
mod harness;
mod history;
mod hosts;
mod http_protocol;
mod init;
mod key_change;
mod limits;
mod live;
mod live_check;
mod logs;
mod lost_store;
mod networks;
mod openapi;
mod operator_metrics;
mod outages;
mod process;
mod provider_errors;
mod provider_grants;
mod public;
mod readiness;
mod reading_commands;
mod reload;
mod replicas;
mod replicas_agree;
mod repository;
mod secrets;
mod secure;
mod sessions;
mod sign_in;
mod site;
mod site_dashboard;
mod site_incidents;
mod site_look;
mod site_reference;
mod site_status;
mod snapshots;
mod sockets;
mod start_checks;
mod starting;
mod startup_messages;
mod stats;
mod strangers;
mod switches;
mod tls;
mod traces;
mod unread_answers;
mod upkeep;
