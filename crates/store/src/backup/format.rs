//! The file of a backup: a line that says what it is, a line of JSON that says what is in it, the rows of each table in the order of
//! [`TABLES`], and SHA-256 over all of that. It is the same for every store.

use std::io::{self, Read, Write};

use aws_lc_rs::digest::{self, Context, SHA256};
use serde::{Deserialize, Serialize};

use super::{BackupError, numbers};
use crate::copy::tables::{TABLES, Table};
use crate::copy::value::{self, CellValue, ColumnKind, Row};

const NAME: &str = "bot-companion backup ";
/// Which format this release writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// A header is a few kilobytes.
const LONGEST_HEADER: usize = 1 << 20;
/// A row is a few kilobytes, or a few hundred with a long list of guilds.
const LONGEST_ROW: usize = 64 << 20;
/// A release is a few numbers, and perhaps a word.
const LONGEST_RELEASE: usize = 64;
/// The kinds of store.
const KINDS: [&str; 2] = ["SQLite", "PostgreSQL"];
/// The last moment of the year 9999.
const LATEST: u64 = 253_402_300_799_999;
const CHECKSUM: usize = digest::SHA256_OUTPUT_LEN;

/// What a backup says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupHeader {
    /// The release that wrote it.
    pub release: String,
    /// When it was taken, in milliseconds since 1970.
    pub taken: u64,
    /// The kind of store that it was taken from.
    pub store: String,
    /// The versions of the schema, of each kind of store.
    pub schema: SchemaVersions,
    /// The last number that was drawn for a version or a snapshot.
    pub counter: i64,
    /// The tables in their order.
    pub tables: Vec<TableHeader>,
}

impl BackupHeader {
    /// What no backup of ours says, if it says such a thing. After this, the header can be shown as it is.
    fn implausible(&self) -> Option<&'static str> {
        let is_of_release = |character: char| character.is_ascii_alphanumeric() || ".+-".contains(character);
        if !(1..=LONGEST_RELEASE).contains(&self.release.len()) || !self.release.chars().all(is_of_release) {
            return Some("its header names no release");
        }
        if !KINDS.contains(&self.store.as_str()) {
            return Some("its header names no kind of store");
        }
        if self.taken > LATEST {
            return Some("its header says that it was taken after the year 9999");
        }
        if !numbers::is_plausible(self.counter) {
            return Some("its header has a counter that no store reaches");
        }
        None
    }
}

/// The versions of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaVersions {
    /// Of the embedded store.
    pub sqlite: usize,
    /// Of the database server.
    pub postgres: usize,
}

/// What a backup says of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableHeader {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<String>,
    /// How many rows the backup has.
    pub rows: u64,
}

impl TableHeader {
    pub(super) fn new(table: &Table, rows: u64) -> Self {
        let columns = table.columns.iter().map(|column| column.name.to_owned()).collect();
        Self { name: table.name.to_owned(), columns, rows }
    }
}

/// Writes a backup.
pub(super) struct BackupWriter<W> {
    out: W,
    digest: Context,
}

impl<W: Write> BackupWriter<W> {
    pub(super) fn begin(out: W, header: &BackupHeader) -> io::Result<Self> {
        let mut writer = Self { out, digest: Context::new(&SHA256) };
        writer.put(format!("{NAME}{FORMAT}\n").as_bytes())?;
        writer.put(&serde_json::to_vec(header)?)?;
        writer.put(b"\n")?;
        Ok(writer)
    }

    pub(super) fn row(&mut self, row: &[CellValue]) -> io::Result<()> {
        let bytes = value::encode(row);
        let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= LONGEST_ROW);
        let length = length.ok_or_else(|| io::Error::other("a row is too long for a backup"))?;
        self.put(&length.to_be_bytes())?;
        self.put(&bytes)
    }

    /// Writes the checksum, and gives what was written to.
    pub(super) fn finish(mut self) -> io::Result<W> {
        let checksum = self.digest.finish();
        self.out.write_all(checksum.as_ref())?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.out.write_all(bytes)
    }
}

/// Reads a backup, row by row.
pub(super) struct BackupReader<R> {
    from: R,
    digest: Context,
    pub(super) header: BackupHeader,
    /// The table whose rows come next, and how many of them.
    table: usize,
    left: u64,
}

