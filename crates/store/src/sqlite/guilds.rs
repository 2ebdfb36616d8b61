//! Guilds with the bot, their staff, and what one person may see of them.

use domain::feed::{Carried, CarriedParts, GuildTotals, UNCOVERED};
use domain::{Guild, GuildFacts, PermissionSet, PersonFacts, Snowflake, staff};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, Statement, params};

use super::columns::{
    Column as _, ReadColumn as _, grants, grants_text, integer, is_unreadable, json, roles, unsigned,
};
use super::coverage::Coverage;
use super::database::run;
use super::subscriptions;
use super::writer::ChangedTopics;
use crate::Topic;
use crate::columns::warn_broken;
use crate::sql::{accounts, team};
use crate::totals_change::TotalsChange;

/// What is known about a user, and about the guilds among these that have the bot.
pub(super) fn person(
    connection: &Connection,
    user: Snowflake,
    mut guilds: Vec<Snowflake>,
) -> rusqlite::Result<PersonFacts> {
    // In table order, because neighbours share pages.
    guilds.sort_unstable();
    guilds.dedup();
    let coverage = Coverage::load(connection)?;
    let mut known = Vec::new();
    for guild in guilds {
        let cover = coverage.of(connection, guild)?;
        match facts(connection, cover.snapshot, user, guild) {
            Ok(facts) => known.extend(facts),
            // One broken guild never breaks the list.
            Err(error) if is_unreadable(&error) => {
                warn_broken!(%guild, %error, "left out a guild that cannot be read");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(PersonFacts {
        team: run(team::granted(connection, user))?,
        subscription: subscriptions::of_user(connection, user)?,
        guilds: known,
    })
}

/// Which of these guilds a snapshot covers but does not contain.
pub(super) fn without_bot(connection: &Connection, guilds: Vec<Snowflake>) -> rusqlite::Result<Vec<Snowflake>> {
    let coverage = Coverage::load(connection)?;
    let mut named = connection.prepare_cached("SELECT 1 FROM guilds WHERE snapshot = ?1 AND id = ?2")?;
    let mut found = Vec::new();
    for guild in guilds {
        let snapshot = coverage.of(connection, guild)?.snapshot;
        if snapshot != UNCOVERED && !named.exists(params![snapshot, guild.stored()])? {
            found.push(guild);
        }
    }
    Ok(found)
}

fn facts(
    connection: &Connection,
    snapshot: i64,
    user: Snowflake,
    guild: Snowflake,
) -> rusqlite::Result<Option<GuildFacts>> {
    let sql = "SELECT id, name, icon, owner, members, setup, linked, grants FROM guilds
        WHERE snapshot = ?1 AND id = ?2";
    let read = |row: &Row<'_>| {
        let facts = GuildFacts {
            id: row.column(0)?,
            name: row.get(1)?,
            icon: row.get(2)?,
            owner: row.column(3)?,
            members: unsigned(row.get(4)?),
            setup: row.get(5)?,
            linked: row.get(6)?,
            granted: PermissionSet::EMPTY,
            subscriptions: Vec::new(),
        };
        Ok((facts, row.get::<_, String>(7)?))
    };
    let found = connection.prepare_cached(sql)?.query_row(params![snapshot, guild.stored()], read).optional()?;
    let Some((mut facts, grants_text)) = found else { return Ok(None) };
    facts.granted = granted(connection, snapshot, user, guild, &grants_text)?;
    facts.subscriptions = subscriptions::naming(connection, guild)?;
    Ok(Some(facts))
}

/// The permissions that a user has through their roles in a guild.
fn granted(
    connection: &Connection,
    snapshot: i64,
    user: Snowflake,
    guild: Snowflake,
    grants_text: &str,
) -> rusqlite::Result<PermissionSet> {
    let stored: Option<String> = connection
        .prepare_cached("SELECT roles FROM guild_staff WHERE snapshot = ?1 AND guild = ?2 AND user = ?3")?
        .query_row(params![snapshot, guild.stored(), user.stored()], |row| row.get(0))
        .optional()?;
    let roles = stored.map(|text| roles(&text)).unwrap_or_default();
    Ok(staff::granted(guild, &roles, &grants(grants_text)))
}

/// Stores the current state of a guild in the snapshot that covers it, as if it had come with that.
pub(super) fn put(
    connection: &Connection,
    topics: &mut ChangedTopics,
    coverage: &Coverage,
    totals: &mut TotalsChange,
    guild: &Guild,
) -> rusqlite::Result<()> {
    let cover = coverage.of(connection, guild.id)?;
    let mut writer = GuildWriter::new(connection, cover.snapshot)?;
    let before = members(connection, cover.snapshot, guild.id)?;
    if before.is_some() {
        writer.update(guild)?;
    } else {
        writer.insert(guild, Carried::default())?;
        // A subscription may already name it.
        topics.push(Topic::PremiumEndOf(guild.id));
    }
    totals.add(topics, cover.shard(), GuildTotals::change(before, guild));
    topics.push(Topic::Id(guild.id));
    Ok(())
}

/// Removes a guild with its grants and staff. Subscriptions that name it stay as they are.
pub(super) fn remove(
    connection: &Connection,
    topics: &mut ChangedTopics,
    coverage: &Coverage,
    totals: &mut TotalsChange,
    guild: Snowflake,
) -> rusqlite::Result<()> {
    let cover = coverage.of(connection, guild)?;
    let removed = delete(connection, cover.snapshot, guild)?.totals;
    if !removed.is_nothing() {
        totals.add(topics, cover.shard(), GuildTotals::default() - removed);
        topics.push(Topic::Id(guild));
    }
    Ok(())
}

/// How many members a guild in a snapshot has, if it is there.
fn members(connection: &Connection, snapshot: i64, guild: Snowflake) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT members FROM guilds WHERE snapshot = ?1 AND id = ?2";
    connection.prepare_cached(sql)?.query_row(params![snapshot, guild.stored()], |row| row.get(0)).optional()
}

/// Records a member's roles if they are staff, or that they are not.
pub(super) fn put_member(
    connection: &Connection,
    topics: &mut ChangedTopics,
    coverage: &Coverage,
    guild: Snowflake,
    user: Snowflake,
    roles: &[Snowflake],
) -> rusqlite::Result<()> {
    let snapshot = coverage.of(connection, guild)?.snapshot;
    let stored: Option<String> = connection
        .prepare_cached("SELECT grants FROM guilds WHERE snapshot = ?1 AND id = ?2")?
        .query_row(params![snapshot, guild.stored()], |row| row.get(0))
        .optional()?;
    let grants = stored.map(|text| grants(&text)).unwrap_or_default();
    if staff::is_staff(guild, roles, &grants) {
        let sql = "INSERT OR REPLACE INTO guild_staff (snapshot, guild, user, roles) VALUES (?1, ?2, ?3, ?4)";
        connection.prepare_cached(sql)?.execute(params![snapshot, guild.stored(), user.stored(), json(&roles)])?;
        topics.push(Topic::Id(user));
    } else {
        remove_staff(connection, topics, snapshot, guild, user)?;
    }
    Ok(())
}

/// A member has left: they are no longer staff, and the guild is no longer on their list.
pub(super) fn remove_member(
    connection: &Connection,
    topics: &mut ChangedTopics,
    coverage: &Coverage,
    guild: Snowflake,
    user: Snowflake,
) -> rusqlite::Result<()> {
    let snapshot = coverage.of(connection, guild)?.snapshot;
    remove_staff(connection, topics, snapshot, guild, user)?;
    run(accounts::forget_guild(connection, user, guild))?;
    topics.push(Topic::Id(user));
    Ok(())
}

fn remove_staff(
    connection: &Connection,
    topics: &mut ChangedTopics,
    snapshot: i64,
    guild: Snowflake,
    user: Snowflake,
) -> rusqlite::Result<()> {
    let sql = "DELETE FROM guild_staff WHERE snapshot = ?1 AND guild = ?2 AND user = ?3";
    if connection.prepare_cached(sql)?.execute(params![snapshot, guild.stored(), user.stored()])? > 0 {
        topics.push(Topic::Id(user));
    }
    Ok(())
}

/// Writes guilds into a snapshot, visible or not. Prepares its statements once rather than for every row.
pub(super) struct GuildWriter<'c> {
    connection: &'c Connection,
    snapshot: i64,
    guild: CachedStatement<'c>,
    staff: CachedStatement<'c>,
}

