//! Backups and restores of real stores: files and, if `BOT_COMPANION_TEST_POSTGRES` names a server where databases may
//! be created, real PostgreSQL databases.

mod backups;
mod data;
mod disturbances;
mod refusals;
mod schemas;
mod table_list;
mod tombstones;

use std::sync::Arc;

use aws_lc_rs::digest;
use rusqlite::Connection;
use secrecy::SecretString;
use test_support::TestFolder;

use super::*;
use crate::tests::{Database, connect, new_freshness};
use crate::{Store, StoreOptions};

/// Runs a test's work to its end.
fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// The stores of a test, removed with it.
struct Home {
    folder: TestFolder,
    databases: Vec<Database>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    File,
    Server,
}

/// The possible combinations here.
fn ways() -> Vec<(On, On)> {
    let mut ways = vec![(On::File, On::File)];
    if has_server() {
        ways.extend([(On::File, On::Server), (On::Server, On::File), (On::Server, On::Server)]);
    }
    ways
}

fn destinations() -> Vec<On> {
    if has_server() { vec![On::File, On::Server] } else { vec![On::File] }
}

fn has_server() -> bool {
    Database::is_available()
}

/// Runs a statement on the server, on a separate thread.
fn ask(url: &str, sql: &str) {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    let asked = std::thread::spawn(move || {
        run(async {
            connect(&url).await.batch_execute(&sql).await.unwrap();
        });
    });
    asked.join().unwrap();
}

impl Home {
    fn new() -> Self {
        Self { folder: TestFolder::new(), databases: Vec::new() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    /// A store that does not exist yet, or is empty.
    fn store(&mut self, on: On, name: &str) -> SecretString {
        if on == On::File {
            return of_file(&self.file(name));
        }
        let database = run(Database::new()).unwrap();
        let url = database.url();
        self.databases.push(database);
        url.into()
    }

    /// A store with something in every table, enough for several batches.
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
        run(moved(&file, &database)).unwrap();
        std::fs::remove_file(self.file("full.db")).unwrap();
        database
    }
}

/// Opens a store as a service does.
async fn open(url: &SecretString) -> crate::Result<Arc<Store>> {
    let options = StoreOptions {
        url: url.clone(),
        wait: Duration::from_mins(1),
        connections: 2,
        start_wait: Duration::from_mins(5),
    };
    crate::open(options, new_freshness()).await
}

const NOW: Time = Time::from_seconds(2_000_000_000);

fn unseen(_: Progress<'_>) {}

fn taking(url: &SecretString) -> BackupOptions {
    BackupOptions { url: url.clone(), start_wait: Duration::from_mins(5), now: NOW }
}

fn backed_up(home: &Home, url: &SecretString, name: &str) -> std::result::Result<BackupHeader, BackupError> {
    run(back_up(&taking(url), &home.file(name), &mut unseen))
}

/// The default options for a restore; each test changes what it is about.
fn options(home: &Home, url: &SecretString, name: &str) -> RestoreOptions {
    RestoreOptions {
        url: url.clone(),
        start_wait: Duration::from_mins(5),
        file: home.file(name),
        replace: false,
        keep_sessions: true,
        now: NOW,
    }
}

fn restored(what: &RestoreOptions) -> std::result::Result<RestoreReport, BackupError> {
    run(restore(what, &mut unseen))
}

/// Moves everything into an empty store.
async fn moved(from: &SecretString, to: &SecretString) -> std::result::Result<RestoreReport, BackupError> {
    let home = Home::new();
    back_up(&taking(from), &home.file("backup"), &mut unseen).await?;
    restore(&options(&home, to, "backup"), &mut unseen).await
}

/// The contents of a store. Those of a database are read through a file that they are moved to.
fn contents(url: &SecretString) -> Vec<String> {
    looked_at(url, data::contents)
}

fn looked_at<T>(url: &SecretString, look: impl FnOnce(&Connection) -> T) -> T {
    let folder = TestFolder::new();
    let path = crate::local_file(url).unwrap_or_else(|| {
        let path = folder.path("contents.db");
        run(moved(url, &of_file(&path))).unwrap();
        path
    });
    look(&Connection::open(path).unwrap())
}

fn of_file(path: &Path) -> SecretString {
    format!("sqlite:{}", path.display()).into()
}
