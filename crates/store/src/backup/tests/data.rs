//! Something for every table, written and read without the code under test.

use rusqlite::types::Value;
use rusqlite::{Connection, params};

/// More than two batches.
pub(super) const GUILDS: i64 = 10_500;

/// Fills a new file, with this many guilds in the largest snapshot.
pub(super) fn fill(db: &Connection, guilds: i64) {
    db.execute_batch("BEGIN").unwrap();
    people(db);
    feed(db, guilds);
    db.execute_batch(
        "INSERT INTO team VALUES (0, 'a.b', 'Ann \u{1f389}', '', 9223372036854775807, 'Head', '#fff', 'x', -5, '[\"MOD\"]');
        INSERT INTO team VALUES (1, 'c', '', '', 2, '', '', '', 0, '[]');
        INSERT INTO bot_keys (rowid, id, label, key_hash, created, revoked) VALUES
            (9, 'aa', 'first by name, last made', x'01', 5, NULL), (2, 'bb', 'سميرة', x'02', 5, 6);
        INSERT INTO instances VALUES ('k', 'one', 1, 2, 3, 4), ('K', 'Zwei', 5, 6, 7, 8), ('', 'ärger', 0, 0, 0, 0),
            ('K', 'one', 1, 2, 3, 4);
        INSERT INTO shards VALUES (0, 'one', 1, 2, 3, 4, 0.1, 'k'), (1, 'one', 1, 2, 3, 4, 1e300, ''),
            (2, 'one', 1, 2, 3, 4, -0.0, 'k');
        INSERT INTO history_minutes VALUES (60000, 'up', 12.5), (120000, 'down', NULL), (0, 'partial', 1e300);
        INSERT INTO history_days VALUES (0, 1, 2, 3), (86400000, 1440, 0, 0);
        INSERT INTO incidents VALUES (3, 'down', 5, 6, 7, 8), (9, 'partial', 5, NULL, 1, 2);
        INSERT INTO announcements VALUES (2, 'Wartung ü', 'one\ntwo', 5, NULL, 7, 9, 6), (1, '', '', 3, 4, NULL, NULL, NULL);
        INSERT INTO history_updates VALUES (4, 2, NULL, 'identified', 'ü\nx', 6), (5, NULL, 9, 'resolved', '', 7);
        UPDATE counter SET value = 123456789;
        COMMIT",
    )
    .unwrap();
}

fn people(db: &Connection) {
    let large = "🦀ä".repeat(100_000);
    let user =
        "INSERT INTO users (id, username, name, avatar, grant_sealed, grant_version, list, list_fetched, list_version,
        signing_in) VALUES (?1, ?2, ?3, '', ?4, ?5, ?6, ?7, 3, ?8)";
    db.execute(user, params![1, "ann", "Ann\n\"Lee\"\\", vec![0_u8; 300_000], 7, large, 99, Value::Null]).unwrap();
    db.execute(user, params![i64::MAX, "", "\u{fffd}\t", Value::Null, 0, Value::Null, Value::Null, 0]).unwrap();
    for number in 0_u8..50 {
        // Their hashes are in the opposite order.
        let sql =
            "INSERT INTO sessions (token_hash, id, user_id, created, last_seen, agent) VALUES (?1, ?2, 1, 5, 6, 'x')";
        db.execute(sql, params![[255 - number; 32], format!("session{number}")]).unwrap();
    }
    db.execute_batch(
        "INSERT INTO code_claims VALUES (x'00ff', 0, NULL, 5), (x'00', 1, '{\"id\":\"1\"}', 6), (x'', 1, NULL, 7);
        INSERT INTO blocked_users VALUES (5, 'because', 6), (6, '', 7);
        INSERT INTO forgotten_users VALUES (x'00ff', 5), (x'01', 6);
        INSERT INTO audit VALUES (3, 5, 'sign_in', '1', NULL, '192.0.2.0/24', 'r', '', 1), (9, 4, 'x', NULL, 'k', NULL, NULL, 'ä', 7)",
    )
    .unwrap();
}

