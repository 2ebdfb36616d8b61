//! The format of a backup: a line that says what it is, a line of JSON that describes the contents, the rows of each table in
//! that order, and a SHA-256 over all of it. It is the same for every store.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use aws_lc_rs::digest::{self, Context, SHA256};
use serde::{Deserialize, Serialize};

use super::tables::{PASSING, TABLES, Table, kind};
use super::value::{self, CellValue, ColumnKind, Row};
use super::{BackupError, numbers};
use crate::schema_version::{FIRST, Steps};

const NAME: &str = "bot-companion backup ";
/// The format that this release writes, and the only one it reads.
const FORMAT: u32 = 2;
/// A header takes a few kilobytes.
const LONGEST_HEADER: usize = 1 << 20;
/// A row takes a few kilobytes, or a few hundred with a long list of guilds.
const LONGEST_ROW: usize = 64 << 20;
/// A release's name is a few numbers, and possibly a word.
const LONGEST_RELEASE: usize = 64;
const SQLITE: &str = "SQLite";
const POSTGRESQL: &str = "PostgreSQL";
/// The last moment of the year 9999.
const LATEST: u64 = 253_402_300_799_999;
const OTHER_TABLES: &str = "its tables are not those of its schema";
const CHECKSUM: usize = digest::SHA256_OUTPUT_LEN;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupHeader {
    /// The release that wrote it.
    pub release: String,
    /// When it was taken, in milliseconds since 1970.
    pub taken: u64,
    /// The kind of store it was taken from.
    pub store: String,
    /// The version of that store's schema.
    pub schema: usize,
    /// The last number drawn for a version or a snapshot.
    pub counter: i64,
    /// The tables in order.
    pub tables: Vec<TableHeader>,
}

impl BackupHeader {
    pub fn rows(&self) -> u64 {
        self.tables.iter().fold(0, |sum: u64, table| sum.saturating_add(table.rows))
    }

    /// Whether it has exactly its schema's tables. Afterwards their names are used in SQL.
    fn has_its_tables(&self, steps: Steps) -> bool {
        let names = TABLES.iter().map(|table| table.name);
        let expected: BTreeSet<_> = names.filter(|name| steps.makes(self.schema, name)).collect();
        let found: BTreeSet<_> = self.tables.iter().map(|table| table.name.as_str()).collect();
        found == expected && self.tables.len() == expected.len()
    }

    /// Something in it that none of our backups would say, if any. After this check, the header can be shown as is.
    fn implausible(&self) -> Option<&'static str> {
        let is_of_release = |character: char| character.is_ascii_alphanumeric() || ".+-".contains(character);
        if !(1..=LONGEST_RELEASE).contains(&self.release.len()) || !self.release.chars().all(is_of_release) {
            return Some("its header names no release");
        }
        if ![SQLITE, POSTGRESQL].contains(&self.store.as_str()) {
            return Some("its header names no kind of store");
        }
        if self.taken > LATEST {
            return Some("its header says that it was taken after the year 9999");
        }
        if !numbers::is_plausible(self.counter) {
            return Some("its header has an impossible counter");
        }
        None
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableHeader {
    pub name: String,
    pub columns: Vec<String>,
    pub rows: u64,
}

impl TableHeader {
    pub(super) fn new(table: &Table, rows: u64) -> Self {
        Self { name: table.name.to_owned(), columns: table.names().map(ToOwned::to_owned).collect(), rows }
    }

    /// Refuses columns other than those of the stored table. SQLite would also accept any of the names for a row's number.
    pub(super) fn expect_columns(&self, stored: &[String]) -> Result<(), BackupError> {
        let is_passing = |column: &&String| PASSING.contains(&(self.name.as_str(), column.as_str()));
        let sequences = TABLES.iter().filter(|table| table.name == self.name).flat_map(|table| table.columns);
        let sequences = sequences.filter(|column| column.kind == ColumnKind::Sequence).map(|column| column.name);
        let expected = stored.iter().filter(|column| !is_passing(column)).map(String::as_str).chain(sequences);
        let (expected, found): (BTreeSet<_>, BTreeSet<_>) =
            (expected.collect(), self.columns.iter().map(String::as_str).collect());
        if found == expected && self.columns.len() == expected.len() { Ok(()) } else { damaged(OTHER_TABLES) }
    }

    /// The value of a row in a column.
    pub(super) fn cell<'a>(&self, row: &'a Row, column: &str) -> Option<&'a CellValue> {
        row.get(self.columns.iter().position(|name| name == column)?)
    }
}

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

    /// Writes the checksum, and returns the output.
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
    /// For each column of each table.
    kinds: Vec<Vec<Option<ColumnKind>>>,
    /// The table whose rows come next, and how many are left.
    table: usize,
    left: u64,
}

