//! The SQLite file, and how connections to it are set up.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use runtime::file_access::{self, OTHERS};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::errors::file_remedy;
use crate::columns::unsigned;
use crate::{Result, StoreError};

/// How long SQLite itself waits for another process's lock.
const BUSY: Duration = Duration::from_secs(5);
/// More than there are different statements.
const STATEMENTS: usize = 192;

/// Runs work on a thread where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| StoreError::Failed(format!("{what} panicked")))?
}

/// Creates the file and its folder, unless they exist.
pub(super) fn create(path: &Path) -> Result<()> {
    create_private(path).map_err(|error| unusable(path, &error))
}

/// What is wrong with a file that cannot be created or used.
pub(super) fn unusable(path: &Path, error: &io::Error) -> StoreError {
    let exists = error.kind() == io::ErrorKind::PermissionDenied && path.exists();
    StoreError::Failed(if exists {
        let (owner, remedy) = (file_access::owner_and_mode(path), file_access::remedy(path));
        format!("{} cannot be opened: {error}: {owner}; run {remedy}", location(path))
    } else {
        format!("the file cannot be created: {error}; {}", file_remedy(error))
    })
}

/// The full path, for people.
pub(crate) fn location(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// The files that others can read, each with what to run.
pub(crate) fn cautions(path: &Path) -> Vec<String> {
    let beside = ["", "-wal"].map(|suffix| format!("{}{suffix}", location(path)));
    let open = beside.iter().filter(|file| file_access::is_open_to(Path::new(file), OTHERS));
    open.map(|file| format!("everyone on this machine can read the database; run `chmod 600 {file}`")).collect()
}

/// Only the owner can read the file, because it contains grants. SQLite gives the files next to it the same mode.
fn create_private(path: &Path) -> std::io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        DirBuilder::new().mode(0o700).recursive(true).create(parent)?;
    }
    OpenOptions::new().mode(0o600).append(true).create(true).open(path).map(drop)
}

/// Bytes at the start of a write-ahead log, and before each page in it. Both have the same salt, which changes when the log
/// starts over.
const LOG_HEADER: u64 = 32;
const LOG_HEADER_SALT: u64 = 16;
const LOG_PAGE_HEADER: u64 = 24;
const LOG_PAGE_SALT: u64 = 8;

type Salt = [u8; 8];

/// Which file was opened, and which write-ahead log next to it, whatever is at their paths by now.
pub(super) struct FileIdentity {
    database: OpenedFile,
    log: Option<Log>,
    /// The size of a page, and of the file when it was last complete; 0 before.
    page: u64,
    whole: u64,
}

struct Log {
    opened: OpenedFile,
    /// SQLite keeps its locks on other files, so closing this one releases none of them.
    content: File,
    /// How many pages it had when it was last complete, and its salt then.
    whole: u64,
    salt: Salt,
}

struct OpenedFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl FileIdentity {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let database = OpenedFile::at(path.to_owned())
            .map_err(|error| StoreError::Unavailable(format!("the file cannot be inspected: {error}")))?;
        Ok(Self { database, log: None, page: 0, whole: 0 })
    }

    /// Also remembers the log. SQLite keeps it for as long as a connection that can write is open.
    pub(super) fn remember_log(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.log = Log::at(log_of(&self.database.path)).ok();
        self.page = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).map(unsigned)?;
        Ok(())
    }

    /// Whether the file or its log was truncated while it was open; nothing else makes them shorter than what SQLite has
    /// written. What is written after the cut cannot be read after the next start. The connection must not be in a transaction.
    pub(super) fn was_cut(&mut self, connection: &Connection) -> Option<&'static str> {
        // Another process may write between two checks.
        let is_cut = |look: &mut dyn FnMut() -> Option<bool>| (0..3).all(|_| look() == Some(true));
        if is_cut(&mut || self.log_is_cut(connection)) {
            return Some("its write-ahead log, the -wal file, was cut off while it was open");
        }
        is_cut(&mut || self.database_is_cut(connection)).then_some("it was cut off while it was open")
    }

    /// `None` if that cannot be determined.
    fn log_is_cut(&mut self, connection: &Connection) -> Option<bool> {
        let log = self.log.as_mut()?;
        // Only checks, and moves nothing into the database.
        let mut look = connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)").ok()?;
        let pages = look.query_row([], |row| row.get(1)).map(unsigned).ok()?;
        log.is_cut(pages, LOG_PAGE_HEADER + self.page)
    }

    fn database_is_cut(&mut self, connection: &Connection) -> Option<bool> {
        let size = self.database.size().filter(|_| self.page > 0)?;
        // Only a vacuum makes it shorter, and then it still has all pages.
        if size < self.whole {
            let pages = connection
                .prepare_cached("PRAGMA page_count")
                .and_then(|mut look| look.query_row([], |row| row.get(0)))
                .map(unsigned);
            if pages.map_or(true, |pages: u64| size < pages * self.page) {
                return Some(true);
            }
        }
        self.whole = size;
        Some(false)
    }

    /// Why the files at the paths are not what was opened; `None` if they are, or if that cannot be determined now.
    pub(super) fn lost(&self) -> Option<&'static str> {
        self.database.lost().or_else(|| {
            self.log.as_ref()?.opened.lost()?;
            Some("its write-ahead log, the -wal file, was deleted, moved or replaced")
        })
    }
}

