//! `bot-companion audit`: shows the audit.

use std::time::Duration;

use domain::Snowflake;
use domain::audit::{AuditEntry, AuditKind};
use domain::forgotten::UserHash;
use serde_json::json;
use store::AuditFilter;
use telemetry::untrusted::Untrusted;

use super::database;
use super::{CommandOptions, print};
use crate::config;

#[derive(Debug, clap::Args)]
pub(super) struct AuditCommand {
    /// How far back to look, for example `1h` or `7d`.
    #[arg(long, value_name = "DURATION", value_parser = config::any_duration)]
    since: Option<Duration>,
    /// Only entries about this user.
    #[arg(long, value_name = "ID")]
    user: Option<Snowflake>,
    /// Only this kind: `sign_in`, `sign_in_refused`, `signed_out`, `grant_revoked`, `blocked`, `unblocked`, `key_used`,
    /// `key_refused`, `command` or `lost`.
    #[arg(long)]
    kind: Option<AuditKind>,
    /// Show at most this many rows, the most recent ones.
    #[arg(long, value_name = "ROWS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    #[command(flatten)]
    options: CommandOptions,
}

pub(super) fn run(command: &AuditCommand) -> anyhow::Result<()> {
    let AuditCommand { since, user, kind, limit, options } = command;
    let rows = database::reading(&options.config, async |reading| {
        let persons = user.map(|user| vec![user.to_string(), UserHash::of(user).in_audit()]);
        let since = since.map(|span| reading.clock.now().before(span)).unwrap_or_default();
        Ok(reading.store.audit(AuditFilter { since, persons, kind: *kind, limit: *limit }).await?)
    })?;
    let value = |row: &AuditEntry| {
        json!({
            "at": row.at.iso8601(),
            "kind": row.kind.name(),
            "user": row.person,
            "key": row.key,
            "network": row.network,
            "request": row.request,
            "detail": row.detail,
            "count": row.count,
        })
    };
    let cells = |row: &AuditEntry| {
        let text = |value: &Option<String>| Untrusted(value.as_deref().unwrap_or_default()).to_string();
        let count = if row.count == 1 { String::new() } else { format!("{} times", row.count) };
        let whom = row
            .person
            .as_ref()
            .map(|person| format!("user {person}"))
            .or(row.key.as_ref().map(|key| format!("key {key}")));
        vec![
            row.at.iso8601(),
            row.kind.name().to_owned(),
            text(&whom),
            text(&row.network),
            text(&row.request),
            count,
            Untrusted(&row.detail).to_string(),
        ]
    };
    print(&options.form.list(&rows, "No matching audit entries.", value, cells))
}
