//! The store of a test: an SQLite file in its folder, or its own database on the PostgreSQL server that the environment names.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, mpsc};
use std::time::Duration;

use domain::Time;
use runtime::clock::Clock;
use store::{self, Freshness, StoreOptions};
use test_support::TestFolder;
use tokio_postgres::{Client, NoTls};

use super::soon;

/// `postgres` runs the suite on PostgreSQL; SQLite otherwise.
const CHOICE: &str = "BOT_COMPANION_TEST_STORE";
/// The URL of a server's maintenance database, with a role that may create others.
const SERVER: &str = "BOT_COMPANION_TEST_POSTGRES";
/// How long the server may take for the test's own statements.
const PATIENCE: Duration = super::PATIENCE;
/// The key that replicas share; the check of the suite's log looks for it. It encodes `suite-key-material-of-32-bytes!!`.
const KEY: &str = "suite:c3VpdGUta2V5LW1hdGVyaWFsLW9mLTMyLWJ5dGVzISE=";

/// The URL of the server, if the suite runs on PostgreSQL.
fn server() -> Option<&'static str> {
    static URL: LazyLock<Option<String>> = LazyLock::new(|| match std::env::var(CHOICE).as_deref() {
        Ok("postgres") => Some(std::env::var(SERVER).unwrap_or_else(|_| {
            panic!("{CHOICE} is `postgres`, but {SERVER} is not set: run it with `scripts/with-postgres`")
        })),
        Ok("sqlite") | Err(_) => None,
        Ok(other) => panic!("{CHOICE} is `{other}`: write `sqlite` or `postgres`"),
    });
    URL.as_deref()
}

/// Whether the suite runs on PostgreSQL.
pub fn on_postgres() -> bool {
    server().is_some()
}

/// Ends a test that is about the SQLite file itself, if the suite runs on another store.
macro_rules! sqlite_only {
    ($why:literal) => {
        if $crate::harness::on_postgres() {
            println!("not for PostgreSQL: {}", $why);
            return;
        }
    };
}
pub(crate) use sqlite_only;

/// A folder that is removed with its last user, together with the store.
pub struct Folder {
    folder: TestFolder,
    /// Created on first use, because many tests need none.
    database: OnceLock<String>,
}

impl Folder {
    pub fn new() -> Self {
        Self { folder: TestFolder::new(), database: OnceLock::new() }
    }

    pub fn path(&self) -> &Path {
        self.folder.root()
    }

    /// The options that point the service to this folder's store.
    pub fn store_configuration(&self) -> String {
        match self.url() {
            None => format!("store.url = \"sqlite:{}\"", self.file().display()),
            // Few connections, because many tests share the server; and on a busy machine each may take its time.
            Some(url) => {
                let mark = if url.contains('?') { '&' } else { '?' };
                format!(
                    "store.url = \"{url}{mark}connect_timeout=60\"\nstore.connections = 4\nsecrets.keys = [\"{KEY}\"]"
                )
            }
        }
    }

    /// Creates the store, unless there is one. The service could do so itself, but migrations take time.
    pub fn make_store(&self) {
        if server().is_none() && !self.file().exists() {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.file()).unwrap();
            file.write_all(&SQLITE_TEMPLATE).unwrap();
        }
    }

    /// Changes the store without the service.
    pub async fn sql(&self, statements: &str) {
        match self.url() {
            None => rusqlite::Connection::open(self.file()).unwrap().execute_batch(statements).unwrap(),
            Some(url) => run(url, statements.to_owned()).await,
        }
    }

    pub async fn count(&self, table: &str) -> usize {
        let sql = format!("SELECT count(*) FROM {table}");
        let count: i64 = match self.url() {
            None => rusqlite::Connection::open(self.file()).unwrap().query_row(&sql, [], |row| row.get(0)).unwrap(),
            Some(url) => connect(&url).await.unwrap().query_one(&sql, &[]).await.unwrap().get(0),
        };
        usize::try_from(count).unwrap()
    }

    /// Everything stored: SQLite's files including the write-ahead log, or every row in PostgreSQL.
    pub fn at_rest(&self) -> Vec<u8> {
        let Some(url) = self.url() else {
            let files = std::fs::read_dir(self.path()).unwrap().map(|file| file.unwrap().path());
            return files.flat_map(|file| std::fs::read(file).unwrap()).collect();
        };
        apart(async move {
            let client = connect(&url).await.unwrap();
            // Bytes that are letters show as letters.
            client.batch_execute("SET bytea_output = escape").await.unwrap();
            let tables = client.query("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'", &[]);
            let mut text = String::new();
            for table in tables.await.unwrap() {
                let table: String = table.get(0);
                let rows = client.query(&format!("SELECT row::text FROM {table} AS row"), &[]).await.unwrap();
                text.extend(rows.iter().map(|row| row.get::<_, String>(0)));
            }
            text.into_bytes()
        })
        .unwrap()
    }

    /// The key that encrypts the provider's tokens, configured or created by the service.
    pub fn key(&self) -> String {
        match server() {
            None => std::fs::read_to_string(self.folder.path("data.db.key")).unwrap(),
            Some(_) => KEY.to_owned(),
        }
    }

    /// The file of the SQLite store.
    pub fn file(&self) -> PathBuf {
        self.folder.path("data.db")
    }

    fn database(&self, server: &str) -> &str {
        self.database.get_or_init(|| {
            let name = unique("suite").replace('-', "_");
            ask(server, &format!("CREATE DATABASE {name} TEMPLATE {}", template(server))).unwrap();
            name
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let (Some(server), Some(name)) = (server(), self.database.get()) {
            // The test may already be failing, and what is left goes with the server.
            let _ = ask(server, &format!("DROP DATABASE {name} WITH (FORCE)"));
        }
    }
}

fn unique(name: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The URL of another database of that server.
fn at(server: &str, database: &str) -> String {
    let (address, query) = server.split_once('?').unwrap_or((server, ""));
    let (host, _) = address.rsplit_once('/').unwrap();
    format!("{host}/{database}?{query}").trim_end_matches('?').to_owned()
}

/// An empty database with the newest schema, because copying it is faster than creating one. One per process. Its clock is later
/// than any test's.
fn template(server: &str) -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let name = format!("suite_{}_template", std::process::id());
        ask(server, &format!("CREATE DATABASE {name}")).unwrap();
        let options =
            StoreOptions { url: at(server, &name).into(), wait: PATIENCE, connections: 2, start_wait: PATIENCE };
        apart(async move {
            let store = store::open(options, Arc::new(Freshness::new(Clock::system()))).await.unwrap();
            store.close().await;
        })
        .unwrap();
        ask(&at(server, &name), &clock_at("2100-01-01")).unwrap();
        name
    })
}

