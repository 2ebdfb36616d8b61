//! Moves everything from one store to another, table by table in batches, and compares the two at the end. How far it has come is
//! kept in the destination, in the transaction of each batch: broken off, it goes on where it stopped.

mod statements;
mod tables;
#[cfg(test)]
mod tests;
mod value;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::digest;
use secrecy::SecretString;

pub(super) use self::statements::{Dialect, PLACE, Which, count, used};
pub(super) use self::tables::{STAGED, TABLES, Table};
pub(super) use self::value::{Kind, Row, Value};

use self::value::Checksum;
use super::{Result, StoreError, postgres, sqlite};
use crate::random::Random;

/// At most about so much memory is read at once.
pub(super) const BYTES: usize = 4 << 20;

/// Why a service does not start on it.
pub(super) const UNFINISHED: &str = "a copy into this database was not finished: run `bot-companion store copy` again, with the \
     same --from and --to";

/// Only what this release wrote is copied, and only to where it can read it.
pub(super) fn expect_version(found: i64, newest: usize) -> Result<()> {
    if found == 0 {
        return Err(StoreError::Failed("it is not a store of this service".to_owned()));
    }
    if usize::try_from(found) == Ok(newest) {
        return Ok(());
    }
    Err(StoreError::Failed(format!(
        "it has the schema of another release (version {found}, and this release has {newest}): start the service of this \
         release on it once, or copy with the release that wrote it"
    )))
}

/// One of the two stores.
#[async_trait]
pub(super) trait Side: Send {
    /// Whether it can store every character.
    fn takes_all_text(&self) -> bool;
    /// Makes a mark on the store for as long as it is open; `false` if it was there already.
    async fn mark(&mut self, number: i64) -> Result<bool>;
    /// Looks at the store as it is at this moment, and sees nothing later until it is asked to look again.
    async fn look(&mut self) -> Result<()>;
    /// The last number that was drawn for a version or a snapshot.
    async fn counter(&mut self) -> Result<i64>;
    /// How many rows there are.
    async fn count(&mut self, table: &'static Table, which: Which) -> Result<u64>;
    /// The next rows after this key, in its order; none at the end.
    async fn read(&mut self, table: &'static Table, which: Which, after: Option<Row>) -> Result<Vec<Row>>;
    /// How far an unfinished copy into it has come.
    async fn place(&mut self) -> Result<Option<Place>>;
    /// A table with rows that nobody copied, if there is one.
    async fn used(&mut self) -> Result<Option<&'static str>>;
    /// Empties it, and notes where the copy begins.
    async fn begin(&mut self, place: Place) -> Result<()>;
    /// Writes rows and notes how far the copy has come with them, both or neither.
    async fn write(&mut self, table: &'static Table, rows: Vec<Row>, from: Place, to: Place) -> Result<()>;
    /// Goes on counting above this number, and forgets that it is a copy.
    async fn finish(&mut self, counter: i64) -> Result<()>;
}

/// How far a copy has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// What the source looks like.
    pub(super) source: String,
    /// How many tables are whole.
    pub(super) tables: i64,
    /// The key up to which the next one has come, written down.
    pub(super) after: Option<Vec<u8>>,
    /// How many rows that makes.
    pub(super) rows: i64,
}

/// What to copy.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The URL of the store that has the data.
    pub from: SecretString,
    /// The URL of the store that takes it.
    pub to: SecretString,
    /// Whether an unfinished copy in the destination makes room for a new one.
    pub start_over: bool,
    /// How long to keep trying to reach a database server.
    pub start_wait: Duration,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Rows are copied.
    Copying,
    /// Both sides are read again and compared.
    Comparing,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// With which table.
    pub table: &'static str,
    /// How many rows are done.
    pub rows: u64,
    /// How many there are.
    pub of: u64,
}

/// What was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Each table with its rows and their checksum, the same on both sides.
    pub tables: Vec<(&'static str, u64, String)>,
    /// SHA-256 over all of these.
    pub checksum: String,
    /// How many rows were there from a run that was broken off.
    pub resumed: u64,
    /// How many rows had a character that the destination cannot store.
    pub mended: u64,
}

/// Why nothing was copied, or not everything.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CopyError {
    /// It would not have been right.
    #[error("{0}")]
    Refused(String),
    /// The store that has the data did not do what it was asked.
    #[error("the source {}", said(.0))]
    Source(StoreError),
    /// The store that takes the data did not do what it was asked.
    #[error("the destination {}", said(.0))]
    Destination(StoreError),
}

fn said(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable(why) => format!("is unavailable: {why}"),
        StoreError::Busy(why) => format!("is busy: {why}"),
        StoreError::Failed(why) => format!("failed: {why}"),
    }
}