impl Log {
    fn at(path: PathBuf) -> io::Result<Self> {
        let content = File::open(&path)?;
        Ok(Self { opened: OpenedFile::at(path)?, content, whole: 0, salt: Salt::default() })
    }

    /// Whether part of this many pages is missing. The length alone doesn't tell: a write in progress during the cut makes the
    /// log long enough again, with a hole where data was.
    fn is_cut(&mut self, pages: u64, page: u64) -> Option<bool> {
        if pages == 0 {
            return Some(false);
        }
        let start_of = |number: u64| LOG_HEADER + (number - 1) * page;
        if self.opened.size()? < start_of(pages + 1) {
            return Some(true);
        }
        let salt = self.salt_at(LOG_HEADER_SALT)?;
        // Every log has a salt; only a hole is all zeros.
        if salt == Salt::default() {
            return Some(true);
        }
        // The last page from the previous check is still there, unless the log has started over.
        if salt == self.salt && self.whole > 0 && self.salt_at(start_of(self.whole) + LOG_PAGE_SALT)? != salt {
            return Some(true);
        }
        (self.whole, self.salt) = (pages, salt);
        Some(false)
    }

    fn salt_at(&self, offset: u64) -> Option<Salt> {
        let mut salt = Salt::default();
        self.content.read_exact_at(&mut salt, offset).ok().map(|()| salt)
    }
}

impl OpenedFile {
    fn at(path: PathBuf) -> io::Result<Self> {
        let file = std::fs::metadata(&path)?;
        Ok(Self { path, device: file.dev(), inode: file.ino() })
    }

    fn size(&self) -> Option<u64> {
        std::fs::metadata(&self.path).map(|file| file.len()).ok()
    }

    fn lost(&self) -> Option<&'static str> {
        match std::fs::metadata(&self.path) {
            Ok(file) if file.dev() != self.device => Some("another file system is mounted there"),
            Ok(file) if file.ino() != self.inode => Some("another file is there"),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Some("it was deleted or moved, or its volume is not mounted")
            }
            Ok(_) | Err(_) => None,
        }
    }
}

pub(super) fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut file = path.as_os_str().to_owned();
    file.push(suffix);
    file.into()
}

pub(super) fn connect(path: &Path) -> Result<Connection> {
    // Without SQLITE_OPEN_URI, so that a path is a path, whatever it looks like.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // A plan must not depend on the values: for a table with a partial index, SQLite would parse a cached statement again for
    // every value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // All deleted data is overwritten, not only by `users forget`: a sign-out deletes a name, too.
    connection.pragma_update(None, "secure_delete", true)?;
    Ok(connection)
}

/// Whether the file has a write-ahead log: it is open somewhere, or was when its process crashed.
pub(super) fn has_log(path: &Path) -> bool {
    log_of(path).exists()
}

/// Opens the file for reading, and creates no other next to it.
pub(super) fn connect_read_only(path: &Path) -> Result<Connection> {
    use std::os::unix::ffi::OsStrExt as _;
    // Without a log, nobody has the file open. Even a reader would create one, unless it is told that nothing changes. With a
    // journal, the file is being restored, or that was interrupted.
    let immutable = if has_log(path) || beside(path, "-journal").exists() { "" } else { "&immutable=1" };
    let escaped = |byte: &u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let uri: String = whole.as_os_str().as_bytes().iter().map(escaped).collect();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("file:{uri}?mode=ro{immutable}"), flags)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

pub(super) fn configure_writer(connection: &Connection) -> Result<()> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError::Failed("its directory cannot hold a write-ahead log; use a local disk".to_owned()));
    }
    // Acknowledged writes survive a power cut.
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // In pages: at most 4 MiB of changes wait for a checkpoint, unless a long read holds it up.
    connection.pragma_update(None, "wal_autocheckpoint", 1000)?;
    // In bytes: after a long read has made the log grow, it shrinks again.
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    Ok(())
}