fn clock_at(time: &str) -> String {
    format!(
        "CREATE OR REPLACE FUNCTION pg_catalog.now() RETURNS timestamptz STABLE LANGUAGE sql AS $$SELECT '{time}'::timestamptz$$"
    )
}

/// An empty file with the newest schema.
static SQLITE_TEMPLATE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = TestFolder::new();
    let file = folder.path("template.db");
    let url = format!("sqlite:{}", file.display()).into();
    let options = StoreOptions { url, wait: PATIENCE, connections: 2, start_wait: PATIENCE };
    apart(async move {
        let store = store::open(options, Arc::new(Freshness::new(Clock::system()))).await.unwrap();
        store.close().await;
    })
    .unwrap();
    std::fs::read(file).unwrap()
});

/// Runs statements one by one in this database.
fn ask(url: &str, statements: &str) -> Result<(), String> {
    let (url, statements) = (url.to_owned(), statements.to_owned());
    apart(async move {
        let client = connect(&url).await?;
        client.batch_execute(&statements).await.map_err(|error| format!("{error:?}"))
    })?
}

async fn connect(url: &str) -> Result<Client, String> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(|error| format!("{error:?}"))?;
    tokio::spawn(connection);
    Ok(client)
}

/// Runs this on its own runtime, because the test's may be about to end. Nobody waits forever.
fn apart<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, String> {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // Nobody waits any more if it took too long.
        let _ = done.send(runtime.block_on(work));
    });
    result.recv_timeout(PATIENCE).map_err(|error| format!("it takes too long, or has panicked: {error}"))
}

/// Another client's lock on a table, released when this is dropped.
pub struct TableLock(#[expect(dead_code, reason = "its end is what counts")] mpsc::Sender<()>);

impl Folder {
    /// Blocks writes to the sessions until the lock is dropped; reads continue.
    pub async fn keep_out(&self) -> TableLock {
        self.hold("LOCK TABLE sessions IN SHARE MODE").await
    }

    /// Opens a transaction and leaves it open: on SQLite one that blocks all writes, on PostgreSQL one with this lock.
    pub(super) async fn hold(&self, lock: &'static str) -> TableLock {
        let (release, released) = mpsc::channel::<()>();
        let (ready, begun) = tokio::sync::oneshot::channel();
        let file = self.file();
        let url = self.url();
        std::thread::spawn(move || match url {
            None => {
                let other = rusqlite::Connection::open(file).unwrap();
                other.execute_batch("BEGIN IMMEDIATE").unwrap();
                let _ = ready.send(());
                let _ = released.recv();
            }
            Some(url) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let other = connect(&url).await.unwrap();
                    other.batch_execute(&format!("BEGIN; {lock}")).await.unwrap();
                    let _ = ready.send(());
                    let _ = released.recv();
                    let _ = other.batch_execute("ROLLBACK").await;
                });
            }
        });
        soon("the table is held", begun).await.unwrap();
        TableLock(release)
    }

    /// Sets the database's clock, which then stands still. Only PostgreSQL has one.
    pub async fn set_clock(&self, time: Time) {
        self.sql(&clock_at(&time.iso8601())).await;
    }

    /// Locks the service out of its database, or lets it in again. Only PostgreSQL can do this.
    pub async fn let_in(&self, yes: bool) {
        let (server, name) = (server().unwrap(), self.database.get().unwrap());
        run(server.to_owned(), format!("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS {yes}")).await;
        if !yes {
            let out = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname";
            run(server.to_owned(), format!("{out} = '{name}'")).await;
        }
    }

    /// How many of the service's connections wait for a lock in a statement that starts like this.
    pub(super) async fn waiting(&self, statement: &'static str) -> usize {
        let url = self.url().unwrap();
        let found = tokio::task::spawn_blocking(move || {
            apart(async move {
                let sql = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()
                    AND wait_event_type = 'Lock' AND starts_with(query, $1)";
                connect(&url).await.unwrap().query(sql, &[&statement]).await.unwrap().len()
            })
        });
        found.await.unwrap().unwrap()
    }

    /// The URL of the database on PostgreSQL.
    pub fn server_url(&self) -> String {
        self.url().unwrap()
    }

    /// The URL of the database, if it is PostgreSQL's.
    fn url(&self) -> Option<String> {
        server().map(|server| at(server, self.database(server)))
    }
}

/// Runs statements outside the test's runtime, on which the service has to keep running.
async fn run(url: String, statements: String) {
    tokio::task::spawn_blocking(move || ask(&url, &statements)).await.unwrap().unwrap();
}
