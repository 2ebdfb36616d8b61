//! The lines of a snapshot that is being staged.

use domain::Guild;
use domain::feed::GuildTotals;
use rusqlite::{CachedStatement, Connection, params};

use crate::columns::{Column as _, grants_text, integer, json};
use crate::sql::guilds;

/// Remembers which snapshots this connection is staging: others were left by a process that is gone.
pub(super) const REMEMBER: &str = "CREATE TEMP TABLE staged_here (id INTEGER PRIMARY KEY) STRICT;
    CREATE TEMP TRIGGER staged_here_begins AFTER INSERT ON main.staged_snapshots
        BEGIN INSERT INTO staged_here (id) VALUES (new.id); END;
    CREATE TEMP TRIGGER staged_here_ends AFTER DELETE ON main.staged_snapshots
        BEGIN DELETE FROM staged_here WHERE id = old.id; END";

pub(super) const STAFF: &str = "INSERT INTO guild_staff (snapshot, guild, user, roles) VALUES (?1, ?2, ?3, ?4)";

/// Adds a guild's staff with the statement [`STAFF`].
pub(super) fn insert_staff(statement: &mut CachedStatement<'_>, snapshot: i64, guild: &Guild) -> rusqlite::Result<()> {
    for (user, roles) in guild.staff.iter().flatten() {
        statement.execute(params![snapshot, guild.id.stored(), user.stored(), json(roles)])?;
    }
    Ok(())
}

/// Writes guilds into a snapshot, and returns what it already had of them, which they replace.
pub(super) async fn stage_guilds(
    connection: &Connection,
    snapshot: i64,
    guilds: &[&Guild],
) -> rusqlite::Result<GuildTotals> {
    let mut known = GuildTotals::default();
    let mut writer = GuildWriter::new(connection, snapshot)?;
    for guild in guilds {
        if !writer.insert(guild)? {
            // What an earlier line said about it no longer counts.
            known += guilds::delete(connection, snapshot, &[guild.id]).await?.totals;
            writer.insert(guild)?;
        }
    }
    Ok(known)
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
        Ok(Self { snapshot, guild: connection.prepare_cached(guild)?, staff: connection.prepare_cached(STAFF)? })
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
            insert_staff(&mut self.staff, self.snapshot, guild)?;
        }
        Ok(inserted)
    }
}
