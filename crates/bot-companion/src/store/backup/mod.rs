//! Backups of a store, taken while the service runs, and their restoration into a store of either kind.

mod format;
mod restoring;

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;

pub use format::{BackupHeader, SchemaVersions, TableHeader};
use format::{BackupReader, BackupWriter};
pub use restoring::{RestoreOptions, RestoreReport, restore};

use super::copy::statements::RowFilter;
use super::copy::tables::TABLES;
use super::{StoreError, postgres, sqlite};
use crate::domain::Time;
use crate::version::Version;

/// What to back up, and where to.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// The URL of the store.
    pub url: SecretString,
    /// How long to keep trying to reach a database server.
    pub start_wait: Duration,
    /// The file, which must not be there yet.
    pub file: PathBuf,
    /// The time.
    pub now: Time,
}

/// Why there is no backup, or why it was not restored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BackupError {
    /// It would not have been right.
    #[error("{0}")]
    Refused(String),
    /// The file cannot be read or written.
    #[error("the file {0}")]
    File(String),
    /// The store did not do what it was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How many rows are done, and of how many.
pub type Done<'a> = &'a mut (dyn FnMut(u64, u64) + Send);

/// The versions of the schema that this release has.
fn schema() -> SchemaVersions {
    SchemaVersions { sqlite: sqlite::store_copy::SCHEMA, postgres: postgres::store_copy::SCHEMA }
}

/// Writes everything into a file that only its owner can read, reads it again, and gives it its name at the end. All of it is of one
/// moment; the service goes on meanwhile.
pub async fn back_up(what: &BackupOptions, watch: Done<'_>) -> Result<BackupHeader, BackupError> {
    super::check(&what.url).map_err(|problem| BackupError::Refused(format!("store.url: {problem}")))?;
    if what.file.exists() {
        return Err(BackupError::Refused(format!("{} is there already; name another file", what.file.display())));
    }
    let mut name = what.file.clone().into_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(name);
    let written = match write(what, &part, watch).await {
        Ok(header) => publish(&part, &what.file).map(|()| header),
        Err(error) => Err(error),
    };
    if written.is_err() {
        // It may not even have been made.
        let _ = fs::remove_file(&part);
    }
    written
}

async fn write(what: &BackupOptions, part: &Path, watch: Done<'_>) -> Result<BackupHeader, BackupError> {
    let mut source = match super::local_file(&what.url) {
        Some(path) if !path.exists() => {
            return Err(BackupError::Refused(format!("there is no database at {}", path.display())));
        }
        Some(path) => sqlite::store_copy::source(path).await?,
        None => postgres::store_copy::source(&what.url, what.start_wait).await?,
    };
    source.freeze().await?;
    let mut header = BackupHeader {
        release: Version::NAME.to_owned(),
        taken: what.now.millis(),
        store: super::kind(&what.url).to_owned(),
        schema: schema(),
        counter: source.counter().await?,
        tables: Vec::new(),
    };
    for table in TABLES {
        header.tables.push(TableHeader::new(table, source.count(table, RowFilter::Worthwhile).await?));
    }
    let of = header.tables.iter().map(|table| table.rows).sum();
    let wrong = |error: std::io::Error| cannot("be written", part, &error);
    let mut open = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut open, 0o600);
    let file = open.write(true).create_new(true).open(part).map_err(wrong)?;
    let mut writer = BackupWriter::begin(BufWriter::new(file), &header).map_err(wrong)?;
    let mut done = 0;
    for table in TABLES {
        let mut after = None;
        loop {
            let rows = source.read(table, RowFilter::Worthwhile, after).await?;
            let Some(last) = rows.last() else { break };
            after = last.get(..table.key).map(<[_]>::to_vec);
            for row in &rows {
                writer.row(row).map_err(wrong)?;
            }
            done += rows.len() as u64;
            watch(done, of);
        }
    }
    let file = writer.finish().map_err(wrong)?;
    file.get_ref().sync_all().map_err(wrong)?;
    // What is on the disk is what was meant.
    let mut reader = open_backup(part)?;
    while reader.next()?.is_some() {}
    if reader.header != header {
        return Err(BackupError::Refused("what was written is not what was meant; check the disk".to_owned()));
    }
    Ok(header)
}

/// Gives the file its name, also if the power is cut now.
fn publish(part: &Path, file: &Path) -> Result<(), BackupError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let published = fs::rename(part, file).and_then(|()| File::open(folder)?.sync_all());
    published.map_err(|error| cannot("be named", file, &error))
}

fn open_backup(path: &Path) -> Result<BackupReader<BufReader<File>>, BackupError> {
    let file = File::open(path).map_err(|error| cannot("be read", path, &error))?;
    BackupReader::begin(BufReader::new(file), schema())
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> BackupError {
    BackupError::File(format!("{} cannot {what}: {error}", path.display()))
}
