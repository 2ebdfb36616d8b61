//! Restores a backup, completely or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use domain::forgotten::UserHash;
use domain::{Snowflake, Time};
use secrecy::SecretString;

use super::format::{BackupReader, TableHeader};
use super::side::{Batches, RestoreEnd, Side};
use super::statements::{BYTES, ROWS};
use super::tables::TABLES;
use super::value::{self, CellValue, Row};
use super::{BackupError, BackupHeader, BackupWatch, Progress, grant_of, numbers, open_backup, snowflake};
use crate::migrations::STEPS;
use crate::person_places::{self, OnForget};
use crate::schema_version::Steps;
use crate::sql::FromCell as _;
use crate::{BotKey, Result, postgres, sqlite};

#[derive(Clone, Debug)]
pub struct RestoreOptions {
    pub url: SecretString,
    /// How long to keep trying to reach a database server.
    pub start_wait: Duration,
    pub file: PathBuf,
    /// Whether existing data may be replaced.
    pub replace: bool,
    /// Whether the backup's sessions become valid again.
    pub keep_sessions: bool,
    pub now: Time,
}

/// What was restored, and how it differs from the store before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    pub header: BackupHeader,
    /// Keys that work now and did not before: unknown then, or revoked since the backup.
    pub keys_back: Vec<BotKey>,
    /// Keys that worked before and are unknown now, because they were created after the backup.
    pub keys_gone: Vec<BotKey>,
    /// Users who were blocked before and no longer are.
    pub blocks_gone: Vec<Snowflake>,
    /// Users who are blocked now and were not before.
    pub blocks_back: Vec<Snowflake>,
    /// Users in the backup who were forgotten after it was taken, and must be forgotten again.
    pub forget_again: Vec<Snowflake>,
    /// How many of the backup's sessions were ended.
    pub sessions_ended: u64,
}

/// The parts of a store that are compared.
#[derive(Default)]
struct Compared {
    keys: BTreeMap<String, BotKey>,
    blocks: BTreeSet<Snowflake>,
    /// With the time when they were last forgotten.
    forgotten: BTreeMap<UserHash, i64>,
}

impl Compared {
    fn add(&mut self, table: &TableHeader, row: &Row) {
        let cell = |column| table.cell(row, column);
        match table.name.as_str() {
            "bot_keys" => {
                if let (Some(CellValue::Text(id)), Some(CellValue::Text(label)), Some(created)) =
                    (cell("id"), cell("label"), cell("created").and_then(time))
                {
                    let (id, label, revoked) = (id.clone(), label.clone(), cell("revoked").and_then(time));
                    self.keys.insert(id.clone(), BotKey { id, label, created, revoked });
                }
            }
            "blocked_users" => {
                if let Some(CellValue::Integer(user)) = cell("user_id") {
                    self.blocks.extend(snowflake(*user));
                }
            }
            "forgotten_users" => {
                if let (Some(CellValue::Bytes(hash)), Some(CellValue::Integer(since))) =
                    (cell("user_hash"), cell("since"))
                {
                    self.forgotten.extend(<[u8; 32]>::try_from(hash.as_slice()).map(|hash| (UserHash(hash), *since)));
                }
            }
            _ => {}
        }
    }

    async fn of(store: &mut dyn Side) -> Result<Self> {
        let mut found = Self::default();
        for table in
            TABLES.iter().filter(|table| ["bot_keys", "blocked_users", "forgotten_users"].contains(&table.name))
        {
            let (header, mut batches) = (TableHeader::new(table, 0), Batches::of(table));
            while let Some(rows) = batches.next(store).await? {
                for row in &rows {
                    found.add(&header, row);
                }
            }
        }
        Ok(found)
    }
}

fn time(value: &CellValue) -> Option<Time> {
    Time::from_cell(value)
}

/// Opens a store to restore a backup into it.
async fn open(url: &SecretString, start_wait: Duration, steps: Steps) -> Result<Box<dyn Side>> {
    match crate::local_file(url) {
        Some(path) => sqlite::backup::destination(path, steps).await,
        None => postgres::backup::destination(url, start_wait, steps).await,
    }
}

/// Restores a backup. The whole file is checked before anything is written, and what is written only counts at the end.
pub async fn restore(
    what: &RestoreOptions,
    watch: &mut dyn BackupWatch,
) -> std::result::Result<RestoreReport, BackupError> {
    restore_into(what, watch, STEPS).await
}

