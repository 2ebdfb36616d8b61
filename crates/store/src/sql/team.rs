//! The team's roster. It is small and always written as a whole.

use domain::team::RosterEntry;
use domain::{PermissionSet, Roster, Snowflake, TeamMember, User, staff};

use super::{ChangedTopics, Database, Result, forgotten, readable, values};
use crate::Topic;
use crate::columns::{keys_text, team_keys};

pub(crate) async fn roster<D: Database>(db: &D) -> Result<Roster, D> {
    let sql = "SELECT username, name, avatar, discord_id, role, color, category, position, permissions
        FROM team ORDER BY ordinal";
    Ok(Roster(readable!("team member", db.query(sql, &[]).await?, |row| {
        let member = TeamMember {
            username: row.get(0)?,
            name: row.get(1)?,
            avatar: row.get(2)?,
            discord_id: row.get(3)?,
            role: row.get(4)?,
            color: row.get(5)?,
            category: row.get(6)?,
            position: row.get(7)?,
        };
        Ok(RosterEntry { member, permissions: team_keys(&row.get::<String>(8)?) })
    })))
}

/// What the roster grants a user, combined if it lists them more than once.
pub(crate) async fn granted<D: Database>(db: &D, user: Snowflake) -> Result<PermissionSet, D> {
    let rows = db.query("SELECT permissions FROM team WHERE discord_id = ?1", &values![user]).await?;
    Ok(staff::union(readable!("team member", rows, |row| Ok(team_keys(&row.get::<String>(0)?)))))
}

pub(crate) async fn replace<D: Database>(db: &D, topics: &mut ChangedTopics, roster: &Roster) -> Result<(), D> {
    let old = db.query("DELETE FROM team RETURNING discord_id", &[]).await?;
    topics.extend(readable!("team member", old, |row| row.get(0).map(Topic::Id)));
    let sql = "INSERT INTO team
        (ordinal, username, name, avatar, discord_id, role, color, category, position, permissions)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    for (ordinal, RosterEntry { member, permissions }) in (0_i64..).zip(&roster.0) {
        let TeamMember { username, name, avatar, discord_id, role, color, category, position } = member;
        if forgotten::contains(db, *discord_id).await? {
            continue;
        }
        let permissions = keys_text(*permissions);
        let row = values![ordinal, username, name, avatar, discord_id, role, color, category, position, permissions];
        db.execute(sql, &row).await?;
        topics.push(Topic::Id(*discord_id));
    }
    topics.push(Topic::Team);
    Ok(())
}

pub(crate) async fn refresh_user<D: Database>(db: &D, topics: &mut ChangedTopics, user: &User) -> Result<(), D> {
    let sql = "UPDATE team SET username = ?2, name = ?3, avatar = ?4
        WHERE discord_id = ?1 AND (username, name, avatar) IS DISTINCT FROM (?2, ?3, ?4)";
    if db.execute(sql, &values![user.id, user.username, user.name, user.avatar]).await? > 0 {
        topics.push(Topic::Team);
    }
    Ok(())
}
