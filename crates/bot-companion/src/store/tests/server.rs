//! A database of its own on the PostgreSQL server that the tests are given.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{Client, NoTls};

use super::admit;
use crate::clock::Clock;
use crate::random::Random;
use crate::store::postgres::Postgres;
use crate::store::{Freshness, Store, StoreOptions};

/// The URL of a server's maintenance database, with a role that may create others.
const VARIABLE: &str = "BOT_COMPANION_TEST_POSTGRES";

/// An empty database, gone with the test.
pub(super) struct Database {
    server: String,
    name: String,
}

impl Database {
    /// Makes one; `None` where the tests have no server.
    pub(super) async fn new() -> Option<Self> {
        let Ok(server) = std::env::var(VARIABLE) else {
            println!("skipped: {VARIABLE} names no PostgreSQL server; run it with `scripts/with-postgres`");
            return None;
        };
        let name = format!("bot_companion_{:016x}", Random::from_system().number());
        connect(&server).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        Some(Self { server, name })
    }

    pub(super) fn url(&self) -> String {
        let (address, query) = self.server.split_once('?').unwrap_or((&self.server, ""));
        let (host, _) = address.rsplit_once('/').unwrap();
        format!("{host}/{}?{query}", self.name).trim_end_matches('?').to_owned()
    }

    pub(super) fn options(&self) -> StoreOptions {
        StoreOptions {
            url: self.url().into(),
            wait: Duration::from_mins(1),
            connections: 4,
            start_wait: Duration::from_mins(5),
        }
    }

    /// A replica's store.
    pub(super) async fn replica(&self) -> Replica {
        let freshness = Arc::new(Freshness::new(Clock::system()));
        let store = Postgres::open(&self.options(), Arc::clone(&freshness)).await.unwrap();
        if store.keys().await.unwrap().is_empty() {
            admit(&store).await;
        }
        Replica { store: Arc::new(store), freshness }
    }

    /// As another program would open it.
    pub(super) async fn outside(&self) -> Client {
        connect(&self.url()).await
    }

    pub(super) async fn rows(&self, table: &str) -> i64 {
        self.outside().await.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // Apart from the runtime of the test, which may be about to end.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let dropped = connect(&server).await.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
                if let Err(error) = dropped {
                    println!("the database {name} is left behind: {error}");
                }
            });
        });
        drop(dropping.join());
    }
}

/// One of several that share a database.
#[derive(Clone)]
pub(super) struct Replica {
    pub(super) store: Arc<dyn Store>,
    pub(super) freshness: Arc<Freshness>,
}

impl Replica {
    /// Waits until something holds; a test that waits in vain fails.
    pub(super) async fn eventually(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let waiting = async {
            while !holds().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_mins(5), waiting).await.is_ok(), "never came about: {what}");
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
