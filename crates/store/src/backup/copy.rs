//! Backs a store up into a pipe, restores it into another store, and reads both again to compare them before the commit.

use std::io::{PipeReader, PipeWriter};
use std::path::Path;
use std::time::Duration;

use aws_lc_rs::digest;
use domain::Time;
use runtime::random::Random;
use secrecy::SecretString;
use tokio::sync::{mpsc, oneshot};

use super::format::BackupReader;
use super::restore::{self, load};
use super::side::{Batches, RestoreEnd, Side};
use super::tables::TABLES;
use super::value::{self, Checksum};
use super::{BackupError, BackupOptions, BackupSource, BackupWatch, Progress, Stage};
use crate::{Result, StoreError};

#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// The URL of the store to copy from.
    pub from: SecretString,
    /// The URL of the store to copy to.
    pub to: SecretString,
    /// How long to keep trying to reach a database server.
    pub start_wait: Duration,
    pub now: Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyReport {
    /// Each table with its rows and their checksum, the same on both sides.
    pub tables: Vec<(&'static str, u64, String)>,
    /// SHA-256 over all of these.
    pub checksum: String,
    /// How many rows had a character that the destination cannot store.
    pub mended: u64,
}

/// Why nothing was copied.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CopyError {
    /// It would not have been safe.
    #[error("{0}")]
    Refused(String),
    /// The source failed.
    #[error("the source {}", said(.0))]
    Source(StoreError),
    /// The destination failed.
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

impl CopyError {
    fn of(side: fn(StoreError) -> Self, error: BackupError) -> Self {
        match error {
            BackupError::Store(error) => side(error),
            other => Self::Refused(other.to_string()),
        }
    }
}

fn refused<T>(why: impl Into<String>) -> std::result::Result<T, BackupError> {
    Err(BackupError::Refused(why.into()))
}

#[derive(Clone)]
struct CopyPlan {
    what: CopyOptions,
    /// Two addresses may lead to one database, which accepts this mark only once.
    mark: i64,
    takes_all_text: bool,
}

/// Copies everything or nothing.
pub async fn copy(what: &CopyOptions, watch: &mut dyn BackupWatch) -> std::result::Result<CopyReport, CopyError> {
    for (name, url) in [("--from", &what.from), ("--to", &what.to)] {
        crate::check(url).map_err(|problem| CopyError::Refused(format!("{name}: {problem}")))?;
    }
    let (from, to) = (crate::local_file(&what.from), crate::local_file(&what.to));
    if let Some((from, to)) = from.as_deref().zip(to.as_deref())
        && is_same_file(from, to)
    {
        return Err(CopyError::Refused(SAME.to_owned()));
    }
    if let Some(path) = from.filter(|path| !path.exists()) {
        return Err(CopyError::Refused(format!("--from: there is no database at {}", path.display())));
    }
    let mark = i64::from_ne_bytes(Random::from_system().number().to_ne_bytes());
    let plan = CopyPlan { what: what.clone(), mark, takes_all_text: to.is_some() };
    let no_pipe = |error: std::io::Error| CopyError::Refused(format!("nothing can be copied here: {error}"));
    let (reader, writer) = std::io::pipe().map_err(no_pipe)?;
    let sending = plan.clone();
    let ((go_on, told), (answer, meant)) = (mpsc::channel(1), oneshot::channel());
    // On its own thread, because a pipe blocks.
    let source = std::thread::Builder::new().spawn(move || send(&sending, writer, told, answer)).map_err(no_pipe)?;
    let copied = match take(&plan, reader, watch).await {
        Ok(taken) => finish(taken, &go_on, meant).await,
        Err(error) => Err(CopyError::of(CopyError::Destination, error)),
    };
    drop(go_on);
    let sent = source.join().unwrap_or_else(|_| refused("the thread that reads the source panicked"));
    match (copied, sent) {
        // What broke first explains why the other side of the pipe broke, too.
        (Err(copied), Ok(()) | Err(BackupError::Output(_))) => Err(copied),
        (Err(_), Err(error)) => Err(CopyError::of(CopyError::Source, error)),
        (Ok(report), _) => Ok(report),
    }
}

/// Reads the source again, compares, and commits. Only then is the source released.
async fn finish(
    (mut destination, end, found): Uncommitted,
    go_on: &mpsc::Sender<()>,
    meant: oneshot::Receiver<Sums>,
) -> std::result::Result<CopyReport, CopyError> {
    let unread = "the source could not be read again";
    go_on.send(()).await.map_err(|_| CopyError::Refused(unread.to_owned()))?;
    let meant = meant.await.map_err(|_| CopyError::Refused(unread.to_owned()))?;
    let report = compare(&meant, &found)?;
    destination.commit(end).await.map_err(CopyError::Destination)?;
    Ok(report)
}

const SAME: &str = "--from and --to name the same store; point --to at a different, empty one";

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

/// Backs the source up into the pipe, and reads it again when told to, because a service may have been running. The source stays
/// locked until the channel is dropped.
fn send(
    plan: &CopyPlan,
    pipe: PipeWriter,
    mut told: mpsc::Receiver<()>,
    answer: oneshot::Sender<Sums>,
) -> std::result::Result<(), BackupError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| BackupError::Refused(format!("nothing can be copied here: {error}")))?;
    let CopyOptions { from, start_wait, now, .. } = &plan.what;
    let what = BackupOptions { url: from.clone(), start_wait: *start_wait, now: *now };
    runtime.block_on(async {
        let mut source = BackupSource::open(&what, true).await?;
        source.store.mark(plan.mark).await?;
        let closed = |error: std::io::Error| BackupError::Output(error.to_string());
        drop(source.write(pipe, closed, &mut |_: Progress<'_>| ()).await?);
        if told.recv().await.is_some() {
            source.store.freeze().await?;
            // If nobody receives it, the copy was interrupted.
            let _ = answer.send(Sums::of(source.store.as_mut(), plan.takes_all_text, &mut |_, _| ()).await?);
            told.recv().await;
        }
        Ok(())
    })
}

type Uncommitted = (Box<dyn Side>, RestoreEnd, Sums);

/// Restores what comes out of the pipe, up to the commit. Without a source, no destination is created.
async fn take(
    plan: &CopyPlan,
    pipe: PipeReader,
    watch: &mut dyn BackupWatch,
) -> std::result::Result<Uncommitted, BackupError> {
    let reader = BackupReader::begin(std::io::BufReader::new(pipe))?;
    let of = reader.header.rows();
    let mut store = restore::open(&plan.what.to, plan.what.start_wait).await?;
    if !store.mark(plan.mark).await? {
        return refused(SAME);
    }
    store.begin().await?;
    if let Some(table) = store.find_own_data().await? {
        return refused(format!(
            "the destination already has data (in the table `{table}`), and nothing was changed: point --to at an empty \
             database, or a file that does not exist"
        ));
    }
    let end = load(reader, store.as_mut(), watch, |_, _| ()).await?;
    let report = &mut |table, rows| watch.progress(Progress { stage: Stage::Comparing, table, rows, of });
    let sums = Sums::of(store.as_mut(), true, report).await?;
    Ok((store, end, sums))
}

/// The checksum of each table, and how many rows had to be changed for the destination.
struct Sums {
    tables: Vec<Checksum>,
    mended: u64,
}

impl Sums {
    async fn of(
        side: &mut dyn Side,
        takes_all_text: bool,
        report: &mut (dyn FnMut(&'static str, u64) + Send),
    ) -> Result<Self> {
        let (mut sums, mut done) = (Self { tables: Vec::new(), mended: 0 }, 0);
        for table in TABLES {
            let (mut sum, mut batches) = (Checksum::default(), Batches::of(table));
            while let Some(mut rows) = batches.next(side).await? {
                for row in &mut rows {
                    if !takes_all_text {
                        sums.mended += u64::from(value::replace_nul(row));
                    }
                    sum.add(row);
                }
                report(table.name, done + sum.rows);
            }
            done += sum.rows;
            sums.tables.push(sum);
        }
        Ok(sums)
    }
}

fn compare(meant: &Sums, found: &Sums) -> std::result::Result<CopyReport, CopyError> {
    let mut report = CopyReport { tables: Vec::new(), checksum: String::new(), mended: meant.mended };
    let (mut context, mut differing) = (digest::Context::new(&digest::SHA256), Vec::new());
    for ((table, meant), found) in TABLES.iter().zip(&meant.tables).zip(&found.tables) {
        if meant.rows != found.rows {
            differing.push(format!("{} has {} rows, but {} in the source", table.name, found.rows, meant.rows));
        } else if meant != found {
            differing.push(format!("{} has different contents from the source", table.name));
        }
        context.update(format!("{} {} {}\n", table.name, meant.rows, meant.text()).as_bytes());
        report.tables.push((table.name, meant.rows, meant.text()));
    }
    if !differing.is_empty() {
        return Err(CopyError::Refused(format!(
            "the copy does not match the source, and nothing was copied: {}. Stop every service that uses either store, and \
             run this again",
            differing.join("; ")
        )));
    }
    report.checksum = context.finish().as_ref().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    Ok(report)
}
