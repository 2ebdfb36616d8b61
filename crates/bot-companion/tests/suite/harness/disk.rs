//! A store that fails under the running service, and comes back: SQLite loses its log, PostgreSQL refuses connections.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::Connection;

use super::{TestApp, eventually, on_postgres};

/// What is under a service's store.
pub struct Disk<'a> {
    app: &'a TestApp,
    /// For SQLite.
    files: Option<Files>,
}

/// The write-ahead log, and another user of the database.
struct Files {
    log: File,
    beside: Connection,
}

/// What is lost while the disk fails.
#[must_use = "without it the disk stays broken"]
pub struct Lost(Vec<u8>);

impl<'a> Disk<'a> {
    /// Call this before requesting anything that should stay in memory.
    pub async fn under(app: &'a TestApp) -> Self {
        let disk = Self { app, files: (!on_postgres()).then(|| Files::of(&app.folder.file())) };
        disk.noticed().await;
        disk
    }

    /// From now on neither reads nor writes succeed, and the service has noticed.
    pub async fn fails(&self) -> Lost {
        let lost = if let Some(files) = &self.files {
            files.lost()
        } else {
            self.app.folder.let_in(false).await;
            Vec::new()
        };
        eventually("the service has noticed", async || self.app.app.sources.freshness.is_suspended()).await;
        Lost(lost)
    }

    /// Everything works again with all its data, and the service has noticed.
    pub async fn recovers(&self, lost: Lost) {
        match &self.files {
            Some(files) => files.restored(&lost.0),
            None => self.app.folder.let_in(true).await,
        }
        self.noticed().await;
        eventually("the cache is valid again", async || !self.app.app.sources.freshness.is_suspended()).await;
    }

    /// Before each write to SQLite, the service checks whether someone else has written.
    async fn noticed(&self) {
        eventually("a write succeeds", async || self.app.app.sources.store.note_seen(vec![]).await.is_ok()).await;
    }
}

impl Files {
    fn of(database: &Path) -> Self {
        let beside = Connection::open(database).unwrap();
        let log = OpenOptions::new().read(true).write(true).open(database.with_extension("db-wal")).unwrap();
        // Puts the first page, which every read needs, into the log.
        beside.execute_batch("PRAGMA application_id = 7").unwrap();
        Self { log, beside }
    }

    /// Loses the log.
    fn lost(&self) -> Vec<u8> {
        // The service caches pages until someone else commits. The log must be lost before that: a reader in between would only
        // learn that there was a change.
        self.beside.execute_batch("BEGIN IMMEDIATE; UPDATE counter SET value = value + 1").unwrap();
        let before = content(&self.log);
        self.log.set_len(0).unwrap();
        self.beside.execute_batch("COMMIT").unwrap();
        let mut lost = content(&self.log);
        lost[..before.len()].copy_from_slice(&before);
        self.log.set_len(0).unwrap();
        lost
    }

    fn restored(&self, lost: &[u8]) {
        self.log.write_all_at(lost, 0).unwrap();
        // What was read from the log while it was being lost is forgotten.
        self.beside.execute_batch("UPDATE counter SET value = value + 1").unwrap();
    }
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}