impl<R: Read> BackupReader<R> {
    /// Reads the header, and refuses what this release cannot restore.
    pub(super) fn begin(mut from: R, steps: Steps) -> Result<Self, BackupError> {
        let mut digest = Context::new(&SHA256);
        let first = line(&mut from, &mut digest, NAME.len() + 10)?;
        let format = first.as_deref().and_then(|line| line.strip_prefix(NAME)).and_then(|number| number.parse().ok());
        match format {
            Some(FORMAT) => {}
            Some(format) if format < FORMAT => return unreleased(),
            Some(format) => {
                return refused(format!(
                    "the backup has format {format}, but this release only supports up to {FORMAT}: it was written by a newer \
                     release; restore it with that one"
                ));
            }
            None => return refused("the file is not a backup of this service"),
        }
        let header = line(&mut from, &mut digest, LONGEST_HEADER)?;
        let Some(header) = header.as_deref().and_then(|line| serde_json::from_str::<BackupHeader>(line).ok()) else {
            return damaged("its header cannot be read");
        };
        if let Some(why) = header.implausible() {
            return refused(format!(
                "the backup is damaged or was tampered with: {why}. Nothing was changed; take another backup"
            ));
        }
        let newest = steps.newest();
        if header.schema < FIRST {
            return unreleased();
        }
        if header.schema > newest {
            return refused(format!(
                "the backup was written by release {} with a newer schema (version {} of {}, and this release has {newest}): \
                 restore it with that release or a newer one",
                header.release, header.schema, header.store
            ));
        }
        if !header.has_its_tables(steps) {
            return damaged(OTHER_TABLES);
        }
        let kinds = |table: &TableHeader| table.columns.iter().map(|column| kind(&table.name, column)).collect();
        let kinds = header.tables.iter().map(kinds).collect();
        let left = header.tables.first().map_or(0, |table| table.rows);
        Ok(Self { from, digest, header, kinds, table: 0, left })
    }

    /// The next row and the index of its table; `None` at the end, after the checksum was compared.
    pub(super) fn next(&mut self) -> Result<Option<(usize, Row)>, BackupError> {
        while self.left == 0 {
            self.table += 1;
            match self.header.tables.get(self.table) {
                Some(table) => self.left = table.rows,
                None => return self.end().map(|()| None),
            }
        }
        self.left -= 1;
        let mut length = [0; 4];
        self.take(&mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length)).ok().filter(|length| *length <= LONGEST_ROW);
        let Some(length) = length else { return damaged("a row has an impossible length") };
        let mut bytes = vec![0; length];
        self.take(&mut bytes)?;
        let (Some(table), Some(kinds)) = (self.header.tables.get(self.table), self.kinds.get(self.table)) else {
            return damaged("it has an extra table");
        };
        let Some(row) = value::decode(&bytes, kinds.len()).filter(|row| fits(kinds, row)) else {
            return damaged(&format!("a row of the table `{}` cannot be read", table.name));
        };
        if let Some(column) = numbers::find_absurd(table, kinds, &row) {
            let name = &table.name;
            return damaged(&format!("the table `{name}` has an impossible number in the column `{column}`"));
        }
        Ok(Some((self.table, row)))
    }

    fn end(&mut self) -> Result<(), BackupError> {
        let mut found = [0; CHECKSUM];
        self.from.read_exact(&mut found).map_err(|error| truncated(&error))?;
        if self.digest.clone().finish().as_ref() != found {
            return damaged("its checksum is wrong");
        }
        match self.from.read(&mut [0; 1]) {
            Ok(0) => Ok(()),
            Ok(_) => damaged("there is data after its end"),
            Err(error) => Err(BackupError::File(error.to_string())),
        }
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), BackupError> {
        self.from.read_exact(bytes).map_err(|error| truncated(&error))?;
        self.digest.update(bytes);
        Ok(())
    }
}

/// Whether each value fits its column. Columns that the newest schema does not have are left to the store to check.
fn fits(kinds: &[Option<ColumnKind>], row: &Row) -> bool {
    row.len() == kinds.len() && kinds.iter().zip(row).all(|(kind, value)| kind.is_none_or(|kind| value.fits(kind)))
}

/// A line without its end; `None` if it is longer than this, or not text.
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

fn unreleased<T>() -> Result<T, BackupError> {
    refused("the backup was made by an unreleased version, and no release can restore it; nothing was changed")
}

fn damaged<T>(why: &str) -> Result<T, BackupError> {
    refused(format!("the backup is damaged: {why}, and nothing was changed"))
}

fn refused<T>(why: impl Into<String>) -> Result<T, BackupError> {
    Err(BackupError::Refused(why.into()))
}
