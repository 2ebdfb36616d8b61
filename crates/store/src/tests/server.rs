//! A separate database on the PostgreSQL server that the tests are given.

use std::time::Duration;

use runtime::random::Random;
use tokio_postgres::{Client, NoTls};

use super::{Replica, admit, new_freshness};
use crate::StoreOptions;

/// The URL of a server's maintenance database, with a role that may create others.
const VARIABLE: &str = "BOT_COMPANION_TEST_POSTGRES";

/// An empty database, removed with the test.
pub(crate) struct Database {
    server: String,
    name: String,
}

impl Database {
    pub(crate) fn is_available() -> bool {
        let is_available = std::env::var_os(VARIABLE).is_some();
        if !is_available {
            println!("skipped on PostgreSQL: {VARIABLE} names no server; run it with `scripts/with-postgres`");
        }
        is_available
    }

    /// `None` if the tests have no server.
    pub(crate) async fn new() -> Option<Self> {
        let server = Self::is_available().then(|| std::env::var(VARIABLE).unwrap())?;
        let name = format!("bot_companion_{:016x}", Random::from_system().number());
        connect(&server).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        Some(Self { server, name })
    }

    pub(crate) fn url(&self) -> String {
        let (address, query) = self.server.split_once('?').unwrap_or((&self.server, ""));
        let (host, _) = address.rsplit_once('/').unwrap();
        format!("{host}/{}?{query}", self.name).trim_end_matches('?').to_owned()
    }

    pub(crate) fn options(&self) -> StoreOptions {
        StoreOptions {
            url: self.url().into(),
            wait: Duration::from_mins(1),
            connections: 4,
            start_wait: Duration::from_mins(5),
        }
    }

    /// Opens it, as one of several processes may.
    pub(crate) async fn replica(&self) -> Replica {
        let replica = Replica::of_server(&self.options(), new_freshness()).await.unwrap();
        if replica.store.keys().await.unwrap().is_empty() {
            admit(&replica.store).await;
        }
        replica
    }

    /// The database as opened by another program.
    pub(crate) async fn outside(&self) -> Client {
        connect(&self.url()).await
    }

    /// How many connections to it wait for a lock.
    pub(crate) async fn waiting(&self) -> i64 {
        self.rows("pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").await
    }

    pub(crate) async fn rows(&self, table: &str) -> i64 {
        self.outside().await.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // Outside the test's runtime, which may be about to end.
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

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
