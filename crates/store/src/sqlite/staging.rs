//! The lines of a snapshot that is being staged.

use std::collections::HashSet;
use std::sync::Arc;

use domain::feed::{GuildLine, GuildTotals, LastGuildLines, Lines};
use domain::{Guild, Snowflake};
use parking_lot::Mutex;
use rusqlite::{CachedStatement, Connection, params};

use super::database::run;
use crate::SnapshotId;
use crate::columns::{Column as _, grants_text, integer, json};
use crate::sql::{guilds, snapshots};

/// The snapshots that this process is staging. Only the writer changes it, so that cleaning up never sees one that is half
/// recorded.
#[derive(Clone, Default)]
pub(super) struct LocalStaging(Arc<Mutex<HashSet<i64>>>);

impl LocalStaging {
    pub(super) fn add(&self, snapshot: SnapshotId) {
        self.0.lock().insert(integer(snapshot.0));
    }

    pub(super) fn remove(&self, snapshot: SnapshotId) {
        self.0.lock().remove(&integer(snapshot.0));
    }

    pub(super) fn has(&self, snapshot: i64) -> bool {
        self.0.lock().contains(&snapshot)
    }
}

/// Stages some lines, and returns the users of the subscriptions that they replaced; `None` if the snapshot is not being staged.
pub(super) fn stage(
    connection: &Connection,
    snapshot: SnapshotId,
    lines: &Lines,
) -> rusqlite::Result<Option<Vec<Snowflake>>> {
    let id = integer(snapshot.0);
    if !connection.prepare_cached("SELECT 1 FROM staged_snapshots WHERE id = ?1")?.exists([id])? {
        return Ok(None);
    }
    match lines {
        Lines::Guilds(lines) => stage_guilds(connection, id, lines).map(|()| Some(Vec::new())),
        Lines::Subscriptions(lines) => run(snapshots::stage_subscriptions(connection, id, lines)).map(Some),
    }
}

fn stage_guilds(connection: &Connection, snapshot: i64, lines: &[GuildLine]) -> rusqlite::Result<()> {
    // In table order, which is faster.
    let LastGuildLines { guilds, carrying, unavailable } = LastGuildLines::of(lines);
    let mut more = GuildTotals::of(guilds.iter().copied());
    // Usually there are none, so no line needs to check.
    if connection.prepare_cached("SELECT 1 FROM staged_kept WHERE snapshot = ?1")?.exists([snapshot])? {
        let ids: Vec<Snowflake> = guilds.iter().map(|guild| guild.id).collect();
        run(snapshots::note_available(connection, snapshot, &ids))?;
    }
    let mut writer = GuildWriter::new(connection, snapshot)?;
    for guild in guilds {
        if !writer.insert(guild)? {
            // What an earlier line said about it no longer counts.
            more = more - run(guilds::delete(connection, snapshot, &[guild.id]))?.totals;
            writer.insert(guild)?;
        }
    }
    if !carrying.is_empty() {
        run(snapshots::carry_over(connection, snapshot, &carrying))?;
    }
    if !unavailable.is_empty() {
        more = more - run(snapshots::note_unavailable(connection, snapshot, &unavailable))?;
    }
    let sql = "UPDATE staged_snapshots SET guilds = guilds + ?2, member_sum = member_sum + ?3 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute([snapshot, more.guilds, more.members]).map(drop)
}

/// Writes guilds into a snapshot. Prepares its statements once rather than for every row.
struct GuildWriter<'c> {
    snapshot: i64,
    guild: CachedStatement<'c>,
    staff: CachedStatement<'c>,
}

impl<'c> GuildWriter<'c> {
    fn new(connection: &'c Connection, snapshot: i64) -> rusqlite::Result<Self> {
        let guild = "INSERT OR IGNORE INTO guilds
            (snapshot, id, name, icon, owner, members, setup, linked, grants, carried)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, coalesce(?9, '{}'), ?10)";
        let staff = "INSERT INTO guild_staff (snapshot, guild, user, roles) VALUES (?1, ?2, ?3, ?4)";
        Ok(Self { snapshot, guild: connection.prepare_cached(guild)?, staff: connection.prepare_cached(staff)? })
    }

    /// Adds a guild; `false`, without a change, if the snapshot already has it.
    fn insert(&mut self, guild: &Guild) -> rusqlite::Result<bool> {
        let Guild { id, name, icon, owner, members, setup, linked, .. } = guild;
        let row = params![
            self.snapshot,
            id.stored(),
            name,
            icon,
            owner.stored(),
            integer(*members),
            setup,
            linked,
            guild.grants.as_ref().map(grants_text),
            guild.carried().bits()
        ];
        let inserted = self.guild.execute(row)? > 0;
        if inserted {
            for (user, roles) in guild.staff.iter().flatten() {
                self.staff.execute(params![self.snapshot, guild.id.stored(), user.stored(), json(roles)])?;
            }
        }
        Ok(inserted)
    }
}
