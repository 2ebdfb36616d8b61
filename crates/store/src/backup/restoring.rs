//! A backup becomes a store again, all of it or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use domain::forgotten::UserHash;
use domain::{Snowflake, Time};
use secrecy::SecretString;

use super::{BackupError, BackupHeader, BackupWatch, grant_of, numbers, open_backup};
use crate::copy::side::{RestoreEnd, Side};
use crate::copy::statements::{BYTES, RowFilter};
use crate::copy::tables::{TABLES, Table};
use crate::copy::value::{self, CellValue, Row};
use crate::person_places::{self, OnForget};
use crate::{BotKey, postgres, sqlite};

/// At most so many rows are written at once.
const ROWS: usize = 4_000;

/// What to restore, and where to.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// The URL of the store.
    pub url: SecretString,
    /// How long to keep trying to reach a database server.
    pub start_wait: Duration,
    /// The backup.
    pub file: PathBuf,
    /// Whether what is in the store may go.
    pub replace: bool,
    /// Whether the sessions of the backup are good again.
    pub keep_sessions: bool,
    /// The time.
    pub now: Time,
}

/// What was restored, and what of it is no longer as it was in the store before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// What the backup says of itself.
    pub header: BackupHeader,
    /// Keys that work now and did not just before: unknown there, or revoked since the backup.
    pub keys_back: Vec<BotKey>,
    /// Keys that worked just before and are unknown now: made since the backup.
    pub keys_gone: Vec<BotKey>,
    /// Users who were blocked just before and are not any more.
    pub blocks_gone: Vec<Snowflake>,
    /// Users who are blocked now and were not just before.
    pub blocks_back: Vec<Snowflake>,
    /// Users of the backup who were forgotten since it was taken: to be forgotten again.
    pub forget_again: Vec<Snowflake>,
    /// How many sessions of the backup have ended.
    pub sessions_ended: u64,
}

/// What of a store is compared.
#[derive(Default)]
struct Compared {
    keys: BTreeMap<String, BotKey>,
    blocks: BTreeSet<Snowflake>,
    /// With when they were forgotten last.
    forgotten: BTreeMap<UserHash, i64>,
}

impl Compared {
    fn add(&mut self, table: &Table, row: &Row) {
        match (table.name, row.as_slice()) {
            (
                "bot_keys",
                [CellValue::Text(id), CellValue::Text(label), _, CellValue::Integer(created), revoked, ..],
            ) => {
                let at = |number: i64| Time::from_millis(u64::try_from(number).unwrap_or(0));
                let revoked = if let CellValue::Integer(revoked) = revoked { Some(at(*revoked)) } else { None };
                let key = BotKey { id: id.clone(), label: label.clone(), created: at(*created), revoked };
                self.keys.insert(id.clone(), key);
            }
            ("blocked_users", [CellValue::Integer(user), ..]) => self.blocks.extend(snowflake(*user)),
            ("forgotten_users", [CellValue::Bytes(hash), CellValue::Integer(since), ..]) => {
                self.forgotten.extend(<[u8; 32]>::try_from(hash.as_slice()).map(|hash| (UserHash(hash), *since)));
            }
            _ => {}
        }
    }
}