impl<R: Read> BackupReader<R> {
    /// Reads the header, and refuses what this release cannot restore.
    pub(super) fn begin(mut from: R, schema: SchemaVersions) -> Result<Self, BackupError> {
        let mut digest = Context::new(&SHA256);
        let first = line(&mut from, &mut digest, NAME.len() + 10)?;
        let format = first.as_deref().and_then(|line| line.strip_prefix(NAME)).and_then(|number| number.parse().ok());
        match format {
            Some(FORMAT) => {}
            Some(format) => {
                return refused(format!(
                    "the backup has the format {format}, and this release knows only {FORMAT}: it was written by a newer \
                     release; restore it with that one"
                ));
            }
            None => return refused("the file is not a backup of this service"),
        }
        let header = line(&mut from, &mut digest, LONGEST_HEADER)?;
        let header: BackupHeader = match header.as_deref().map(serde_json::from_str) {
            Some(Ok(header)) => header,
            Some(Err(_)) | None => return damaged("its header cannot be read"),
        };
        if let Some(why) = header.implausible() {
            return refused(format!(
                "the backup is damaged or was tampered with: {why}. Nothing was changed; take another backup"
            ));
        }
        if header.schema != schema {
            let newer = header.schema.sqlite > schema.sqlite || header.schema.postgres > schema.postgres;
            let remedy = if newer {
                "restore it with that release or a newer one"
            } else {
                "restore it with that release, and then update the service, which brings the data along"
            };
            return refused(format!(
                "the backup was written by release {} with another schema: {remedy}",
                header.release
            ));
        }
        let expected =
            TABLES.iter().zip(&header.tables).all(|(table, found)| TableHeader::new(table, found.rows) == *found);
        if !expected || header.tables.len() != TABLES.len() {
            return damaged("its tables are not those of its schema");
        }
        let left = header.tables.first().map_or(0, |table| table.rows);
        Ok(Self { from, digest, header, table: 0, left })
    }

    /// The next row and its table; `None` at the end, once the checksum was compared.
    pub(super) fn next(&mut self) -> Result<Option<(&'static Table, Row)>, BackupError> {
        while self.left == 0 {
            self.table += 1;
            match self.header.tables.get(self.table) {
                Some(table) => self.left = table.rows,
                None => return self.end().map(|()| None),
            }
        }
        self.left -= 1;
        let Some(table) = TABLES.get(self.table) else { return damaged("it has a table too many") };
        let mut length = [0; 4];
        self.take(&mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > LONGEST_ROW {
            return damaged("a row has a length that no row has");
        }
        let mut bytes = vec![0; length];
        self.take(&mut bytes)?;
        match value::decode(&bytes).filter(|row| fits(table, row)) {
            Some(row) => match numbers::find_absurd(table, &row) {
                None => Ok(Some((table, row))),
                Some(column) => damaged(&format!(
                    "the table `{}` has a number in the column `{column}` that no store reaches",
                    table.name
                )),
            },
            None => damaged(&format!("a row of the table `{}` cannot be read", table.name)),
        }
    }

    fn end(&mut self) -> Result<(), BackupError> {
        let mut found = [0; CHECKSUM];
        self.from.read_exact(&mut found).map_err(|error| truncated(&error))?;
        if self.digest.clone().finish().as_ref() != found {
            return damaged("its checksum is wrong");
        }
        match self.from.read(&mut [0; 1]) {
            Ok(0) => Ok(()),
            Ok(_) => damaged("something follows after its end"),
            Err(error) => Err(BackupError::File(error.to_string())),
        }
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), BackupError> {
        self.from.read_exact(bytes).map_err(|error| truncated(&error))?;
        self.digest.update(bytes);
        Ok(())
    }
}

/// Whether each value is what its column holds.
fn fits(table: &Table, row: &Row) -> bool {
    let fits = |(kind, value): (ColumnKind, &CellValue)| match value {
        CellValue::Null => true,
        CellValue::Integer(_) => matches!(kind, ColumnKind::Integer | ColumnKind::Sequence),
        CellValue::Real(_) => kind == ColumnKind::Real,
        CellValue::Text(_) => kind == ColumnKind::Text,
        CellValue::Bytes(_) => kind == ColumnKind::Bytes,
        CellValue::Boolean(_) => kind == ColumnKind::Boolean,
    };
    row.len() == table.columns.len() && table.columns.iter().map(|column| column.kind).zip(row).all(fits)
}

/// A line without its end; `None` if it is longer than this, or no text.
fn line(from: &mut impl Read, digest: &mut Context, most: usize) -> Result<Option<String>, BackupError> {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    loop {
        match from.read(&mut byte) {
            Ok(1) if bytes.len() < most => {
                digest.update(&byte);
                if byte == *b"\n" {
                    return Ok(String::from_utf8(bytes).ok());
                }
                bytes.extend_from_slice(&byte);
            }
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(BackupError::File(error.to_string())),
        }
    }
}

fn truncated(error: &io::Error) -> BackupError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return BackupError::Refused("the backup is damaged: it ends too early, and nothing was changed".to_owned());
    }
    BackupError::File(error.to_string())
}

fn damaged<T>(why: &str) -> Result<T, BackupError> {
    refused(format!("the backup is damaged: {why}, and nothing was changed"))
}

fn refused<T>(why: impl Into<String>) -> Result<T, BackupError> {
    Err(BackupError::Refused(why.into()))
}
