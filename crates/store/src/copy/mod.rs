//! Copies everything from one store to another, table by table in batches, and compares the two at the end. How far it has come is
//! noted in the destination, in the transaction of each batch: a copy that was interrupted goes on where it stopped.

pub(crate) mod side;
pub(crate) mod statements;
pub(crate) mod tables;
#[cfg(test)]
mod tests;
pub(crate) mod value;

use std::path::Path;
use std::time::Duration;

use aws_lc_rs::digest;
use runtime::random::Random;
use secrecy::SecretString;

use self::side::{Position, Side};
use self::statements::RowFilter;
use self::tables::{TABLES, Table};
use self::value::Checksum;
use super::{Result, StoreError, postgres, sqlite};

/// What to copy.
#[derive(Clone, Debug)]
pub struct CopyOptions {
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
pub enum CopyStage {
    /// Rows are copied.
    Copying,
    /// Both sides are read again and compared.
    Comparing,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: CopyStage,
    /// With which table.
    pub table: &'static str,
    /// How many rows are done.
    pub rows: u64,
    /// How many there are.
    pub of: u64,
}

/// What was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyReport {
    /// Each table with its rows and their checksum, the same on both sides.
    pub tables: Vec<(&'static str, u64, String)>,
    /// SHA-256 over all of these.
    pub checksum: String,
    /// How many rows were there from a run that was interrupted.
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
        StoreError::Damaged(why) => format!("is damaged: {why}"),
    }
}

fn refused<T>(why: impl Into<String>) -> std::result::Result<T, CopyError> {
    Err(CopyError::Refused(why.into()))
}

type Sides = (Box<dyn Side>, Box<dyn Side>);

/// Copies everything, or what is left of it, and compares.
pub async fn copy(what: &CopyOptions, mut watch: impl FnMut(Progress)) -> std::result::Result<CopyReport, CopyError> {
    let (mut source, mut destination) = open(what).await?;
    source.freeze().await.map_err(CopyError::Source)?;
    let (source_fingerprint, rows) = fingerprint(source.as_mut()).await.map_err(CopyError::Source)?;
    let position = start(destination.as_mut(), &source_fingerprint, what.start_over).await?;
    let resumed = unsigned(position.rows);
    fill(source.as_mut(), destination.as_mut(), position, rows, &mut watch).await?;
    let report = compare(source.as_mut(), destination.as_mut(), rows, resumed, &mut watch).await?;
    source.freeze().await.map_err(CopyError::Source)?;
    let (fingerprint_now, _) = fingerprint(source.as_mut()).await.map_err(CopyError::Source)?;
    if fingerprint_now != source_fingerprint {
        return refused(
            "the source has changed while it was copied: stop the service that uses it, and run this again with --start-over",
        );
    }
    let counter = source.counter().await.map_err(CopyError::Source)?;
    destination.finish(counter).await.map_err(CopyError::Destination)?;
    Ok(report)
}