/// The same with other steps, for tests of a schema that changes.
pub(super) async fn restore_into(
    what: &RestoreOptions,
    watch: &mut dyn BackupWatch,
    steps: Steps,
) -> std::result::Result<RestoreReport, BackupError> {
    crate::check(&what.url).map_err(|problem| BackupError::Refused(format!("store.url: {problem}")))?;
    let mut backup = Compared::default();
    let mut reader = open_backup(&what.file, steps)?;
    while let Some((table, row)) = reader.next()? {
        let Some(table) = reader.header.tables.get(table) else { continue };
        backup.add(table, &row);
        if let Some(grant) = grant_of(table, &row) {
            watch.grant(&grant);
        }
    }
    let header = reader.header;
    let mut store = open(&what.url, what.start_wait, steps).await?;
    if let Some(table) = store.begin().await?
        && !what.replace
    {
        return Err(BackupError::Refused(format!(
            "the store is not empty (it has rows in the table `{table}`), and nothing was changed: to replace everything in \
             it with the backup, add --replace; make a backup of it first"
        )));
    }
    let before = Compared::of(store.as_mut()).await?;
    // A different time means another `users forget`, perhaps for what the bot had sent again before the backup.
    let is_since = |(hash, since): &(&UserHash, &i64)| backup.forgotten.get(*hash) != Some(*since);
    let forgotten: BTreeSet<_> = before.forgotten.iter().filter(is_since).map(|(hash, _)| *hash).collect();
    let reader = open_backup(&what.file, steps)?;
    if reader.header != header {
        return Err(BackupError::Refused(
            "the backup file changed while it was being read; nothing was restored".to_owned(),
        ));
    }
    let mut forget_again = BTreeSet::new();
    let mut end = load(reader, store.as_mut(), watch, |table, row| {
        if !forgotten.is_empty() {
            forget_again.extend(person_of(table, row).filter(|user| forgotten.contains(&UserHash::of(*user))));
        }
    })
    .await?;
    end.end_sessions = (!what.keep_sessions).then_some(what.now);
    end.forgotten = forgotten.into_iter().map(|hash| (hash, what.now)).collect();
    store.commit(end).await?;
    let sessions = header.tables.iter().find(|table| table.name == "sessions").map_or(0, |table| table.rows);
    let forget_again = forget_again.into_iter().collect();
    Ok(report(header, &before, &backup, forget_again, if what.keep_sessions { 0 } else { sessions }))
}

/// Writes all rows into tables of the schema they come from.
async fn load(
    mut reader: BackupReader<impl Read>,
    store: &mut dyn Side,
    watch: &mut dyn BackupWatch,
    mut look: impl FnMut(&TableHeader, &Row),
) -> std::result::Result<RestoreEnd, BackupError> {
    let header = reader.header.clone();
    let version = header.schema;
    let (current, mut highest) = (store.counter().await?, header.counter);
    store.make_room(version).await?;
    for table in &header.tables {
        table.expect_columns(&store.columns(&table.name).await?)?;
    }
    let (mut done, of) = (0, header.rows());
    let (mut batch, mut size, mut next) = (Vec::new(), 0, reader.next()?);
    for (index, table) in header.tables.iter().enumerate() {
        while let Some((_, mut row)) = next.take_if(|(of_table, _)| *of_table == index) {
            look(table, &row);
            highest = highest.max(numbers::largest_counted(table, &row));
            if !store.is_sqlite() {
                value::replace_nul(&mut row);
            }
            size += row.iter().map(CellValue::size).sum::<usize>();
            batch.push(row);
            // At the end this compares the checksum, before anything counts.
            next = reader.next()?;
            if batch.len() == ROWS || size >= BYTES || next.as_ref().is_none_or(|(of_table, _)| *of_table != index) {
                done += batch.len() as u64;
                store.put(table, std::mem::take(&mut batch)).await?;
                size = 0;
                watch.progress(Progress { table: &table.name, rows: done, of });
            }
        }
    }
    let counter = numbers::counter_after(highest, current);
    Ok(RestoreEnd { version, counter, end_sessions: None, forgotten: Vec::new() })
}

/// The person that a row names, if forgetting them would change it.
fn person_of(table: &TableHeader, row: &Row) -> Option<Snowflake> {
    let place = person_places::in_table(&table.name).filter(|place| place.on_forget != OnForget::Keep)?;
    place.person(table.cell(row, place.id)?)
}

fn report(
    header: BackupHeader,
    before: &Compared,
    backup: &Compared,
    forget_again: Vec<Snowflake>,
    sessions_ended: u64,
) -> RestoreReport {
    let works = |keys: &BTreeMap<String, BotKey>, id: &str| keys.get(id).is_some_and(|key| key.revoked.is_none());
    let only = |ours: &Compared, theirs: &Compared| -> Vec<BotKey> {
        let keys = ours.keys.values().filter(|key| works(&ours.keys, &key.id) && !works(&theirs.keys, &key.id));
        // For a revoked key, what is known about its revocation counts.
        keys.map(|key| theirs.keys.get(&key.id).unwrap_or(key).clone()).collect()
    };
    RestoreReport {
        keys_back: only(backup, before),
        keys_gone: only(before, backup),
        blocks_gone: before.blocks.difference(&backup.blocks).copied().collect(),
        blocks_back: backup.blocks.difference(&before.blocks).copied().collect(),
        header,
        forget_again,
        sessions_ended,
    }
}