fn feed(db: &Connection, guilds: i64) {
    // Snapshots 5 and 7 belong to two shards; 9 is being removed, and 11 is being staged.
    db.execute_batch(
        "UPDATE feed_shards SET guilds = 2 WHERE shard_count = 0;
        INSERT INTO feed_shards VALUES (2, 0, 7, 10, 'one', 5, 3, 'k', 30), (2, 1, 5, 8, 'Zwei', 6, 10500, '', 99);
        UPDATE totals SET feedback = 14, ratings = 70, hidden_guilds = 2, hidden_members = 20;
        INSERT INTO feed_sweeps VALUES (9, 1, 0, 0), (5, 0, 77, 1), (0, 0, 0, 0);
        INSERT INTO staged_snapshots VALUES (11, 2, 0, 'one', 4, 5, 1, 'k', 8, 9);
        INSERT INTO staged_kept VALUES (11, 1);
        INSERT INTO staged_subscriptions VALUES (11, 1, 2, 3, '[]');
        INSERT INTO feed_instances VALUES ('k', 'one', 4, 5, NULL, 6, 1), ('K', 'Zwei', 1, 2, 3, 4, 0),
            ('K', 'one', 1, 2, 3, 4, 0);
        INSERT INTO feed_own_shards VALUES ('k', 'one', 2, 0), ('k', 'one', 2, 1), ('K', 'Zwei', 1, 0);
        INSERT INTO subscriptions VALUES (1, 2, NULL), (-5, 3, 9), (7, 0, 1);
        INSERT INTO subscription_guilds VALUES (4, 1, 1), (4, 7, 0), (3, 1, 0)",
    )
    .unwrap();
    let mut guild = db.prepare("INSERT INTO guilds VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, '{}', 0)").unwrap();
    let mut staff = db.prepare("INSERT INTO guild_staff VALUES (?1, ?2, ?3, '[\"5\"]')").unwrap();
    let snapshots = [(0, 2), (5, guilds), (7, 3), (9, 40), (11, 1)];
    for (snapshot, id) in snapshots.into_iter().flat_map(|(snapshot, count)| (0..count).map(move |id| (snapshot, id))) {
        let icon = (id % 3 == 0).then(|| format!("icon{id}"));
        guild.execute(params![snapshot, id << 22, "Hafen ⚓", icon, id, -id, id % 2, (id + 1) % 2]).unwrap();
        staff.execute(params![snapshot, id << 22, id]).unwrap();
    }
    let mut feedback = db.prepare("INSERT INTO feedback VALUES (?1, ?2, 5, 1, 2, 'u', 'n', 'a', ?3)").unwrap();
    // Together more than one read returns.
    for number in 0_i64..14 {
        let slot = (number % 2 == 0).then_some(number / 2);
        feedback.execute(params![format!("{number}\u{10ffff}"), "ü".repeat(200_000), slot]).unwrap();
    }
}

/// Everything visible, in key order.
pub(super) fn contents(db: &Connection) -> Vec<String> {
    let mut found = Vec::new();
    for (from, order) in [
        ("counter", "1"),
        ("users", "1"),
        ("sessions", "1"),
        ("code_claims", "1"),
        ("blocked_users", "1"),
        ("forgotten_users", "1"),
        ("audit", "1"),
        ("feed_shards", "1, 2"),
        ("totals", "1"),
        ("feed_sweeps WHERE snapshot NOT IN (9)", "1"),
        ("guilds WHERE snapshot NOT IN (9, 11)", "1, 2"),
        ("guild_staff WHERE snapshot NOT IN (9, 11)", "1, 2, 3"),
        ("feed_instances", "1, 2"),
        ("feed_own_shards", "1, 2, 3, 4"),
        ("subscriptions", "1"),
        ("subscription_guilds", "1, 2"),
        ("team", "1"),
        ("feedback", "1"),
        ("bot_keys", "1"),
        ("instances", "1, 2"),
        ("shards", "1"),
        ("history_minutes", "1"),
        ("history_days", "1"),
        ("incidents", "1"),
        ("announcements", "1"),
        ("history_updates", "1"),
        ("(SELECT id FROM sessions ORDER BY rowid)", "1"),
        ("(SELECT rowid, id FROM sessions)", "1"),
        ("(SELECT rowid, id FROM bot_keys)", "1"),
    ] {
        let mut statement = db.prepare(&format!("SELECT * FROM {from} ORDER BY {order}")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<Value> = (0..columns).map(|column| row.get_unwrap(column)).collect();
            found.push(format!("{from}: {values:?}"));
        }
    }
    found
}
