//! A store of either kind, with helpers for what tests do over and over.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::feed::{Event, Lines};
use domain::{Change, GuildFacts, Heartbeat};
use runtime::clock::Clock;
use rusqlite::Connection;

use super::server::Database;
use super::*;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;
use crate::store::Backend;
use crate::{
    Access, Admission, BatchOutcome, Committed, Freshness, GrantSaved, Result, SnapshotId, Store, StoreOptions, Topic,
};

/// How long reads and writes wait for their turn, unless a test overrides it.
const WAIT: Duration = Duration::from_mins(1);

pub(crate) fn new_freshness() -> Arc<Freshness> {
    Arc::new(Freshness::new(Clock::system()))
}

/// A store opened by one process.
pub(crate) struct Replica {
    pub(crate) store: Arc<Store>,
    pub(crate) freshness: Arc<Freshness>,
    /// Whether other processes may change the store too.
    is_shared: bool,
}

/// A store and its data, which are removed with the test.
pub(crate) struct Fixture {
    pub(crate) replica: Replica,
    pub(crate) location: Location,
}

pub(crate) enum Location {
    File(TestFolder),
    Server(Database),
}

impl Deref for Fixture {
    type Target = Replica;

    fn deref(&self) -> &Replica {
        &self.replica
    }
}

impl Fixture {
    /// The SQLite store itself, for tests that look inside; `wait` is how long its reads and writes wait for their turn.
    pub(crate) async fn of_sqlite(wait: Duration) -> Self {
        let folder = TestFolder::new();
        let replica = Replica::of_file(&folder, wait, new_freshness()).await;
        admit(&replica.store).await;
        Self { replica, location: Location::File(folder) }
    }

    pub(crate) fn sqlite(&self) -> &Sqlite {
        match &self.store.0 {
            Backend::Sqlite(sqlite) => sqlite,
            Backend::Postgres(_) => unreachable!("it was opened on a file"),
        }
    }

    pub(crate) fn file(&self) -> PathBuf {
        match &self.location {
            Location::File(folder) => folder.path(FILE),
            Location::Server(_) => unreachable!("it was opened on a file"),
        }
    }

    /// The file as opened by another process.
    pub(crate) fn outside(&self) -> Connection {
        Connection::open(self.file()).unwrap()
    }
}

impl Fixture {
    pub(crate) async fn on_sqlite() -> Self {
        Self::of_sqlite(WAIT).await
    }

    /// `None` if the tests have no server.
    pub(crate) async fn on_postgres() -> Option<Self> {
        let database = Database::new().await?;
        Some(Self { replica: database.replica().await, location: Location::Server(database) })
    }

    /// Ends the process that has the store open and starts another one. The counters stay, so that marks can be compared.
    pub(crate) async fn reopen(&mut self) {
        self.store.close().await;
        let freshness = Arc::clone(&self.freshness);
        self.replica = match &self.location {
            Location::File(folder) => Replica::of_file(folder, WAIT, freshness).await,
            Location::Server(database) => {
                // No process knows which of the others are gone, so a staged snapshot is discarded once it is old.
                self.sql("UPDATE staged_snapshots SET touched = touched - interval '11 minutes'").await;
                Replica::of_server(&database.options(), freshness).await.unwrap()
            }
        };
    }
}

impl Fixture {
    pub(super) fn server(&self) -> &Database {
        match &self.location {
            Location::Server(database) => database,
            Location::File(_) => unreachable!("it was opened on a server"),
        }
    }

    /// Runs statements as another program would.
    pub(crate) async fn sql(&self, statements: &str) {
        match &self.location {
            Location::File(folder) => Connection::open(folder.path(FILE)).unwrap().execute_batch(statements).unwrap(),
            Location::Server(database) => database.outside().await.batch_execute(statements).await.unwrap(),
        }
    }

