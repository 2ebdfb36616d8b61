//! A disk that fails under the running service, and comes back.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use rusqlite::Connection;

use super::{TestApp, eventually};

/// What lies under a service's database: its write-ahead log, and somebody else who uses it.
pub struct Disk<'a> {
    app: &'a TestApp,
    log: File,
    beside: Connection,
}

/// What is lost while the disk fails.
#[must_use = "without it the disk stays broken"]
pub struct Lost(Vec<u8>);

impl<'a> Disk<'a> {
    /// To be called before anything is asked for that is to stay in memory.
    pub async fn under(app: &'a TestApp) -> Self {
        let database = app.folder.path().join("test.db");
        let beside = Connection::open(&database).unwrap();
        let log = OpenOptions::new().read(true).write(true).open(database.with_extension("db-wal")).unwrap();
        // Puts the first page, which every read needs, into the log.
        beside.execute_batch("PRAGMA application_id = 7").unwrap();
        let disk = Self { app, log, beside };
        disk.noticed().await;
        disk
    }

    /// The log is lost: from now on neither reads nor writes succeed, and the service has noticed.
    pub async fn fails(&self) -> Lost {
        // The service keeps pages in memory until somebody else commits. The log must be lost before that: whoever reads in
        // between would learn that there was a change and nothing more.
        self.beside.execute_batch("BEGIN IMMEDIATE; UPDATE counter SET value = value + 1").unwrap();
        let before = content(&self.log);
        self.log.set_len(0).unwrap();
        self.beside.execute_batch("COMMIT").unwrap();
        let mut lost = content(&self.log);
        lost[..before.len()].copy_from_slice(&before);
        self.log.set_len(0).unwrap();
        eventually("the service has noticed", async || self.app.app.freshness.in_doubt()).await;
        Lost(lost)
    }

    /// The disk works again with all that was on it, and the service has noticed.
    pub async fn recovers(&self, lost: Lost) {
        self.log.write_all_at(&lost.0, 0).unwrap();
        // What was read of the log while it was being lost is forgotten.
        self.beside.execute_batch("UPDATE counter SET value = value + 1").unwrap();
        self.noticed().await;
        assert!(!self.app.app.freshness.in_doubt());
    }

    /// Before each write the service looks whether somebody else has written.
    async fn noticed(&self) {
        eventually("a write succeeds", async || self.app.app.store.note_seen(vec![]).await.is_ok()).await;
    }
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}
