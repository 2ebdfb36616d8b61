//! The store against its promises, on real files.

mod data;
mod feed;
mod feed_model;
mod files;
mod flow;
mod people;
mod snapshots;

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::Sqlite;
use crate::clock::Clock;
use crate::domain::feed::{Event, GuildLine, Lines, Scope, ShardKey};
use crate::domain::{Change, Guild, GuildFacts, Heartbeat, Permission, PermissionSet, Time};
use crate::store::tests::*;
use crate::store::{Admission, Committed, Fed, Freshness, GrantSaved, Lease, Store, Topic};

struct Fixture {
    store: Arc<Sqlite>,
    freshness: Arc<Freshness>,
    scratch: Scratch,
}

impl Fixture {
    async fn new() -> Self {
        Self::waiting(Duration::from_mins(1)).await
    }

    async fn waiting(wait: Duration) -> Self {
        let (scratch, freshness) = (Scratch::new(), Arc::new(Freshness::new(Clock::system())));
        let store = Arc::new(Sqlite::open(scratch.database(), wait, Arc::clone(&freshness)).await.unwrap());
        admit(&*store).await;
        Self { store, freshness, scratch }
    }

    /// The same file, opened anew.
    async fn reopened(self) -> Self {
        self.store.close().await;
        let store = Sqlite::open(self.scratch.database(), Duration::from_mins(1), Arc::clone(&self.freshness));
        Self { store: Arc::new(store.await.unwrap()), ..self }
    }

    /// As another process would open it.
    fn outside(&self) -> Connection {
        Connection::open(self.scratch.database()).unwrap()
    }

    fn outside_count(&self, table: &str) -> i64 {
        self.outside().query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }

    /// Which of these topics the work has touched.
    async fn touched<T>(&self, topics: &[Topic], work: impl Future<Output = T>) -> (T, Vec<Topic>) {
        let marks = || topics.iter().map(|topic| self.freshness.mark(&[*topic].into_iter().collect()));
        let before: Vec<_> = marks().collect();
        let outcome = work.await;
        let changed = topics.iter().zip(before.into_iter().zip(marks())).filter(|(_, (before, after))| before != after);
        (outcome, changed.map(|(topic, _)| *topic).collect())
    }

    /// Signs a user in from a device, with a grant of its own.
    async fn sign_in(&self, user: u64, device: u8) {
        assert_eq!(self.save_grant(user, device).await, GrantSaved::Saved);
        self.open_session(user, device).await;
    }

    async fn save_grant(&self, user: u64, device: u8) -> GrantSaved {
        self.store.save_grant(person(user), grant(device), NOW, None).await.unwrap()
    }

    async fn open_session(&self, user: u64, device: u8) -> Admission {
        self.store.open_session(person(user), token(device), session(user, device), 50).await.unwrap()
    }

    /// The users whose grants wait to be revoked, with the device that each came from.
    fn to_revoke(&self) -> Vec<(u64, u8)> {
        let outside = self.outside();
        let sql = "SELECT user_id, grant_sealed FROM revocations WHERE grant_sealed IS NOT NULL ORDER BY user_id";
        let mut statement = outside.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))).unwrap();
        let device = |sealed: &[u8]| (0..=u8::MAX).find(|device| grant(*device).0 == sealed).unwrap();
        rows.map(|row| row.unwrap()).map(|(user, sealed)| (user.try_into().unwrap(), device(&sealed))).collect()
    }
}

impl Fixture {
    /// Sends a snapshot of the places of a shard that all have one name, with user 2 as their moderator.
    async fn snapshot(&self, by: &str, scope: Scope, at: u64, places: &[u64], name: &str) -> Committed {
        let lines = places.iter().map(|place| line(*place, name, 2)).collect();
        self.snapshot_of(by, scope, at, Lines::Guilds(lines)).await
    }

    async fn snapshot_of(&self, by: &str, scope: Scope, at: u64, lines: Lines) -> Committed {
        let snapshot = self.store.begin_snapshot(scope, instance(by), at, NOW).await.unwrap();
        self.store.stage(snapshot, lines).await.unwrap();
        self.store.commit_snapshot(snapshot, NOW).await.unwrap()
    }

    async fn feed(&self, by: &str, first: u64, changes: &[Change]) -> Fed {
        let events = changes.iter().cloned().map(Event::Change).collect();
        self.store.feed(instance(by), first, events, NOW).await.unwrap()
    }

    async fn started(&self, by: &str, seconds: u64) {
        let (instance, started_at) = (instance(by), Time::from_seconds(seconds));
        let beat = Heartbeat { instance, started_at, memory: 1, shard_count: 1, shards: Vec::new() };
        self.store.beat(beat, NOW).await.unwrap();
    }

    /// The names of the guilds of the first twelve places that have the bot, and where user 2 is a moderator.
    async fn names(&self) -> Vec<(u64, String, bool)> {
        let facts = self.store.person(id(2), (1..=12).map(placed).collect()).await.unwrap();
        let shown = |guild: GuildFacts| (guild.id.get() >> 22, guild.name, guild.granted.has(Permission::Mod));
        facts.guilds.into_iter().map(shown).collect()
    }

    /// The places of the guilds by their names, as `name: places`.
    async fn map(&self) -> String {
        let mut map = std::collections::BTreeMap::<String, Vec<u64>>::new();
        for (place, name, _) in self.names().await {
            map.entry(name).or_default().push(place);
        }
        map.iter().map(|(name, places)| format!("{name}: {places:?}")).collect::<Vec<_>>().join(", ")
    }

    async fn clean(&self) {
        let before = self.names().await;
        for _ in 0..1000 {
            if self.store.clean_up(3).await.unwrap() == 0 {
                assert_eq!(self.names().await, before);
                return;
            }
        }
        panic!("cleaning up does not end");
    }
}
