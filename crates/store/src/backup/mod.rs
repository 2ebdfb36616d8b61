//! The only way that data leaves or enters a store. A backup is taken while the service runs, and restored into either kind of
//! store. It is loaded into the schema it was made with, and migrated from there.

pub(crate) mod format;
#[cfg(test)]
mod fuzz;
mod numbers;
mod restore;
pub(crate) mod side;
pub(crate) mod statements;
pub(crate) mod tables;
#[cfg(test)]
mod tests;
pub(crate) mod value;

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;

pub use format::{BackupHeader, TableHeader};
use format::{BackupReader, BackupWriter};
pub use restore::{RestoreOptions, RestoreReport, restore};

use domain::{Snowflake, Time};
use telemetry::Version;

use self::side::{Batches, Side};
use self::tables::TABLES;
use self::value::{CellValue, Row};
use super::{HeldGrant, SealedGrant, StoreError, postgres, sqlite};
use crate::migrations::{NEWEST, STEPS};
use crate::schema_version::Steps;

#[derive(Clone, Debug)]
pub struct BackupOptions {
    pub url: SecretString,
    /// How long to keep trying to reach a database server.
    pub start_wait: Duration,
    pub now: Time,
}

/// Why there is no backup, or why it was not restored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BackupError {
    /// It would not have been safe.
    #[error("{0}")]
    Refused(String),
    /// The file cannot be read or written.
    #[error("the file {0}")]
    File(String),
    /// The output is no longer read.
    #[error("the backup could not be written to standard output: {0}. What arrived is not a complete backup")]
    Output(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    pub table: &'a str,
    pub rows: u64,
    /// The total number of rows.
    pub of: u64,
}

/// Follows a backup or a restore.
pub trait BackupWatch: Send {
    fn progress(&mut self, progress: Progress<'_>);
    /// This grant is in the backup.
    fn grant(&mut self, _grant: &HeldGrant) {}
}

impl<F: FnMut(Progress<'_>) + Send> BackupWatch for F {
    fn progress(&mut self, progress: Progress<'_>) {
        self(progress);
    }
}

/// The grant in a row, if its table has grants.
fn grant_of(table: &TableHeader, row: &Row) -> Option<HeldGrant> {
    let user = match table.name.as_str() {
        "users" => "id",
        "revocations" => "user_id",
        _ => return None,
    };
    match (table.cell(row, user)?, table.cell(row, "grant_sealed")?) {
        (CellValue::Integer(user), CellValue::Bytes(sealed)) => {
            Some(HeldGrant { user: snowflake(*user)?, sealed: SealedGrant(sealed.clone()) })
        }
        _ => None,
    }
}

fn snowflake(number: i64) -> Option<Snowflake> {
    u64::try_from(number).ok().and_then(Snowflake::new)
}

/// Writes everything to a file that only its owner can read, reads it back, and only then gives it its name; the file must not
/// exist yet. The backup is a consistent snapshot, and the service keeps running.
pub async fn back_up(
    what: &BackupOptions,
    file: &Path,
    watch: &mut dyn BackupWatch,
) -> Result<BackupHeader, BackupError> {
    if file.exists() {
        return Err(is_there(file));
    }
    let mut name = file.to_owned().into_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(name);
    let written = match write_file(what, &part, watch).await {
        Ok(header) => publish(&part, file).map(|()| header),
        Err(error) => Err(error),
    };
    if written.is_err() {
        // It may not even have been created.
        let _ = fs::remove_file(&part);
    }
    written
}

/// Writes everything to `out` only. It is not read back; `restore` verifies its checksum.
pub async fn back_up_to(
    what: &BackupOptions,
    out: impl Write,
    watch: &mut dyn BackupWatch,
) -> Result<BackupHeader, BackupError> {
    let wrong = |error: std::io::Error| BackupError::Output(error.to_string());
    let mut source = BackupSource::open(what).await?;
    source.write(out, wrong, watch).await?;
    Ok(source.header)
}

/// A frozen store, and the header of its backup.
struct BackupSource {
    store: Box<dyn Side>,
    header: BackupHeader,
}

impl BackupSource {
    async fn open(what: &BackupOptions) -> Result<Self, BackupError> {
        super::check(&what.url).map_err(|problem| BackupError::Refused(format!("store.url: {problem}")))?;
        let mut store = match super::local_file(&what.url) {
            Some(path) if !path.exists() => {
                return Err(BackupError::Refused(format!("there is no database at {}", path.display())));
            }
            Some(path) => sqlite::backup::source(path).await?,
            None => postgres::backup::source(&what.url, what.start_wait).await?,
        };
        store.freeze().await?;
        let kind = super::kind(&what.url);
        let mut header = BackupHeader {
            release: Version::NAME.to_owned(),
            taken: what.now.millis(),
            store: kind.to_owned(),
            schema: NEWEST,
            counter: store.counter().await?,
            tables: Vec::new(),
        };
        if !numbers::is_plausible(header.counter) {
            return Err(BackupError::Refused(format!(
                "the store's counter is at {}, which no store reaches on its own: it was restored from a tampered backup. \
                 Restore a good backup with `restore --replace` to fix it",
                header.counter
            )));
        }
        for table in TABLES {
            header.tables.push(TableHeader::new(table, store.count(table).await?));
        }
        Ok(Self { store, header })
    }

