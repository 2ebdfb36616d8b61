//! `bot-companion stats`: what the store contains.

use domain::Time;
use domain::feed::FeedState;
use serde_json::{Value, json};
use store::Holdings;
use telemetry::untrusted::Untrusted;

use super::database;
use super::output::columns;
use super::{CommandOptions, print};

pub(super) fn run(options: &CommandOptions) -> anyhow::Result<()> {
    let (holdings, state, grants) = database::reading(&options.config, async |reading| {
        let store = &reading.store;
        Ok((store.holdings().await?, store.feed_state().await?, store.grants_by_key().await?))
    })?;
    let value = value(&holdings, &state, &grants);
    print(&options.form.one(&value, || text(&holdings, &state, &grants)))
}

fn value(holdings: &Holdings, state: &FeedState, grants: &[(String, u64)]) -> Value {
    let time = |at: Option<Time>| at.map(Time::iso8601);
    let shards: Value = state
        .shards
        .iter()
        .map(|it| json!({ "shard": it.shard.id, "of": it.shard.count, "guilds": it.guilds }))
        .collect();
    json!({
        "schema": holdings.schema,
        "bytes": holdings.size,
        "users": holdings.users,
        "sessions": holdings.sessions,
        "oldest_session": time(holdings.oldest_session),
        "newest_session": time(holdings.newest_session),
        "grants": grants.iter().map(|(key, grants)| json!({ "key": key, "grants": grants })).collect::<Value>(),
        "to_revoke": holdings.to_revoke,
        "blocked": holdings.blocked,
        "forgotten": holdings.forgotten,
        "keys": holdings.good_keys,
        "revoked_keys": holdings.revoked_keys,
        "guilds": state.guilds,
        "shards": shards,
        "subscriptions": state.subscriptions,
        "team": state.team,
        "feedback": state.feedback,
        "oldest_feedback": time(holdings.oldest_feedback),
        "newest_feedback": time(holdings.newest_feedback),
        "audit": holdings.audit,
        "oldest_audit": time(holdings.oldest_audit),
        "newest_audit": time(holdings.newest_audit),
    })
}

fn text(holdings: &Holdings, state: &FeedState, grants: &[(String, u64)]) -> String {
    let span = |oldest: Option<Time>, newest: Option<Time>| {
        oldest
            .zip(newest)
            .map_or_else(String::new, |(oldest, newest)| format!("from {} to {}", oldest.iso8601(), newest.iso8601()))
    };
    let of_keys = grants
        .iter()
        .map(|(key, grants)| format!("{grants} under {}", Untrusted(if key.is_empty() { "no key" } else { key })));
    let shards = state.shards.iter().map(|it| format!("{}/{}: {}", it.shard.id, it.shard.count, it.guilds));
    let rows = [
        ("schema", holdings.schema, "version".to_owned()),
        ("size", holdings.size, "bytes".to_owned()),
        ("users", holdings.users, String::new()),
        ("sessions", holdings.sessions, span(holdings.oldest_session, holdings.newest_session)),
        ("grants", grants.iter().map(|(_, grants)| grants).sum(), of_keys.collect::<Vec<_>>().join(", ")),
        ("to revoke", holdings.to_revoke, "grants of those".to_owned()),
        ("blocked users", holdings.blocked, String::new()),
        ("forgotten users", holdings.forgotten, String::new()),
        ("bot keys", holdings.good_keys, format!("and {} revoked", holdings.revoked_keys)),
        ("guilds", state.guilds, shards.collect::<Vec<_>>().join(", ")),
        ("subscriptions", state.subscriptions, String::new()),
        ("team", state.team, String::new()),
        ("feedback", state.feedback, span(holdings.oldest_feedback, holdings.newest_feedback)),
        ("audit rows", holdings.audit, span(holdings.oldest_audit, holdings.newest_audit)),
    ];
    let cells: Vec<_> = rows.map(|(name, count, more)| vec![name.to_owned(), count.to_string(), more]).into();
    columns(&cells).join("\n") + "\n"
}