    /// Reads a whole number and a text from each row, as another program would.
    pub(crate) async fn select(&self, sql: &str) -> Vec<(i64, String)> {
        match &self.location {
            Location::File(folder) => {
                let connection = Connection::open(folder.path(FILE)).unwrap();
                let mut statement = connection.prepare(sql).unwrap();
                let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
                rows.map(std::result::Result::unwrap).collect()
            }
            Location::Server(database) => {
                let rows = database.outside().await.query(sql, &[]).await.unwrap();
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
        }
    }

    pub(crate) async fn count(&self, table: &str) -> i64 {
        self.select(&format!("SELECT count(*), '' FROM {table}")).await[0].0
    }

    /// Every column of every table: the table's name and the column's.
    pub(crate) async fn columns(&self) -> Vec<(String, String)> {
        let sql = match self.location {
            Location::File(_) => {
                "SELECT 0, m.name || ' ' || c.name FROM sqlite_schema m, pragma_table_xinfo(m.name) c WHERE m.type = 'table'"
            }
            Location::Server(_) => {
                "SELECT 0::bigint, table_name || ' ' || column_name FROM information_schema.columns WHERE table_schema = 'public'"
            }
        };
        let split =
            |(_, both): (i64, String)| both.split_once(' ').map(|(table, column)| (table.into(), column.into()));
        self.select(sql).await.into_iter().filter_map(split).collect()
    }

    /// Every row of every table, as text.
    pub(crate) async fn everything(&self) -> String {
        let is_file = matches!(self.location, Location::File(_));
        let tables = if is_file {
            "SELECT 0, name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
        } else {
            "SELECT 0::bigint, tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
        };
        let mut found = String::new();
        for (_, table) in self.select(tables).await {
            let rows = if is_file {
                let columns = format!("SELECT 0, name FROM pragma_table_info('{table}')");
                let columns = self.select(&columns).await;
                let quoted: Vec<_> = columns.iter().map(|(_, column)| format!("quote(\"{column}\")")).collect();
                format!("SELECT 0, {} FROM {table}", quoted.join(" || ' ' || "))
            } else {
                format!("SELECT 0::bigint, stored::text FROM {table} AS stored")
            };
            found.extend(self.select(&rows).await.into_iter().map(|(_, row)| format!("{table}: {row}\n")));
        }
        found
    }

    /// The users whose grants wait to be revoked, with the device that each came from.
    pub(crate) async fn to_revoke(&self) -> Vec<(u64, u8)> {
        let hexadecimal = match &self.location {
            Location::File(_) => "lower(hex(grant_sealed))",
            Location::Server(_) => "encode(grant_sealed, 'hex')",
        };
        let sql =
            format!("SELECT user_id, {hexadecimal} FROM revocations WHERE grant_sealed IS NOT NULL ORDER BY user_id");
        let sealed = |device: u8| format!("{device:02x}").repeat(grant(device).0.len());
        let device = |found: &str| (0..=u8::MAX).find(|device| sealed(*device) == found).unwrap();
        self.select(&sql).await.iter().map(|(user, found)| (u64::try_from(*user).unwrap(), device(found))).collect()
    }

    /// Asserts that exactly the visible rows are left after cleaning up, and that the counts match.
    pub(crate) async fn assert_clean(&self) {
        self.clean().await;
        let visible = self.names().await.len();
        assert_eq!(self.count("guilds").await, i64::try_from(visible).unwrap());
        assert_eq!(self.store.feed_state().await.unwrap().guilds, visible as u64);
        self.assert_totals().await;
        for table in ["feed_sweeps", "staged_snapshots", "staged_kept", "staged_subscriptions"] {
            assert_eq!(self.count(table).await, 0, "{table}");
        }
    }
}

impl Replica {
    /// Asserts that the totals match the visible guilds in the first twelve places.
    pub(crate) async fn assert_totals(&self) {
        let visible = self.store.person(id(2), (1..=12).map(placed).collect()).await.unwrap().guilds;
        let stats = self.store.stats().await.unwrap();
        let members = visible.iter().map(|guild| guild.members).sum::<u64>();
        assert_eq!((stats.guilds, stats.members), (visible.len() as u64, members));
    }
}

impl Clone for Replica {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), freshness: Arc::clone(&self.freshness), is_shared: self.is_shared }
    }
}

impl Replica {
    async fn of_file(folder: &TestFolder, wait: Duration, freshness: Arc<Freshness>) -> Self {
        let store = Sqlite::open(folder.path(FILE), Access::ReadWrite, wait, Arc::clone(&freshness)).await.unwrap();
        Self { store: Arc::new(store.into()), freshness, is_shared: false }
    }
}

impl Replica {
    pub(super) async fn of_server(options: &StoreOptions, freshness: Arc<Freshness>) -> Result<Self> {
        let store = Postgres::open(options, Access::ReadWrite, Arc::clone(&freshness)).await?;
        Ok(Self { store: Arc::new(store.into()), freshness, is_shared: true })
    }
}

impl Replica {
    /// Which of these topics the work has invalidated. A connection to a server that broke in the meantime does not count;
    /// SQLite has none, so every mark that differs counts.
    pub(crate) async fn invalidated<T>(&self, topics: &[Topic], work: impl Future<Output = T>) -> (T, Vec<Topic>) {
        let on = |topic: &Topic| [*topic].into_iter().collect();
        let before: Vec<_> = topics.iter().map(|topic| self.freshness.mark(&on(topic))).collect();
        let outcome = work.await;
        let is_stale = |(topic, mark): &(&Topic, _)| {
            if self.is_shared {
                !self.freshness.may_serve_stale(&on(topic), *mark)
            } else {
                self.freshness.mark(&on(topic)) != *mark
            }
        };
        (outcome, topics.iter().zip(before).filter(is_stale).map(|(topic, _)| *topic).collect())
    }

