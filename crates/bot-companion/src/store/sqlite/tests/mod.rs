//! The store against its promises, on real files.

mod data;
mod files;
mod flow;
mod people;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use super::Sqlite;
use crate::domain::{Guild, ListedGuild, Session, SessionId, Snowflake, Time, TokenHash, User};
use crate::store::{CodeHash, Freshness, SealedGrant, Store, StoredList, Topic};

const NOW: Time = Time::from_seconds(1_000_000);

/// A directory of its own, gone with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("bot-companion-store-{}-{number}", std::process::id())))
    }

    fn database(&self) -> PathBuf {
        self.0.join("deep").join("store.db")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

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
        let (scratch, freshness) = (Scratch::new(), Arc::new(Freshness::default()));
        let store = Arc::new(Sqlite::open(scratch.database(), wait, Arc::clone(&freshness)).await.unwrap());
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
        self.store.save_grant(person(user), grant(device)).await.unwrap();
        self.store.open_session(person(user), token(device), session(user, device)).await.unwrap();
    }
}

fn id(number: u64) -> Snowflake {
    Snowflake::new(number).unwrap()
}

fn person(number: u64) -> User {
    User { username: format!("u{number}"), name: format!("U {number}"), id: id(number), avatar: "https://a".to_owned() }
}

fn grant(number: u8) -> SealedGrant {
    SealedGrant(vec![number; 8])
}

fn token(number: u8) -> TokenHash {
    TokenHash([number; 32])
}

fn code(number: u8) -> CodeHash {
    CodeHash([number; 32])
}

fn session_id(number: u8) -> SessionId {
    SessionId::parse(&format!("{number:016}")).unwrap()
}

/// Device `n` signed in `n` seconds after `NOW`.
fn session(user: u64, device: u8) -> Session {
    let created = NOW.after(Duration::from_secs(device.into()));
    Session { id: session_id(device), user: id(user), created, last_seen: created, agent: "test".to_owned() }
}

fn list(guilds: &[u64]) -> StoredList {
    let guilds = guilds.iter().map(|guild| ListedGuild { id: id(*guild), permissions: 8 }).collect();
    StoredList { fetched: NOW, guilds }
}

fn guild(number: u64) -> Guild {
    Guild {
        id: id(number),
        name: format!("G {number}"),
        icon: None,
        owner: id(1),
        members: 10,
        setup: true,
        linked: false,
        grants: None,
        staff: None,
    }
}