/// Restores a backup. The whole file is checked before anything is written, and what is written counts at the end or never.
pub async fn restore(what: &RestoreOptions, watch: &mut dyn BackupWatch) -> Result<RestoreReport, BackupError> {
    crate::check(&what.url).map_err(|problem| BackupError::Refused(format!("store.url: {problem}")))?;
    let mut backup = Compared::default();
    let mut reader = open_backup(&what.file)?;
    let mut highest = reader.header.counter;
    while let Some((table, row)) = reader.next()? {
        backup.add(table, &row);
        highest = highest.max(numbers::largest_counted(table, &row));
        if let Some(grant) = grant_of(table, &row) {
            watch.grant(&grant);
        }
    }
    let header = reader.header;
    let mut store = match crate::local_file(&what.url) {
        Some(path) => sqlite::store_copy::restored(path).await?,
        None => postgres::store_copy::restored(&what.url, what.start_wait).await?,
    };
    if let Some(table) = store.find_own_data().await?
        && !what.replace
    {
        return Err(BackupError::Refused(format!(
            "the store is not empty (it has rows in the table `{table}`), and nothing was changed: to have the backup in place \
             of all that is in it, add --replace; a backup of it first is a good idea"
        )));
    }
    let before = compared(store.as_mut()).await?;
    let counter = numbers::counter_after(highest, store.counter().await?);
    store.begin_restore().await?;
    // Another time is another `users forget`, perhaps of what the bot had sent again before the backup.
    let is_since = |(hash, since): &(&UserHash, &i64)| backup.forgotten.get(*hash) != Some(*since);
    let forgotten: Vec<_> = before.forgotten.iter().filter(is_since).map(|(hash, _)| *hash).collect();
    let forget_again = load(what, &header, store.as_mut(), &forgotten, watch).await?;
    let ends = (!what.keep_sessions).then_some(what.now);
    store.commit_restore(RestoreEnd { counter, end_sessions: ends, forgotten, now: what.now }).await?;
    let sessions = header.tables.iter().find(|table| table.name == "sessions").map_or(0, |table| table.rows);
    Ok(report(header, &before, &backup, forget_again, if what.keep_sessions { 0 } else { sessions }))
}

async fn compared(store: &mut dyn Side) -> Result<Compared, BackupError> {
    let mut found = Compared::default();
    for table in TABLES.iter().filter(|table| ["bot_keys", "blocked_users", "forgotten_users"].contains(&table.name)) {
        let mut after = None;
        loop {
            let rows = store.read(table, RowFilter::All, after).await?;
            let Some(last) = rows.last() else { break };
            after = last.get(..table.key).map(<[_]>::to_vec);
            for row in &rows {
                found.add(table, row);
            }
        }
    }
    Ok(found)
}

/// Writes all rows; gives the users among them who were forgotten since.
async fn load(
    what: &RestoreOptions,
    header: &BackupHeader,
    store: &mut dyn Side,
    forgotten: &[UserHash],
    watch: &mut dyn BackupWatch,
) -> Result<Vec<Snowflake>, BackupError> {
    let (mending, of) = (!store.takes_all_text(), header.tables.iter().map(|table| table.rows).sum());
    let mut reader = open_backup(&what.file)?;
    if reader.header != *header {
        return Err(BackupError::Refused("the backup was changed while it was read; nothing was changed".to_owned()));
    }
    let (mut batch, mut size, mut of_table, mut done) = (Vec::new(), 0, None, 0);
    let mut again = BTreeSet::new();
    loop {
        // The checksum is compared once more at the end, before the commit.
        let next = reader.next()?;
        let is_other = next.as_ref().map(|(table, _)| table.name) != of_table.map(|table: &Table| table.name);
        if let Some(table) = of_table
            && (is_other || batch.len() == ROWS || size >= BYTES)
        {
            done += batch.len() as u64;
            store.put_restored(table, std::mem::take(&mut batch)).await?;
            size = 0;
            watch.rows(done, of);
        }
        let Some((table, mut row)) = next else { return Ok(again.into_iter().collect()) };
        if !forgotten.is_empty() {
            again.extend(person_of(table, &row).filter(|user| forgotten.contains(&UserHash::of(*user))));
        }
        if mending {
            value::replace_nul(&mut row);
        }
        size += row.iter().map(CellValue::size).sum::<usize>();
        batch.push(row);
        of_table = Some(table);
    }
}

/// Whom a row names, where forgetting them would change it.
fn person_of(table: &Table, row: &Row) -> Option<Snowflake> {
    let place = person_places::in_table(table.name).filter(|place| place.on_forget != OnForget::Keep)?;
    let column = table.columns.iter().position(|column| column.name == place.id)?;
    place.person(row.get(column)?)
}

fn snowflake(number: i64) -> Option<Snowflake> {
    u64::try_from(number).ok().and_then(Snowflake::new)
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
        // Of a key that was revoked, what is known of its revocation counts.
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
