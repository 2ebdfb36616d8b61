//! The team's roster. It is small and always written as a whole.

use domain::team::RosterEntry;
use domain::{PermissionSet, Roster, Snowflake, TeamMember, User, staff};
use rusqlite::{Connection, params};

use super::columns::{Column as _, ReadColumn as _, keys_text, readable, team_keys};
use super::forget;
use super::writer::ChangedTopics;
use crate::Topic;

pub(super) fn roster(connection: &Connection) -> rusqlite::Result<Roster> {
    let sql = "SELECT username, name, avatar, discord_id, role, color, category, position, permissions
        FROM team ORDER BY ordinal";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let member = TeamMember {
            username: row.get(0)?,
            name: row.get(1)?,
            avatar: row.column(2)?,
            discord_id: row.column(3)?,
            role: row.get(4)?,
            color: row.get(5)?,
            category: row.get(6)?,
            position: row.get(7)?,
        };
        Ok(RosterEntry { member, permissions: team_keys(&row.get::<_, String>(8)?) })
    })?;
    readable("team member", rows).map(Roster)
}

/// What the roster grants a user, combined if it lists them more than once.
pub(super) fn granted(connection: &Connection, user: Snowflake) -> rusqlite::Result<PermissionSet> {
    let mut statement = connection.prepare_cached("SELECT permissions FROM team WHERE discord_id = ?1")?;
    let rows = readable("team member", statement.query_map([user.stored()], |row| row.get::<_, String>(0))?)?;
    Ok(staff::union(rows.iter().map(|text| team_keys(text))))
}

pub(super) fn replace(connection: &Connection, topics: &mut ChangedTopics, roster: &Roster) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("DELETE FROM team RETURNING discord_id")?;
    for old in readable("team member", statement.query_map([], |row| row.column(0))?)? {
        topics.push(Topic::Id(old));
    }
    let sql = "INSERT INTO team
        (ordinal, username, name, avatar, discord_id, role, color, category, position, permissions)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let mut insert = connection.prepare_cached(sql)?;
    for (ordinal, RosterEntry { member, permissions }) in (0_i64..).zip(&roster.0) {
        let TeamMember { username, name, avatar, discord_id, role, color, category, position } = member;
        if forget::is_forgotten(connection, *discord_id)? {
            continue;
        }
        let permissions = keys_text(*permissions);
        insert.execute(params![
            ordinal,
            username,
            name,
            avatar.stored(),
            discord_id.stored(),
            role,
            color,
            category,
            position,
            permissions
        ])?;
        topics.push(Topic::Id(*discord_id));
    }
    topics.push(Topic::Team);
    Ok(())
}

pub(super) fn refresh_user(connection: &Connection, topics: &mut ChangedTopics, user: &User) -> rusqlite::Result<()> {
    let sql = "UPDATE team SET username = ?2, name = ?3, avatar = ?4
        WHERE discord_id = ?1 AND (username, name, avatar) IS NOT (?2, ?3, ?4)";
    if connection.prepare_cached(sql)?.execute(params![
        user.id.stored(),
        user.username,
        user.name,
        user.avatar.stored()
    ])? > 0
    {
        topics.push(Topic::Team);
    }
    Ok(())
}
