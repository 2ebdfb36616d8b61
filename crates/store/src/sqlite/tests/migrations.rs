//! Files written by earlier releases.

use domain::{Change, Time};
use rusqlite::Connection;

use crate::tests::*;

#[tokio::test]
async fn a_file_of_the_first_schema_keeps_its_guilds() {
    let folder = TestFolder::new();
    std::fs::create_dir_all(folder.path(FILE).parent().unwrap()).unwrap();
    let first = Connection::open(folder.path(FILE)).unwrap();
    first.execute_batch(include_str!("../migrations/0001_start.sql")).unwrap();
    let data = "PRAGMA user_version = 1;
        INSERT INTO guilds VALUES (4194304, 'one', 'icon', 1, 5, 1, 0, '{\"70\":[\"MOD\"]}'),
            (8388608, 'two', NULL, 1, 5, 1, 0, '{}');
        INSERT INTO guild_staff VALUES (4194304, 2, '[\"70\"]'), (4194304, 3, '[\"70\"]');";
    first.execute_batch(data).unwrap();
    drop(first);
    let mut fixture = Fixture::on_file(folder).await;
    admit(&*fixture.store).await;
    assert_eq!(fixture.names().await, [(1, "one".to_owned(), true), (2, "two".to_owned(), false)]);
    assert_eq!(fixture.count("guild_staff").await, 2);
    assert_eq!(fixture.store.feed_state().await.unwrap().guilds, 2);
    fixture.store.apply(vec![Change::GuildGone(placed(1))]).await.unwrap();
    assert_eq!(fixture.count("guild_staff").await, 0);
    fixture.snapshot("a", shard(0, 1), 1, &[3], "three").await;
    fixture.clean().await;
    assert_eq!(fixture.count("guilds").await, 1);
    fixture.reopen().await;
    assert_eq!(fixture.map().await, "three: [3]");
    assert_eq!(fixture.store.feed_state().await.unwrap().guilds, 1);
}

#[tokio::test]
async fn a_file_from_before_the_keys_of_instances_gives_them_to_the_only_key() {
    for (keys, expected) in
        [("('only', 'x', x'01', 1, NULL)", "only"), ("('a', '', x'01', 1, 2), ('b', '', x'02', 1, NULL)", "")]
    {
        let folder = TestFolder::new();
        std::fs::create_dir_all(folder.path(FILE).parent().unwrap()).unwrap();
        let first = Connection::open(folder.path(FILE)).unwrap();
        for step in [
            include_str!("../migrations/0001_start.sql"),
            include_str!("../migrations/0002_feed.sql"),
            include_str!("../migrations/0003_refresh.sql"),
        ] {
            first.execute_batch(step).unwrap();
        }
        // An instance whose clock ran ahead has frozen the shard.
        let data = format!(
            "PRAGMA user_version = 3;
            INSERT INTO bot_keys VALUES {keys};
            INSERT INTO feed_instances VALUES ('ahead', 7, 1000, 9000000, 2000), ('silent', 1, 900, NULL, 900);
            INSERT INTO instances VALUES ('ahead', 9000000, 5, 2000, 1);
            INSERT INTO shards VALUES (0, 'ahead', 9000000, 2000, 0, 0, 0.0);
            INSERT INTO feed_shards VALUES (1, 0, 5, 6, 'ahead', 1500, 1);
            INSERT INTO guilds VALUES (5, 4194304, 'one', NULL, 1, 5, 1, 0, '{{}}')"
        );
        first.execute_batch(&data).unwrap();
        drop(first);
        let fixture = Fixture::on_file(folder).await;
        let store = &fixture.store;
        let state = store.feed_state().await.unwrap();
        let known: Vec<_> =
            state.instances.iter().map(|it| (it.instance.key.as_str(), it.next, it.started_at)).collect();
        assert_eq!(known, [(expected, 7, Some(Time::from_millis(1000))), (expected, 1, None)]);
        assert_eq!(state.shards[0].instance.key, expected);
        let health = store.health().await.unwrap();
        assert_eq!(health.shards[&0].started_at, Time::from_millis(2000));
        assert_eq!(health.shards[&0].instance.key, expected);
        assert_eq!(store.person(id(1), vec![placed(1)]).await.unwrap().guilds.len(), 1);
    }
}