    /// Writes everything, and returns the output.
    async fn write<W: Write>(
        &mut self,
        out: W,
        wrong: impl Fn(std::io::Error) -> BackupError,
        watch: &mut dyn BackupWatch,
    ) -> Result<W, BackupError> {
        let of = self.header.rows();
        let mut writer = BackupWriter::begin(BufWriter::new(out), &self.header).map_err(&wrong)?;
        let mut done = 0;
        for (table, header) in TABLES.iter().zip(&self.header.tables) {
            let mut batches = Batches::of(table);
            while let Some(rows) = batches.next(self.store.as_mut()).await? {
                for row in &rows {
                    writer.row(row).map_err(&wrong)?;
                    if let Some(grant) = grant_of(header, row) {
                        watch.grant(&grant);
                    }
                }
                done += rows.len() as u64;
                watch.progress(Progress { table: table.name, rows: done, of });
            }
        }
        writer.finish().and_then(|out| out.into_inner().map_err(std::io::IntoInnerError::into_error)).map_err(&wrong)
    }
}

async fn write_file(
    what: &BackupOptions,
    part: &Path,
    watch: &mut dyn BackupWatch,
) -> Result<BackupHeader, BackupError> {
    let wrong = |error: std::io::Error| cannot("be written", part, &error);
    let mut source = BackupSource::open(what).await?;
    let file = OpenOptions::new().mode(0o600).write(true).create_new(true).open(part).map_err(wrong)?;
    source.write(file, wrong, watch).await?.sync_all().map_err(wrong)?;
    // The file on disk must match what was written.
    let mut reader = open_backup(part, STEPS)?;
    while reader.next()?.is_some() {}
    if reader.header != source.header {
        return Err(BackupError::Refused("what was written does not match the data; check the disk".to_owned()));
    }
    Ok(source.header)
}

/// Gives the file its name, durably. A file that got this name in the meantime stays.
fn publish(part: &Path, file: &Path) -> Result<(), BackupError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named = match fs::hard_link(part, file) {
        Ok(()) => fs::remove_file(part),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Err(is_there(file)),
        // Some file systems have no links.
        Err(_) => fs::rename(part, file),
    };
    let published = named.and_then(|()| File::open(folder)?.sync_all());
    published.map_err(|error| cannot("be named", file, &error))
}

fn open_backup(path: &Path, steps: Steps) -> Result<BackupReader<BufReader<File>>, BackupError> {
    let file = File::open(path).map_err(|error| cannot("be read", path, &error))?;
    BackupReader::begin(BufReader::new(file), steps)
}

fn is_there(file: &Path) -> BackupError {
    BackupError::Refused(format!("{} already exists; name another file", file.display()))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> BackupError {
    BackupError::File(format!("{} cannot {what}: {error}", path.display()))
}
