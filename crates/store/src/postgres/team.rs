//! The team's roster. It is small and always written as a whole.

use deadpool_postgres::{GenericClient, Transaction};
use domain::team::RosterEntry;
use domain::{PermissionSet, Roster, Snowflake, TeamMember, User, staff};

use super::columns::{Column as _, ReadColumn as _, keys_text, readable, team_keys};
use super::errors::Sql;
use super::forget;
use super::work::ChangedTopics;
use crate::Topic;

pub(super) async fn roster(db: &impl GenericClient) -> Sql<Roster> {
    let sql = "SELECT username, name, avatar, discord_id, role, color, category, position, permissions
        FROM team ORDER BY ordinal";
    let statement = db.prepare_cached(sql).await?;
    Ok(Roster(readable("team member", &db.query(&statement, &[]).await?, |row| {
        let member = TeamMember {
            username: row.try_get(0)?,
            name: row.try_get(1)?,
            avatar: row.column(2)?,
            discord_id: row.column(3)?,
            role: row.try_get(4)?,
            color: row.try_get(5)?,
            category: row.try_get(6)?,
            position: row.try_get(7)?,
        };
        Ok(RosterEntry { member, permissions: team_keys(row.try_get(8)?) })
    })))
}

/// What the roster grants a user, combined if it lists them more than once.
pub(super) async fn granted(db: &impl GenericClient, user: Snowflake) -> Sql<PermissionSet> {
    let statement = db.prepare_cached("SELECT permissions FROM team WHERE discord_id = $1").await?;
    let rows = db.query(&statement, &[&user.stored()]).await?;
    let granted = readable("team member", &rows, |row| Ok(team_keys(row.try_get(0)?)));
    Ok(staff::union(granted))
}

pub(super) async fn replace(db: &Transaction<'_>, topics: &mut ChangedTopics, roster: &Roster) -> Sql<()> {
    let statement = db.prepare_cached("DELETE FROM team RETURNING discord_id").await?;
    let old = db.query(&statement, &[]).await?;
    topics.extend(readable("team member", &old, |row| Ok(Topic::Id(row.column(0)?))));
    let sql = "INSERT INTO team
        (ordinal, username, name, avatar, discord_id, role, color, category, position, permissions)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let statement = db.prepare_cached(sql).await?;
    for (ordinal, RosterEntry { member, permissions }) in (0_i64..).zip(&roster.0) {
        let TeamMember { username, name, avatar, discord_id, role, color, category, position } = member;
        if forget::is_forgotten(db, *discord_id).await? {
            continue;
        }
        let permissions = keys_text(*permissions);
        let row: [&(dyn tokio_postgres::types::ToSql + Sync); 10] = [
            &ordinal,
            username,
            name,
            &avatar.stored(),
            &discord_id.stored(),
            role,
            color,
            category,
            position,
            &permissions,
        ];
        db.execute(&statement, &row).await?;
        topics.push(Topic::Id(*discord_id));
    }
    topics.push(Topic::Team);
    Ok(())
}

pub(super) async fn refresh_user(db: &Transaction<'_>, topics: &mut ChangedTopics, user: &User) -> Sql<()> {
    let sql = "UPDATE team SET username = $2, name = $3, avatar = $4
        WHERE discord_id = $1 AND (username, name, avatar) IS DISTINCT FROM ($2, $3, $4)";
    let statement = db.prepare_cached(sql).await?;
    if db.execute(&statement, &[&user.id.stored(), &user.username, &user.name, &user.avatar.stored()]).await? > 0 {
        topics.push(Topic::Team);
    }
    Ok(())
}
