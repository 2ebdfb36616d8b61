//! Copies between real stores: files, and databases of a real PostgreSQL where `BOT_COMPANION_TEST_POSTGRES` names one in which
//! databases may be made.

mod copies;
mod data;
mod refusals;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::clock::Clock;
use crate::store::{Freshness, Store, StoreOptions};

/// What a test runs on; runs to its end what was begun on it.
fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A place for stores, gone with the test.
struct Home {
    folder: PathBuf,
    databases: Vec<String>,
}

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    File,
    Server,
}

/// The ways that can be gone here.
fn ways() -> Vec<(On, On)> {
    let mut ways = vec![(On::File, On::File)];
    if server().is_some() {
        ways.extend([(On::File, On::Server), (On::Server, On::File), (On::Server, On::Server)]);
    }
    ways
}

/// Where a copy can go.
fn destinations() -> Vec<On> {
    if server().is_some() { vec![On::File, On::Server] } else { vec![On::File] }
}

/// The server's maintenance database.
fn server() -> Option<String> {
    let url = std::env::var("BOT_COMPANION_TEST_POSTGRES").ok().filter(|url| !url.is_empty());
    if url.is_none() {
        println!("skipped on PostgreSQL: BOT_COMPANION_TEST_POSTGRES is not set");
    }
    url
}

/// The URL of another database of the same server.
fn beside(url: &str, database: &str) -> String {
    let (address, options) = url.split_once('?').map_or((url, String::new()), |(a, o)| (a, format!("?{o}")));
    let (host, _) = address.rsplit_once('/').unwrap();
    format!("{host}/{database}{options}")
}

/// Has the server do something, on a thread of its own.
fn ask(url: &str, sql: &str) {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    let asked = std::thread::spawn(move || {
        run(async {
            let (client, connection) = postgres::copy::connected(&url.into()).await.unwrap();
            client.batch_execute(&sql).await.unwrap();
            connection.abort();
        });
    });
    asked.join().unwrap();
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Home {
    fn new() -> Self {
        Self { folder: crate::scratch::folder(), databases: Vec::new() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A store that is not there yet, or is empty.
    fn store(&mut self, on: On, name: &str) -> SecretString {
        if on == On::File {
            return format!("sqlite:{}", self.file(name).display()).into();
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let database = format!("companion_copy_{}_{number}", std::process::id());
        let maintenance = server().unwrap();
        ask(&maintenance, &format!("CREATE DATABASE {database}"));
        let url = beside(&maintenance, &database);
        self.databases.push(database);
        url.into()
    }

    /// A store with something in every table, for several batches.
    fn full(&mut self, on: On) -> SecretString {
        self.filled(on, data::GUILDS)
    }

    /// A file with something in every table.
    fn small(&mut self) -> SecretString {
        self.filled(On::File, 3)
    }

    fn filled(&mut self, on: On, guilds: i64) -> SecretString {
        let file = self.store(On::File, "full.db");
        run(async { open(&file).await.unwrap().close().await });
        data::fill(&Connection::open(self.file("full.db")).unwrap(), guilds);
        if on == On::File {
            return file;
        }
        let database = self.store(On::Server, "full");
        run(copied(&file, &database)).unwrap();
        std::fs::remove_file(self.file("full.db")).unwrap();
        database
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
        for database in &self.databases {
            ask(&server().unwrap(), &format!("DROP DATABASE {database} WITH (FORCE)"));
        }
    }
}

/// Opens a store as a service does.
async fn open(url: &SecretString) -> Result<Arc<dyn Store>> {
    let options = StoreOptions {
        url: url.clone(),
        wait: Duration::from_mins(1),
        connections: 2,
        start_wait: Duration::from_mins(5),
    };
    super::super::open(options, Arc::new(Freshness::new(Clock::system()))).await
}

fn what(from: &SecretString, to: &SecretString) -> Copy {
    Copy { from: from.clone(), to: to.clone(), start_over: false, start_wait: Duration::from_mins(5) }
}

async fn copied(from: &SecretString, to: &SecretString) -> std::result::Result<Report, CopyError> {
    copy(&what(from, to), |_| ()).await
}

/// Copies until it is told to stop, and breaks off as an interrupt does; gives what came of it if it was not told.
fn copied_until(
    from: &SecretString,
    to: &SecretString,
    mut is_enough: impl FnMut(Progress) -> bool,
) -> Option<std::result::Result<Report, CopyError>> {
    let (what, stop) = (what(from, to), CancellationToken::new());
    run(async {
        let copying = copy(&what, |progress| {
            if is_enough(progress) {
                stop.cancel();
            }
        });
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            copied = copying => Some(copied),
        }
    })
}

/// Copies until some of the guilds are there.
fn broken_off(from: &SecretString, to: &SecretString) {
    let mut seen = 0;
    let outcome = copied_until(from, to, |progress| {
        seen += u32::from(progress.table == "guilds");
        seen == 2
    });
    assert!(outcome.is_none(), "it was not broken off: {outcome:?}");
}

/// What is in a store, through a file; a copy that is not like the original would show.
fn contents(home: &mut Home, url: &SecretString) -> Vec<String> {
    let path = super::super::local_file(url).unwrap_or_else(|| {
        let name = format!("contents-{}.db", NUMBER.fetch_add(1, Ordering::Relaxed));
        let file = home.store(On::File, &name);
        run(copied(url, &file)).unwrap();
        home.file(&name)
    });
    data::contents(&Connection::open(path).unwrap())
}