fn refused<T>(why: impl Into<String>) -> std::result::Result<T, CopyError> {
    Err(CopyError::Refused(why.into()))
}

type Sides = (Box<dyn Side>, Box<dyn Side>);

/// Copies everything, or what is left of it, and compares.
pub async fn copy(what: &Copy, mut watch: impl FnMut(Progress)) -> std::result::Result<Report, CopyError> {
    let (mut source, mut destination) = open(what).await?;
    source.look().await.map_err(CopyError::Source)?;
    let (looks, rows) = fingerprint(source.as_mut()).await.map_err(CopyError::Source)?;
    let place = start(destination.as_mut(), &looks, what.start_over).await?;
    let resumed = unsigned(place.rows);
    fill(source.as_mut(), destination.as_mut(), place, rows, &mut watch).await?;
    let report = compare(source.as_mut(), destination.as_mut(), rows, resumed, &mut watch).await?;
    source.look().await.map_err(CopyError::Source)?;
    let (looks_now, _) = fingerprint(source.as_mut()).await.map_err(CopyError::Source)?;
    if looks_now != looks {
        return refused(
            "the source has changed while it was copied: stop the service that uses it, and run this again with --start-over",
        );
    }
    let counter = source.counter().await.map_err(CopyError::Source)?;
    destination.finish(counter).await.map_err(CopyError::Destination)?;
    Ok(report)
}

/// Opens the source first: if there is none, no destination is made.
async fn open(what: &Copy) -> std::result::Result<Sides, CopyError> {
    for (name, url) in [("--from", &what.from), ("--to", &what.to)] {
        super::check(url).or_else(|problem| refused(format!("{name}: {problem}")))?;
    }
    let (from, to) = (super::local_file(&what.from), super::local_file(&what.to));
    let same = || refused("--from and --to name the same store; give --to another one, which is empty");
    if let Some((from, to)) = from.as_deref().zip(to.as_deref())
        && is_same_file(from, to)
    {
        return same();
    }
    let mut source = match from {
        Some(path) if !path.exists() => {
            return refused(format!("--from: there is no database at {}", path.display()));
        }
        Some(path) => sqlite::copy::source(path).await,
        None => postgres::copy::source(&what.from, what.start_wait).await,
    }
    .map_err(CopyError::Source)?;
    // Two addresses may lead to one database.
    let mark = i64::from_ne_bytes(Random::from_system().number().to_ne_bytes());
    source.mark(mark).await.map_err(CopyError::Source)?;
    let mut destination = match to {
        Some(path) => sqlite::copy::destination(path).await,
        None => postgres::copy::destination(&what.to, what.start_wait).await,
    }
    .map_err(CopyError::Destination)?;
    if !destination.mark(mark).await.map_err(CopyError::Destination)? {
        return same();
    }
    Ok((source, destination))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let number = |path: &Path| std::fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
        number(one).is_some() && number(one) == number(other)
    }
    #[cfg(not(unix))]
    {
        one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
    }
}

/// What a source looks like, and how many rows it has. It cannot see every change, only that the service was at work: what it
/// misses is found when the two sides are compared.
async fn fingerprint(source: &mut dyn Side) -> Result<(String, u64)> {
    let (mut context, mut total) = (digest::Context::new(&digest::SHA256), 0);
    context.update(&source.counter().await?.to_be_bytes());
    for table in TABLES {
        let rows = source.count(table, Which::Worthwhile).await?;
        let columns: Vec<_> = table.columns.iter().map(|column| column.name).collect();
        context.update(format!("{} {} {rows}", table.name, columns.join(" ")).as_bytes());
        total += rows;
        if table.telling {
            let checksum = sum(source, table, Which::Worthwhile, true, &mut |_| ()).await?.0;
            context.update(checksum.text().as_bytes());
        }
    }
    Ok((hexadecimal(context.finish().as_ref()), total))
}

/// Finds out where the copy goes on, or begins it.
async fn start(destination: &mut dyn Side, looks: &str, start_over: bool) -> std::result::Result<Place, CopyError> {
    match destination.place().await.map_err(CopyError::Destination)? {
        Some(place) if place.source == looks && !start_over => return Ok(place),
        Some(_) if start_over => {}
        Some(_) => {
            return refused(
                "the destination holds an unfinished copy of another source, or of this one before it changed: stop the \
                 service that uses the source, and run this again with --start-over, which empties the destination",
            );
        }
        None => {
            if let Some(table) = destination.used().await.map_err(CopyError::Destination)? {
                return refused(format!(
                    "the destination already has data of its own (in the table `{table}`), and nothing was changed: give \
                     --to an empty database, or a file that does not exist"
                ));
            }
        }
    }
    let place = Place { source: looks.to_owned(), ..Place::default() };
    destination.begin(place.clone()).await.map_err(CopyError::Destination)?;
    Ok(place)
}

