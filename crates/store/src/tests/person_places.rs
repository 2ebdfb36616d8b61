//! The list of every place that can mention a person, compared with both schemas and with the privacy page.

use std::collections::BTreeSet;

use super::*;
use crate::person_places::{OnForget, PLACES, in_table};

on_each_store! {
    every_column_is_on_the_list_of_places_or_known_to_hold_nobody,
}

/// Columns that mention nobody, table by table. Before you add one here, ask whether it can identify someone; if so, it belongs
/// in `store/person_places.rs`, so that `users forget` takes care of it.
const HOLD_NOBODY: &[(&str, &str)] = &[
    ("announcements", "id title text posted ended begins ends rescheduled"),
    ("audit", "id at kind key request detail count"),
    ("blocked_users", "since"),
    ("bot_keys", "id label key_hash created revoked ordinal"),
    ("code_claims", "hash settled until"),
    ("counter", "id value"),
    ("feed_instances", "key instance next first_seen started_at last_used sent_snapshot"),
    ("feed_own_shards", "key instance shard_count shard_id"),
    ("feed_shards", "shard_count shard_id snapshot committed instance snapshot_at guilds key member_sum"),
    ("feed_sweeps", "snapshot whole after again"),
    ("feedback", "id rating timestamp slot"),
    ("forgotten_users", "since"),
    ("guild_staff", "snapshot guild"),
    ("guilds", "snapshot id name icon members setup linked grants carried"),
    ("history_days", "begins up partial down"),
    ("history_minutes", "begins state latency"),
    ("history_updates", "id announcement incident phase text posted"),
    ("incidents", "id worst began ended shards shard_count"),
    ("instances", "key id started_at memory reported shard_count"),
    ("probe", "id at"),
    ("revocations", "due tries sending_until grant_key"),
    ("schema_version", "version"),
    ("sessions", "token_hash id ordinal"),
    ("shards", "id instance started_at reported sent acknowledged latency key"),
    ("staged_kept", "snapshot guild"),
    ("staged_snapshots", "id shard_count shard_id instance sequence begun guilds key basis member_sum touched"),
    ("staged_subscriptions", "snapshot"),
    ("subscription_guilds", "guild ordinal"),
    ("team", "ordinal color category position permissions"),
    ("totals", "id feedback ratings hidden_guilds hidden_members"),
    ("users", "grant_version list_fetched list_version signing_in refresh_until grant_key"),
];

async fn every_column_is_on_the_list_of_places_or_known_to_hold_nobody(fixture: Fixture) {
    let columns = fixture.columns().await;
    assert!(columns.len() > 100, "{columns:?}");
    for (table, column) in &columns {
        let of_person = in_table(table).is_some_and(|place| place.columns.contains(&column.as_str()));
        let nobody = HOLD_NOBODY.iter().find(|(name, _)| name == table);
        let of_nobody = nobody.is_some_and(|(_, names)| names.split(' ').any(|name| name == column));
        assert!(of_person != of_nobody, "{table}.{column}: a person's is {of_person}, nobody's is {of_nobody}");
    }
    for place in PLACES {
        assert!(place.columns.contains(&place.id), "{place:?}");
        for column in place.columns {
            assert!(columns.contains(&(place.table.to_owned(), (*column).to_owned())), "{}.{column}", place.table);
        }
    }
}

/// What the page says about a place when someone is forgotten.
fn said(on_forget: OnForget) -> String {
    match on_forget {
        OnForget::EndAccount | OnForget::Delete => "deleted".to_owned(),
        OnForget::Clear(columns) => {
            let names: Vec<_> = columns.iter().map(|(column, _)| format!("`{column}`")).collect();
            format!("cleared: {}", names.join(", "))
        }
        OnForget::UntilRevoked => "kept until the provider has been notified".to_owned(),
        OnForget::Keep => "kept".to_owned(),
    }
}

#[test]
fn the_page_about_privacy_says_where_people_stand_and_what_forgetting_does_there() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/privacy.md");
    let page = std::fs::read_to_string(page).unwrap();
    for place in PLACES {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", place.table)));
        let row = row.unwrap_or_else(|| panic!("docs/privacy.md: {} is missing", place.table));
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        // An option is named with its section.
        let named = cells[2].split('`').skip(1).step_by(2).filter(|name| !name.contains('.'));
        let named: BTreeSet<_> = named.collect();
        assert_eq!(named, place.columns.iter().copied().collect(), "docs/privacy.md, {}", place.table);
        assert_eq!(cells[4].split(';').next().unwrap(), said(place.on_forget), "docs/privacy.md, {}", place.table);
    }
}