/// Opens the source first: if there is none, no destination is made.
async fn open(what: &CopyOptions) -> std::result::Result<Sides, CopyError> {
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
        Some(path) => sqlite::store_copy::sole_source(path).await,
        None => postgres::store_copy::sole_source(&what.from, what.start_wait).await,
    }
    .map_err(CopyError::Source)?;
    // Two addresses may lead to one database.
    let mark = i64::from_ne_bytes(Random::from_system().number().to_ne_bytes());
    source.mark(mark).await.map_err(CopyError::Source)?;
    let mut destination = match to {
        Some(path) => sqlite::store_copy::destination(path).await,
        None => postgres::store_copy::destination(&what.to, what.start_wait).await,
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

/// A fingerprint of the source, and how many rows it has. It does not show every change, only that the service was at work: what it
/// misses is found when the two sides are compared.
async fn fingerprint(source: &mut dyn Side) -> Result<(String, u64)> {
    let (mut context, mut total) = (digest::Context::new(&digest::SHA256), 0);
    context.update(&source.counter().await?.to_be_bytes());
    for table in TABLES {
        let rows = source.count(table, RowFilter::Worthwhile).await?;
        let columns: Vec<_> = table.columns.iter().map(|column| column.name).collect();
        context.update(format!("{} {} {rows}", table.name, columns.join(" ")).as_bytes());
        total += rows;
        if table.in_fingerprint {
            let checksum = sum(source, table, RowFilter::Worthwhile, true, &mut |_| ()).await?.0;
            context.update(checksum.text().as_bytes());
        }
    }
    Ok((hexadecimal(context.finish().as_ref()), total))
}

/// Finds out where the copy goes on, or begins it.
async fn start(
    destination: &mut dyn Side,
    fingerprint: &str,
    start_over: bool,
) -> std::result::Result<Position, CopyError> {
    match destination.position().await.map_err(CopyError::Destination)? {
        Some(position) if position.source == fingerprint && !start_over => return Ok(position),
        Some(_) if start_over => {}
        Some(_) => {
            return refused(
                "the destination holds an unfinished copy of another source, or of this one before it changed: stop the \
                 service that uses the source, and run this again with --start-over, which empties the destination",
            );
        }
        None => {
            if let Some(table) = destination.find_own_data().await.map_err(CopyError::Destination)? {
                return refused(format!(
                    "the destination already has data of its own (in the table `{table}`), and nothing was changed: give \
                     --to an empty database, or a file that does not exist"
                ));
            }
        }
    }
    let position = Position { source: fingerprint.to_owned(), ..Position::default() };
    destination.begin(position.clone()).await.map_err(CopyError::Destination)?;
    Ok(position)
}

/// Copies what is not there yet.
async fn fill(
    source: &mut dyn Side,
    destination: &mut dyn Side,
    mut position: Position,
    of: u64,
    watch: &mut dyn FnMut(Progress),
) -> std::result::Result<(), CopyError> {
    let mending = !destination.takes_all_text();
    for table in TABLES.iter().skip(usize::try_from(position.tables).unwrap_or(usize::MAX)) {
        let progress = |position: &Position| Progress {
            stage: CopyStage::Copying,
            table: table.name,
            rows: unsigned(position.rows),
            of,
        };
        watch(progress(&position));
        let after = position.after.as_deref().map(value::decode);
        let Some(mut after) = after.map_or(Some(None), |row| row.map(Some)) else {
            return refused("the destination does not say how far its copy has come; run this again with --start-over");
        };
        let mut rows = source.read(table, RowFilter::Worthwhile, after).await.map_err(CopyError::Source)?;
        while let Some(last) = rows.last() {
            after = last.get(..table.key).map(<[_]>::to_vec);
            let reached = Position {
                after: after.as_deref().map(value::encode),
                rows: position.rows.saturating_add_unsigned(rows.len() as u64),
                ..position.clone()
            };
            if mending {
                for row in &mut rows {
                    value::replace_nul(row);
                }
            }
            // The next rows are read while these are written.
            let written = destination.write(table, rows, position, reached.clone());
            let (written, next) = tokio::join!(written, source.read(table, RowFilter::Worthwhile, after));
            written.map_err(CopyError::Destination)?;
            rows = next.map_err(CopyError::Source)?;
            position = reached;
            watch(progress(&position));
        }
        let reached = Position { tables: position.tables + 1, after: None, ..position.clone() };
        destination.write(table, Vec::new(), position, reached.clone()).await.map_err(CopyError::Destination)?;
        position = reached;
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
) -> std::result::Result<CopyReport, CopyError> {
    let takes_all = destination.takes_all_text();
    let mut report = CopyReport { tables: Vec::new(), checksum: String::new(), resumed, mended: 0 };
    let (mut context, mut done, mut differing) = (digest::Context::new(&digest::SHA256), 0, Vec::new());
    for table in TABLES {
        let mut report_rows =
            |rows| watch(Progress { stage: CopyStage::Comparing, table: table.name, rows: done + rows, of });
        report_rows(0);
        let mut silent = |_| ();
        let (meant, found) = tokio::join!(
            sum(source, table, RowFilter::Worthwhile, takes_all, &mut report_rows),
            sum(destination, table, RowFilter::All, true, &mut silent),
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
    filter: RowFilter,
    takes_all_text: bool,
    report_rows: &mut dyn FnMut(u64),
) -> Result<(Checksum, u64)> {
    let (mut checksum, mut mended, mut after) = (Checksum::default(), 0, None);
    loop {
        let mut rows = side.read(table, filter, after).await?;
        let Some(last) = rows.last() else { return Ok((checksum, mended)) };
        after = last.get(..table.key).map(<[_]>::to_vec);
        for row in &mut rows {
            if !takes_all_text {
                mended += u64::from(value::replace_nul(row));
            }
            checksum.add(row);
        }
        report_rows(checksum.rows);
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