/// Copies what is not there yet.
async fn fill(
    source: &mut dyn Side,
    destination: &mut dyn Side,
    mut place: Place,
    of: u64,
    watch: &mut dyn FnMut(Progress),
) -> std::result::Result<(), CopyError> {
    let mending = !destination.takes_all_text();
    for table in TABLES.iter().skip(usize::try_from(place.tables).unwrap_or(usize::MAX)) {
        let tell =
            |place: &Place| Progress { stage: Stage::Copying, table: table.name, rows: unsigned(place.rows), of };
        watch(tell(&place));
        let after = place.after.as_deref().map(value::read);
        let Some(mut after) = after.map_or(Some(None), |row| row.map(Some)) else {
            return refused("the destination does not say how far its copy has come; run this again with --start-over");
        };
        let mut rows = source.read(table, Which::Worthwhile, after).await.map_err(CopyError::Source)?;
        while let Some(last) = rows.last() {
            after = last.get(..table.key).map(<[_]>::to_vec);
            let reached = Place {
                after: after.as_deref().map(value::written),
                rows: place.rows.saturating_add_unsigned(rows.len() as u64),
                ..place.clone()
            };
            if mending {
                for row in &mut rows {
                    value::mend(row);
                }
            }
            // The next rows are read while these are written.
            let written = destination.write(table, rows, place, reached.clone());
            let (written, next) = tokio::join!(written, source.read(table, Which::Worthwhile, after));
            written.map_err(CopyError::Destination)?;
            rows = next.map_err(CopyError::Source)?;
            place = reached;
            watch(tell(&place));
        }
        let reached = Place { tables: place.tables + 1, after: None, ..place.clone() };
        destination.write(table, Vec::new(), place, reached.clone()).await.map_err(CopyError::Destination)?;
        place = reached;
    }
    Ok(())
}

/// Reads both sides again, and says what differs.
async fn compare(
    source: &mut dyn Side,
    destination: &mut dyn Side,
    of: u64,
    resumed: u64,
    watch: &mut dyn FnMut(Progress),
) -> std::result::Result<Report, CopyError> {
    let takes_all = destination.takes_all_text();
    let mut report = Report { tables: Vec::new(), checksum: String::new(), resumed, mended: 0 };
    let (mut context, mut done, mut differing) = (digest::Context::new(&digest::SHA256), 0, Vec::new());
    for table in TABLES {
        let mut tell = |rows| watch(Progress { stage: Stage::Comparing, table: table.name, rows: done + rows, of });
        tell(0);
        let mut silent = |_| ();
        let (meant, found) = tokio::join!(
            sum(source, table, Which::Worthwhile, takes_all, &mut tell),
            sum(destination, table, Which::All, true, &mut silent),
        );
        let ((meant, mended), (found, _)) = (meant.map_err(CopyError::Source)?, found.map_err(CopyError::Destination)?);
        if meant.rows != found.rows {
            differing.push(format!("{} has {} rows, and {} in the source", table.name, found.rows, meant.rows));
        } else if meant != found {
            differing.push(format!("{} has other contents than in the source", table.name));
        }
        done += meant.rows;
        report.mended += mended;
        context.update(format!("{} {} {}\n", table.name, meant.rows, meant.text()).as_bytes());
        report.tables.push((table.name, meant.rows, meant.text()));
    }
    if !differing.is_empty() {
        return refused(format!(
            "the copy is not equal to the source: {}. Stop every service that uses one of the two, and run this again with \
             --start-over",
            differing.join("; ")
        ));
    }
    report.checksum = hexadecimal(context.finish().as_ref());
    Ok(report)
}

/// The checksum of a table as it is meant to be stored, and how many rows had to be changed for that.
async fn sum(
    side: &mut dyn Side,
    table: &'static Table,
    which: Which,
    takes_all_text: bool,
    tell: &mut dyn FnMut(u64),
) -> Result<(Checksum, u64)> {
    let (mut checksum, mut mended, mut after) = (Checksum::default(), 0, None);
    loop {
        let mut rows = side.read(table, which, after).await?;
        let Some(last) = rows.last() else { return Ok((checksum, mended)) };
        after = last.get(..table.key).map(<[_]>::to_vec);
        for row in &mut rows {
            if !takes_all_text {
                mended += u64::from(value::mend(row));
            }
            checksum.add(row);
        }
        tell(checksum.rows);
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
