//! How fast snapshots and events come in: `cargo test --release -p bot-companion --lib -- --ignored --nocapture speed`; for
//! PostgreSQL too, put `scripts/with-postgres` in front.

use std::time::Instant;

use bytes::Bytes;
use domain::Change;
use domain::feed::Lines;
use futures_util::{SinkExt, TryStreamExt};

use super::fixture::Location;
use super::*;
use crate::SnapshotId;

const GUILDS: u64 = 200_000;
const BATCH: u64 = 2_000;
const STAFF: u64 = 5;

fn make(number: u64) -> GuildLine {
    let roles = |user: u64| (id((1_000_000_000 + number * 7 + user) << 20), vec![id(number << 22)]);
    let GuildLine::Guild(guild) = line(1, "A guild with a usual name", 2) else { unreachable!() };
    GuildLine::Guild(Guild { id: placed(number), staff: Some((0..STAFF).map(roles).collect()), ..guild })
}

#[tokio::test]
#[ignore = "measures"]
async fn staging_speed() {
    measure(&Fixture::on_sqlite().await).await;
    if let Some(fixture) = Fixture::on_postgres().await {
        measure(&fixture).await;
    }
}

/// Events that change a guild's member count, one per call and many per call.
#[tokio::test]
#[ignore = "measures"]
async fn event_speed() {
    measure_events(&Fixture::on_sqlite().await).await;
    if let Some(fixture) = Fixture::on_postgres().await {
        measure_events(&fixture).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "a measurement needs the real clock")]
async fn measure_events(fixture: &Fixture) {
    for id in 0..16 {
        let places: Vec<u64> = (1..=100).map(|place| place * 16 + id).collect();
        fixture.snapshot("a", shard(u32::try_from(id).unwrap(), 16), 1, &places, "one").await;
    }
    let mut next = 1;
    for (calls, events) in [(2_000, 1), (2_000, 1), (40, 500), (40, 500)] {
        let start = Instant::now();
        for _ in 0..calls {
            let change = |number: u64| {
                let (place, members) = (16 + number % 1_600, number % 977);
                Change::Guild(Guild { id: placed(place), members, ..guild(1) })
            };
            let changes: Vec<_> = (next..next + events).map(change).collect();
            assert_eq!(fixture.feed("a", next, &changes).await, applied(events, 0, next + events));
            next += events;
        }
        println!("{calls} calls with {events} events each: {:?} per call", start.elapsed() / calls);
    }
}

#[expect(clippy::disallowed_methods, reason = "a measurement needs the real clock")]
async fn measure(fixture: &Fixture) {
    for round in 1..=3 {
        let snapshot = fixture.begin(shard(0, 1), 1).await;
        let (mut busy, mut slowest) = (Duration::ZERO, Duration::ZERO);
        for first in (1..=GUILDS).step_by(usize::try_from(BATCH).unwrap()) {
            let lines = (first..first + BATCH).map(make).collect();
            let start = Instant::now();
            fixture.store.stage(snapshot, Lines::Guilds(lines)).await.unwrap();
            slowest = slowest.max(start.elapsed());
            busy += start.elapsed();
        }
        let start = Instant::now();
        fixture.store.commit_snapshot(snapshot, None, NOW).await.unwrap();
        let committed = start.elapsed();
        println!("round {round}: staged in {busy:?}, slowest batch {slowest:?}, commit {committed:?}");
        let rate = u128::from(GUILDS) * 1000 / busy.as_millis();
        println!("{rate} guilds/s, {} rows/s", rate * u128::from(1 + STAFF));
        if let Location::Server(database) = &fixture.location {
            let bare = copy_bare(database, snapshot).await;
            println!("a bare COPY: {bare:?}; ratio {:.2}", bare.as_secs_f64() / busy.as_secs_f64());
        }
        let start = Instant::now();
        let mut calls = 0;
        while fixture.store.clean_up(5_000).await.unwrap() > 0 {
            calls += 1;
        }
        println!("cleaned up in {:?}, {calls} calls", start.elapsed());
    }
}

/// How long the server takes to copy the same rows, as it wrote them itself, into tables with the same keys.
#[expect(clippy::disallowed_methods, reason = "a measurement needs the real clock")]
async fn copy_bare(database: &Database, snapshot: SnapshotId) -> Duration {
    let (outside, mut bare) = (database.outside().await, Duration::ZERO);
    for table in ["guilds", "guild_staff"] {
        let rows = format!("COPY (SELECT * FROM {table} WHERE snapshot = {}) TO STDOUT (FORMAT binary)", snapshot.0);
        let pieces: Vec<Bytes> = outside.copy_out(&rows).await.unwrap().try_collect().await.unwrap();
        outside.batch_execute(&format!("CREATE TABLE bare_{table} (LIKE {table} INCLUDING ALL)")).await.unwrap();
        let start = Instant::now();
        let sink = outside.copy_in::<_, Bytes>(&format!("COPY bare_{table} FROM STDIN (FORMAT binary)")).await.unwrap();
        futures_util::pin_mut!(sink);
        for piece in pieces {
            sink.feed(piece).await.unwrap();
        }
        sink.finish().await.unwrap();
        bare += start.elapsed();
        outside.batch_execute(&format!("DROP TABLE bare_{table}")).await.unwrap();
    }
    bare
}