impl<'c> GuildWriter<'c> {
    pub(super) fn new(connection: &'c Connection, snapshot: i64) -> rusqlite::Result<Self> {
        let guild = "INSERT OR IGNORE INTO guilds
            (snapshot, id, name, icon, owner, members, setup, linked, grants, carried)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, coalesce(?9, '{}'), ?10)";
        let staff = "INSERT INTO guild_staff (snapshot, guild, user, roles) VALUES (?1, ?2, ?3, ?4)";
        Ok(Self {
            connection,
            snapshot,
            guild: connection.prepare_cached(guild)?,
            staff: connection.prepare_cached(staff)?,
        })
    }

    /// Adds a guild and carries over these parts; `false`, without a change, if the snapshot already has it.
    pub(super) fn insert(&mut self, guild: &Guild, carried: Carried) -> rusqlite::Result<bool> {
        let inserted = write(&mut self.guild, self.snapshot, guild, carried)?;
        if inserted {
            self.insert_staff(guild)?;
        }
        Ok(inserted)
    }

    /// Changes a guild in the snapshot; grants and staff that the change does not mention stay.
    pub(super) fn update(&mut self, guild: &Guild) -> rusqlite::Result<()> {
        let sql = "UPDATE guilds SET name = ?3, icon = ?4, owner = ?5, members = ?6, setup = ?7, linked = ?8,
            grants = coalesce(?9, grants), carried = ?10 WHERE snapshot = ?1 AND id = ?2";
        write(&mut *self.connection.prepare_cached(sql)?, self.snapshot, guild, Carried::default())?;
        if !guild.carried().staff {
            delete_staff(self.connection, self.snapshot, guild.id)?;
            self.insert_staff(guild)?;
        }
        Ok(())
    }

    fn insert_staff(&mut self, guild: &Guild) -> rusqlite::Result<()> {
        for (user, roles) in guild.staff.iter().flatten() {
            self.staff.execute(params![self.snapshot, guild.id.stored(), user.stored(), json(roles)])?;
        }
        Ok(())
    }
}

