//! Guilds that have the bot, their staff, and what one person may see of them.

use rusqlite::{Connection, OptionalExtension, Row, params};
use tracing::warn;

use crate::domain::{Guild, GuildFacts, PermissionSet, PersonFacts, Snowflake};
use crate::store::Topic;

use super::columns::{grants, grants_text, integer, is_unreadable, json, roles, unsigned};
use super::writer::Touched;
use super::{accounts, subscriptions, team};

/// What is known of a user and of those of these guilds that have the bot.
pub(super) fn person(
    connection: &Connection,
    user: Snowflake,
    mut guilds: Vec<Snowflake>,
) -> rusqlite::Result<PersonFacts> {
    // In the order of the table: neighbours share pages.
    guilds.sort_unstable();
    guilds.dedup();
    let mut known = Vec::new();
    for guild in guilds {
        match facts(connection, user, guild) {
            Ok(facts) => known.extend(facts),
            // One broken guild never breaks the list.
            Err(error) if is_unreadable(&error) => {
                warn!(%guild, %error, "left out a guild that cannot be read");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(PersonFacts {
        team: team::granted(connection, user)?,
        subscription: subscriptions::of_user(connection, user)?,
        guilds: known,
    })
}

fn facts(connection: &Connection, user: Snowflake, guild: Snowflake) -> rusqlite::Result<Option<GuildFacts>> {
    let sql = "SELECT id, name, icon, owner, members, setup, linked, grants FROM guilds WHERE id = ?1";
    let read = |row: &Row<'_>| {
        let facts = GuildFacts {
            id: row.get(0)?,
            name: row.get(1)?,
            icon: row.get(2)?,
            owner: row.get(3)?,
            members: unsigned(row.get(4)?),
            setup: row.get(5)?,
            linked: row.get(6)?,
            granted: PermissionSet::EMPTY,
            subscriptions: Vec::new(),
        };
        Ok((facts, row.get::<_, String>(7)?))
    };
    let Some((mut facts, grants_text)) = connection.prepare_cached(sql)?.query_row([guild], read).optional()? else {
        return Ok(None);
    };
    facts.granted = granted(connection, user, guild, &grants_text)?;
    facts.subscriptions = subscriptions::naming(connection, guild)?;
    Ok(Some(facts))
}

/// The keys of the roles that a user holds in a guild. The role with the guild's own id is everyone's.
fn granted(
    connection: &Connection,
    user: Snowflake,
    guild: Snowflake,
    grants_text: &str,
) -> rusqlite::Result<PermissionSet> {
    let held: Option<String> = connection
        .prepare_cached("SELECT roles FROM guild_staff WHERE guild = ?1 AND user = ?2")?
        .query_row([guild, user], |row| row.get(0))
        .optional()?;
    let held = held.map(|text| roles(&text)).unwrap_or_default();
    let grants = grants(grants_text);
    let keys = held.iter().chain([&guild]).filter_map(|role| grants.get(role));
    Ok(keys.fold(PermissionSet::EMPTY, |all, keys| all.union(*keys)))
}

pub(super) fn put(connection: &Connection, touched: &mut Touched, guild: &Guild) -> rusqlite::Result<()> {
    let sql = "INSERT INTO guilds (id, name, icon, owner, members, setup, linked, grants)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, coalesce(?8, '{}'))
        ON CONFLICT (id) DO UPDATE SET name = ?2, icon = ?3, owner = ?4, members = ?5, setup = ?6, linked = ?7,
            grants = coalesce(?8, grants)";
    connection.prepare_cached(sql)?.execute(params![
        guild.id,
        guild.name,
        guild.icon,
        guild.owner,
        integer(guild.members),
        guild.setup,
        guild.linked,
        guild.grants.as_ref().map(grants_text).transpose()?
    ])?;
    if let Some(staff) = &guild.staff {
        connection.prepare_cached("DELETE FROM guild_staff WHERE guild = ?1")?.execute([guild.id])?;
        for (user, roles) in staff {
            put_staff(connection, guild.id, *user, roles)?;
        }
    }
    touched.push(Topic::Id(guild.id));
    Ok(())
}

/// Removes a guild with its grants and staff. Subscriptions that name it keep naming it.
pub(super) fn remove(connection: &Connection, touched: &mut Touched, guild: Snowflake) -> rusqlite::Result<()> {
    if connection.prepare_cached("DELETE FROM guilds WHERE id = ?1")?.execute([guild])? > 0 {
        touched.push(Topic::Id(guild));
    }
    Ok(())
}

/// Notes a member's roles, or that they are no staff.
pub(super) fn put_member(
    connection: &Connection,
    touched: &mut Touched,
    guild: Snowflake,
    user: Snowflake,
    roles: &[Snowflake],
) -> rusqlite::Result<()> {
    let stored: Option<String> = connection
        .prepare_cached("SELECT grants FROM guilds WHERE id = ?1")?
        .query_row([guild], |row| row.get(0))
        .optional()?;
    let grants = stored.map(|text| grants(&text)).unwrap_or_default();
    // Everyone's role grants without being staff; to store every member for it would change no answer.
    let grants_more = |role: &Snowflake| *role != guild && grants.get(role).is_some_and(|keys| !keys.is_empty());
    let is_staff = roles.iter().any(grants_more);
    if is_staff {
        put_staff(connection, guild, user, roles)?;
        touched.push(Topic::Id(user));
    } else {
        remove_staff(connection, touched, guild, user)?;
    }
    Ok(())
}

/// A member has left: they are no staff, and the guild is no longer on their list.
pub(super) fn remove_member(
    connection: &Connection,
    touched: &mut Touched,
    guild: Snowflake,
    user: Snowflake,
) -> rusqlite::Result<()> {
    remove_staff(connection, touched, guild, user)?;
    accounts::forget_guild(connection, user, guild)?;
    touched.push(Topic::Id(user));
    Ok(())
}

fn put_staff(connection: &Connection, guild: Snowflake, user: Snowflake, roles: &[Snowflake]) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO guild_staff (guild, user, roles) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![guild, user, json(&roles)?]).map(drop)
}

fn remove_staff(
    connection: &Connection,
    touched: &mut Touched,
    guild: Snowflake,
    user: Snowflake,
) -> rusqlite::Result<()> {
    let sql = "DELETE FROM guild_staff WHERE guild = ?1 AND user = ?2";
    if connection.prepare_cached(sql)?.execute([guild, user])? > 0 {
        touched.push(Topic::Id(user));
    }
    Ok(())
}
