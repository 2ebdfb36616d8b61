//! The cost of statements: which index they use, and how many rows they write.

use domain::Heartbeat;
use domain::health::ShardHeartbeat;
use rusqlite::Connection;

use super::*;
use crate::sql::coverage::select_covered;
use crate::sql::{Database as _, feedback, health, sessions};
use crate::sqlite::database::run;
use crate::sqlite::migrations;

fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = vec![1_i64; statement.parameter_count()];
    let rows = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, String>("detail"));
    rows.unwrap().map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

#[test]
fn no_statement_of_a_hot_path_walks_a_table_or_sorts() {
    let mut connection = Connection::open_in_memory().unwrap();
    migrations::run(&mut connection, crate::migrations::STEPS).unwrap();
    let of_user = sessions::of_user(&Connection::WORDS);
    for (sql, index) in [
        (sessions::OVERDUE_BY_LAST_SEEN, "sessions_last_seen"),
        (sessions::OVERDUE_BY_CREATED, "sessions_created"),
        (sessions::INTERRUPTED, "users_signing_in"),
        (of_user.as_str(), "sessions_user"),
    ] {
        let plan = plan(&connection, sql);
        assert!(plan.contains(index), "{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
    }
    let slots = plan(&connection, &feedback::by_slot::<Connection>());
    assert!(slots.contains("feedback_slot (slot=?)") && !slots.contains("SCAN feedback"), "{slots}");
    let covered = plan(&connection, &select_covered::<Connection>("asked.guild", "?1"));
    assert!(!covered.contains("SCAN feed_shards") && !covered.contains("SCAN cover"), "{covered}");
    // Goes through the index from its end, and stops at the first.
    let plan = plan(&connection, feedback::LAST_SLOT);
    assert!(plan.contains("feedback_slot") && !plan.contains("TEMP B-TREE"), "{plan}");
}

#[tokio::test]
async fn a_heartbeat_writes_only_what_changed() {
    let fixture = sqlite().await;
    let heartbeat = |instance: &str, started: u64, ids: std::ops::Range<u32>| Heartbeat {
        instance: crate::tests::instance(instance),
        started_at: Time::from_seconds(started),
        memory: 1000,
        shard_count: 4,
        shards: ids.map(|id| ShardHeartbeat { id, sent: Some(NOW), acknowledged: None, latency: Some(1.5) }).collect(),
        leaving: false,
    };
    fixture.store.record_heartbeat(heartbeat("a", 1, 0..2), NOW).await.unwrap();
    fixture.store.record_heartbeat(heartbeat("b", 2, 2..4), NOW).await.unwrap();
    let (again, next) = (heartbeat("b", 2, 2..4), NOW.after(Duration::from_secs(15)));
    let rows = fixture.sqlite().writer.write(move |connection, invalidated| {
        let before = connection.total_changes();
        run(health::record_heartbeat(connection, invalidated, &again, next))?;
        Ok(connection.total_changes() - before)
    });
    assert_eq!(rows.await.unwrap(), 3, "one process and its two shards");
}