    /// Applies changes, and returns which of these topics they have invalidated.
    pub(crate) async fn apply(&self, topics: &[Topic], changes: Vec<Change>) -> Vec<Topic> {
        let (applied, invalidated) = self.invalidated(topics, self.store.apply(changes)).await;
        applied.unwrap();
        invalidated
    }

    /// Signs a user in from a device, with its own grant.
    pub(crate) async fn sign_in(&self, user: u64, device: u8) {
        assert_eq!(self.save_grant(user, device).await, GrantSaved::Saved);
        self.open_session(user, device).await;
    }

    pub(crate) async fn save_grant(&self, user: u64, device: u8) -> GrantSaved {
        self.store.save_grant(person(user), grant(device), NOW, None).await.unwrap()
    }

    pub(crate) async fn open_session(&self, user: u64, device: u8) -> Admission {
        self.store.open_session(person(user), token(device), session(user, device), 50).await.unwrap()
    }

    pub(crate) async fn begin(&self, scope: Scope, at: u64) -> SnapshotId {
        self.store.begin_snapshot(scope, instance("a"), at, NOW).await.unwrap()
    }

    pub(crate) async fn stage(&self, snapshot: SnapshotId, lines: &[GuildLine]) {
        self.store.stage(snapshot, Lines::Guilds(lines.to_vec())).await.unwrap();
    }

    /// Sends a snapshot of a shard's places, all with one name and user 2 as their moderator.
    pub(crate) async fn snapshot(&self, by: &str, scope: Scope, at: u64, places: &[u64], name: &str) -> Committed {
        let lines = places.iter().map(|place| line(*place, name, 2)).collect();
        self.snapshot_of(by, scope, at, Lines::Guilds(lines)).await
    }

    pub(crate) async fn snapshot_of(&self, by: &str, scope: Scope, at: u64, lines: Lines) -> Committed {
        let snapshot = self.store.begin_snapshot(scope, instance(by), at, NOW).await.unwrap();
        self.store.stage(snapshot, lines).await.unwrap();
        self.store.commit_snapshot(snapshot, None, NOW).await.unwrap()
    }

    pub(crate) async fn feed(&self, by: &str, first: u64, changes: &[Change]) -> BatchOutcome {
        let events = changes.iter().cloned().map(Event::Change).collect();
        self.store.feed(instance(by), first, events, NOW).await.unwrap()
    }

    /// A heartbeat that says when the instance started.
    pub(crate) async fn started(&self, by: &str, seconds: u64) {
        let (instance, started_at) = (instance(by), Time::from_seconds(seconds));
        let heartbeat =
            Heartbeat { instance, started_at, memory: 1, shard_count: 1, shards: Vec::new(), leaving: false };
        self.store.record_heartbeat(heartbeat, NOW).await.unwrap();
    }

    /// The names of the guilds in the first twelve places that have the bot, and where user 2 is a moderator.
    pub(crate) async fn names(&self) -> Vec<(u64, String, bool)> {
        let facts = self.store.person(id(2), (1..=12).map(placed).collect()).await.unwrap();
        let shown = |guild: GuildFacts| (guild.id.get() >> 22, guild.name, guild.granted.has(Permission::Mod));
        facts.guilds.into_iter().map(shown).collect()
    }

    /// The places of the guilds by name, as `name: places`.
    pub(crate) async fn map(&self) -> String {
        let mut map = std::collections::BTreeMap::<String, Vec<u64>>::new();
        for (place, name, _) in self.names().await {
            map.entry(name).or_default().push(place);
        }
        map.iter().map(|(name, places)| format!("{name}: {places:?}")).collect::<Vec<_>>().join(", ")
    }

    /// Cleans up until nothing is left to do; nobody may see a difference.
    pub(crate) async fn clean(&self) {
        let before = self.names().await;
        for _ in 0..1000 {
            if self.store.clean_up(3).await.unwrap() == 0 {
                assert_eq!(self.names().await, before);
                return;
            }
        }
        panic!("cleaning up does not end");
    }

    /// Waits until a condition holds; the test fails if it never does.
    pub(super) async fn eventually(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let waiting = async {
            while !is_so().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_mins(5), waiting).await.is_ok(), "never came about: {what}");
    }
}
