//! How fast snapshots come in, beside a bare `COPY` of the same rows.

use std::time::Instant;

use bytes::Bytes;
use futures_util::SinkExt;

use super::server::Database;
use super::*;
use crate::domain::feed::Lines;

const GUILDS: u64 = 1_000_000;
const BATCH: u64 = 2_000;
const STAFF: u64 = 5;

fn made(number: u64) -> GuildLine {
    let roles = |user: u64| (id((1_000_000_000 + number * 7 + user) << 20), vec![id(number << 22)]);
    let GuildLine::Guild(guild) = line(1, "A guild with a usual name", 2) else { unreachable!() };
    GuildLine::Guild(Guild { id: placed(number), staff: Some((0..STAFF).map(roles).collect()), ..guild })
}

/// `scripts/with-postgres cargo test --release -p bot-companion --lib -- --ignored --nocapture staging_beside_a_bare_copy`
#[tokio::test]
#[ignore = "measures"]
#[expect(clippy::disallowed_methods, reason = "a measurement needs the real clock")]
async fn staging_beside_a_bare_copy() {
    let Some(database) = Database::new().await else { return };
    let replica = database.replica().await;
    let outside = database.outside().await;
    for round in 1..=2 {
        let snapshot = replica.store.begin_snapshot(shard(0, 1), instance("a"), 1, NOW).await.unwrap();
        let (mut busy, mut slowest) = (Duration::ZERO, Duration::ZERO);
        for first in (1..=GUILDS).step_by(usize::try_from(BATCH).unwrap()) {
            let lines = (first..first + BATCH).map(made).collect();
            let start = Instant::now();
            replica.store.stage(snapshot, Lines::Guilds(lines)).await.unwrap();
            slowest = slowest.max(start.elapsed());
            busy += start.elapsed();
        }
        let start = Instant::now();
        replica.store.commit_snapshot(snapshot, NOW).await.unwrap();
        let committed = start.elapsed();
        println!("round {round}: staged in {busy:?}, slowest batch {slowest:?}, commit {committed:?}");

        // The same rows, as the database itself writes them down, into tables with the same keys.
        let mut bare = Duration::ZERO;
        for table in ["guilds", "guild_staff"] {
            let rows =
                format!("COPY (SELECT * FROM {table} WHERE snapshot = {}) TO STDOUT (FORMAT binary)", snapshot.0);
            let pieces: Vec<Bytes> = {
                use futures_util::TryStreamExt;
                outside.copy_out(&rows).await.unwrap().try_collect().await.unwrap()
            };
            outside.batch_execute(&format!("CREATE TABLE bare_{table} (LIKE {table} INCLUDING ALL)")).await.unwrap();
            let start = Instant::now();
            let sink = outside.copy_in::<_, Bytes>(&format!("COPY bare_{table} FROM STDIN (FORMAT binary)")).await;
            let sink = sink.unwrap();
            futures_util::pin_mut!(sink);
            for piece in pieces {
                sink.feed(piece).await.unwrap();
            }
            sink.finish().await.unwrap();
            bare += start.elapsed();
            outside.batch_execute(&format!("DROP TABLE bare_{table}")).await.unwrap();
        }
        println!("a bare COPY: {bare:?}; ratio {:.2}", bare.as_secs_f64() / busy.as_secs_f64());
        let start = Instant::now();
        let mut calls = 0;
        while replica.store.clean_up(5_000).await.unwrap() > 0 {
            calls += 1;
        }
        println!("cleaned up in {:?}, {calls} calls", start.elapsed());
    }
}