fn write(statement: &mut Statement<'_>, snapshot: i64, guild: &Guild, carried: Carried) -> rusqlite::Result<bool> {
    let grants = guild.grants.as_ref().map(grants_text);
    let Guild { id, name, icon, owner, members, setup, linked, .. } = guild;
    let row = params![
        snapshot,
        id.stored(),
        name,
        icon,
        owner.stored(),
        integer(*members),
        setup,
        linked,
        grants,
        carried.bits()
    ];
    statement.execute(row).map(|rows| rows > 0)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Removed {
    /// Rows of guilds and staff.
    pub(super) rows: usize,
    pub(super) totals: GuildTotals,
}

pub(super) fn delete(connection: &Connection, snapshot: i64, guild: Snowflake) -> rusqlite::Result<Removed> {
    let sql = "DELETE FROM guilds WHERE snapshot = ?1 AND id = ?2 RETURNING members";
    let members =
        connection.prepare_cached(sql)?.query_row(params![snapshot, guild.stored()], |row| row.get(0)).optional()?;
    let rows = usize::from(members.is_some()) + delete_staff(connection, snapshot, guild)?;
    Ok(Removed { rows, totals: members.map(GuildTotals::one).unwrap_or_default() })
}

fn delete_staff(connection: &Connection, snapshot: i64, guild: Snowflake) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM guild_staff WHERE snapshot = ?1 AND guild = ?2";
    connection.prepare_cached(sql)?.execute(params![snapshot, guild.stored()])
}

/// Moves a guild and its staff from one snapshot to another, and returns what was moved.
pub(super) fn relocate(connection: &Connection, from: i64, to: i64, guild: Snowflake) -> rusqlite::Result<GuildTotals> {
    let staff = "UPDATE guild_staff SET snapshot = ?2 WHERE snapshot = ?1 AND guild = ?3";
    connection.prepare_cached(staff)?.execute(params![from, to, guild.stored()])?;
    let sql = "UPDATE guilds SET snapshot = ?2 WHERE snapshot = ?1 AND id = ?3 RETURNING members";
    let members =
        connection.prepare_cached(sql)?.query_row(params![from, to, guild.stored()], |row| row.get(0)).optional()?;
    Ok(members.map(GuildTotals::one).unwrap_or_default())
}

/// Copies those parts of a guild that a staged snapshot carries over from the snapshot that has them now.
pub(super) fn carry_over(
    connection: &Connection,
    from: i64,
    to: i64,
    guild: Snowflake,
    carried: Carried,
) -> rusqlite::Result<()> {
    copy(connection, from, to, guild, carried, CarriedParts::All)
}

/// After a change to a guild: copies these parts of it again into every staged snapshot that carries them over.
pub(super) fn copy_again(
    connection: &Connection,
    coverage: &Coverage,
    guild: Snowflake,
    parts: CarriedParts,
) -> rusqlite::Result<()> {
    for staged in coverage.carrying(guild) {
        let sql = "SELECT carried FROM guilds WHERE snapshot = ?1 AND id = ?2 AND carried <> 0";
        let carried =
            connection.prepare_cached(sql)?.query_row(params![staged, guild.stored()], |row| row.get(0)).optional()?;
        if let Some(bits) = carried {
            let from = coverage.of(connection, guild)?.snapshot;
            copy(connection, from, staged, guild, Carried::from_bits(bits), parts)?;
        }
    }
    Ok(())
}

fn copy(
    connection: &Connection,
    from: i64,
    to: i64,
    guild: Snowflake,
    carried: Carried,
    parts: CarriedParts,
) -> rusqlite::Result<()> {
    if carried.grants && parts.has_grants() {
        let sql = "UPDATE guilds
            SET grants = coalesce((SELECT grants FROM guilds WHERE snapshot = ?1 AND id = ?3), '{}')
            WHERE snapshot = ?2 AND id = ?3";
        connection.prepare_cached(sql)?.execute(params![from, to, guild.stored()])?;
    }
    if carried.staff {
        let member = parts.member();
        let sql = "DELETE FROM guild_staff WHERE snapshot = ?1 AND guild = ?2 AND (?3 IS NULL OR user = ?3)";
        connection.prepare_cached(sql)?.execute(params![to, guild.stored(), member.stored()])?;
        let sql = "INSERT INTO guild_staff (snapshot, guild, user, roles)
            SELECT ?2, guild, user, roles FROM guild_staff
            WHERE snapshot = ?1 AND guild = ?3 AND (?4 IS NULL OR user = ?4)";
        connection.prepare_cached(sql)?.execute(params![from, to, guild.stored(), member.stored()])?;
    }
    Ok(())
}
