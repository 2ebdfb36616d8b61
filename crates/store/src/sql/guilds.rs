//! Guilds with the bot, their staff, and what one person may see of them.

use std::collections::HashMap;

use domain::feed::{Carried, CarriedParts, GuildTotals, UNCOVERED};
use domain::{Guild, GuildFacts, PersonFacts, Snowflake, staff};

use super::coverage::{Coverage, select_covered};
use super::{ChangedTopics, Database, Read, Result, Row, accounts, readable, subscriptions, team, values};
use crate::Topic;
use crate::columns::{grants, grants_text, integer, json, roles};
use crate::totals_change::TotalsChange;

/// What is known about a user, and about the guilds among these that have the bot.
pub(crate) async fn person<D: Database>(db: &D, user: Snowflake, guilds: &[Snowflake]) -> Result<PersonFacts, D> {
    // The three queries are sent at the same time, and see one state.
    let (mut known, paid, team) = futures_util::try_join!(
        facts(db, user, guilds),
        subscriptions::of_user_or_naming(db, user, guilds),
        team::granted(db, user)
    )?;
    let indexes: HashMap<Snowflake, usize> = known.iter().enumerate().map(|(index, facts)| (facts.id, index)).collect();
    for subscription in &paid {
        for index in subscription.guilds.iter().filter_map(|guild| indexes.get(guild)) {
            known[*index].subscriptions.push(subscription.clone());
        }
    }
    let subscription = paid.into_iter().find(|subscription| subscription.userid == user);
    Ok(PersonFacts { team, subscription, guilds: known })
}

/// Which of these guilds a snapshot covers but does not contain.
pub(crate) async fn without_bot<D: Database>(db: &D, guilds: &[Snowflake]) -> Result<Vec<Snowflake>, D> {
    let sql = format!(
        "{} WHERE cover.snapshot <> ?2
            AND NOT EXISTS (SELECT 1 FROM guilds WHERE guilds.snapshot = cover.snapshot AND guilds.id = asked.guild)",
        select_covered::<D>("asked.guild", "?1")
    );
    Ok(db.query(&sql, &values![guilds, UNCOVERED]).await?.iter().map(|row| row.get(0)).collect::<Read<_>>()?)
}

/// The first guilds by ID, whatever covers them.
pub(crate) async fn some<D: Database>(db: &D, most: u32) -> Result<Vec<Snowflake>, D> {
    let sql = "SELECT DISTINCT id FROM guilds ORDER BY id LIMIT ?1";
    Ok(db.query(sql, &values![most]).await?.iter().map(|row| row.get(0)).collect::<Read<_>>()?)
}

pub(crate) async fn some_staff<D: Database>(db: &D, guild: Snowflake, most: u32) -> Result<Vec<Snowflake>, D> {
    let sql = "SELECT DISTINCT \"user\" FROM guild_staff WHERE guild = ?1 ORDER BY \"user\" LIMIT ?2";
    Ok(db.query(sql, &values![guild, most]).await?.iter().map(|row| row.get(0)).collect::<Read<_>>()?)
}

/// The guilds and the user's roles there, in order of guild ID and without duplicates.
async fn facts<D: Database>(db: &D, user: Snowflake, guilds: &[Snowflake]) -> Result<Vec<GuildFacts>, D> {
    // In table order, because neighbours share pages.
    let mut guilds = guilds.to_vec();
    guilds.sort_unstable();
    guilds.dedup();
    // One statement, so that it sees one state, before a snapshot or after it.
    let columns = "guilds.id, name, icon, guilds.owner, members, setup, linked, grants, roles";
    let sql = format!(
        "{} JOIN guilds ON guilds.snapshot = cover.snapshot AND guilds.id = asked.guild
        LEFT JOIN guild_staff AS staff
            ON staff.snapshot = cover.snapshot AND staff.guild = asked.guild AND staff.\"user\" = ?1
        ORDER BY guilds.id",
        select_covered::<D>(columns, "?2")
    );
    // One broken guild never breaks the list.
    Ok(readable!("guild", db.query(&sql, &values![user, guilds]).await?, read))
}

fn read(row: &Row) -> Read<GuildFacts> {
    let guild = row.get(0)?;
    let (grants, roles) = (row.get::<String>(7)?, row.get::<Option<String>>(8)?);
    Ok(GuildFacts {
        id: guild,
        name: row.get(1)?,
        icon: row.get(2)?,
        owner: row.get(3)?,
        members: row.get(4)?,
        setup: row.get(5)?,
        linked: row.get(6)?,
        granted: staff::granted(guild, &roles.as_deref().map(self::roles).unwrap_or_default(), &self::grants(&grants)),
        subscriptions: Vec::new(),
    })
}

/// Stores the current state of a guild in the snapshot that covers it, as if it had come with that.
pub(super) async fn put<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    coverage: &mut Coverage,
    totals: &mut TotalsChange,
    guild: &Guild,
) -> Result<(), D> {
    let cover = coverage.cover(guild.id);
    // Grants and staff that the change does not mention stay.
    let sql = "INSERT INTO guilds (snapshot, id, name, icon, owner, members, setup, linked, grants)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, coalesce(?9, '{}'))
        ON CONFLICT (snapshot, id) DO UPDATE SET name = ?3, icon = ?4, owner = ?5, members = ?6, setup = ?7, linked = ?8,
            grants = coalesce(?9, guilds.grants)";
    let Guild { id, name, icon, owner, members, setup, linked, .. } = guild;
    let grants = guild.grants.as_ref().map(grants_text);
    db.execute(sql, &values![cover.snapshot, id, name, icon, owner, members, setup, linked, grants]).await?;
    let before = coverage.replace_members(*id, Some(integer(*members)));
    totals.add(topics, cover.shard, GuildTotals::change(before, guild));
    if before.is_none() {
        // A subscription may already name it.
        topics.push(Topic::PremiumEndOf(guild.id));
    } else if !guild.carried().staff {
        let sql = "DELETE FROM guild_staff WHERE snapshot = ?1 AND guild = ?2";
        db.execute(sql, &values![cover.snapshot, guild.id]).await?;
    }
    db.insert_staff(cover.snapshot, guild).await?;
    topics.push(Topic::Id(guild.id));
    Ok(())
}

/// Removes a guild with its grants and staff. Subscriptions that name it stay as they are.
pub(super) async fn remove<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    coverage: &mut Coverage,
    totals: &mut TotalsChange,
    guild: Snowflake,
) -> Result<(), D> {
    let cover = coverage.cover(guild);
    let removed = delete(db, cover.snapshot, &[guild]).await?.totals;
    coverage.replace_members(guild, None);
    if !removed.is_nothing() {
        totals.add(topics, cover.shard, GuildTotals::default() - removed);
        topics.push(Topic::Id(guild));
    }
    Ok(())
}

/// Records a member's roles if they are staff, or that they are not.
pub(super) async fn put_member<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    coverage: &Coverage,
    guild: Snowflake,
    user: Snowflake,
    roles: &[Snowflake],
) -> Result<(), D> {
    let snapshot = coverage.cover(guild).snapshot;
    let sql = "SELECT grants FROM guilds WHERE snapshot = ?1 AND id = ?2";
    let stored: Option<String> =
        db.query_first(sql, &values![snapshot, guild]).await?.map(|row| row.get(0)).transpose()?;
    let grants = stored.map(|text| grants(&text)).unwrap_or_default();
    if !staff::is_staff(guild, roles, &grants) {
        return remove_staff(db, topics, snapshot, guild, user).await;
    }
    let sql = "INSERT INTO guild_staff (snapshot, guild, \"user\", roles) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (snapshot, guild, \"user\") DO UPDATE SET roles = ?4";
    db.execute(sql, &values![snapshot, guild, user, json(&roles)]).await?;
    topics.push(Topic::Id(user));
    Ok(())
}

/// A member has left: they are no longer staff, and the guild is no longer on their list.
pub(super) async fn remove_member<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    coverage: &Coverage,
    guild: Snowflake,
    user: Snowflake,
) -> Result<(), D> {
    remove_staff(db, topics, coverage.cover(guild).snapshot, guild, user).await?;
    accounts::forget_guild(db, user, guild).await?;
    topics.push(Topic::Id(user));
    Ok(())
}

async fn remove_staff<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    snapshot: i64,
    guild: Snowflake,
    user: Snowflake,
) -> Result<(), D> {
    let sql = "DELETE FROM guild_staff WHERE snapshot = ?1 AND guild = ?2 AND \"user\" = ?3";
    if db.execute(sql, &values![snapshot, guild, user]).await? > 0 {
        topics.push(Topic::Id(user));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Removed {
    pub(crate) totals: GuildTotals,
    /// How many rows of staff.
    pub(crate) staff: u64,
}

pub(crate) async fn delete<D: Database>(db: &D, snapshot: i64, guilds: &[Snowflake]) -> Result<Removed, D> {
    let staff = delete_staff(db, snapshot, guilds).await? as u64;
    let sql = format!("DELETE FROM guilds WHERE snapshot = ?1 AND id {} RETURNING members", D::WORDS.among.put("?2"));
    Ok(Removed { totals: totals_of(&db.query(&sql, &values![snapshot, guilds]).await?)?, staff })
}

async fn delete_staff<D: Database>(db: &D, snapshot: i64, guilds: &[Snowflake]) -> Result<usize, D> {
    let sql = format!("DELETE FROM guild_staff WHERE snapshot = ?1 AND guild {}", D::WORDS.among.put("?2"));
    db.execute(&sql, &values![snapshot, guilds]).await
}

/// The totals of the guilds in these rows, each of which has a member count.
fn totals_of(rows: &[Row]) -> Read<GuildTotals> {
    rows.iter().map(|row| Ok(GuildTotals::one(row.get(0)?))).sum()
}

/// Moves guilds and their staff from one snapshot to another, and returns what was moved.
pub(crate) async fn relocate<D: Database>(db: &D, from: i64, to: i64, guilds: &[Snowflake]) -> Result<GuildTotals, D> {
    let among = D::WORDS.among.put("?3");
    let sql = format!("UPDATE guild_staff SET snapshot = ?2 WHERE snapshot = ?1 AND guild {among}");
    db.execute(&sql, &values![from, to, guilds]).await?;
    let sql = format!("UPDATE guilds SET snapshot = ?2 WHERE snapshot = ?1 AND id {among} RETURNING members");
    Ok(totals_of(&db.query(&sql, &values![from, to, guilds]).await?)?)
}

/// Copies those parts of guilds that staged snapshots carry over from the snapshot that has them now.
pub(crate) async fn copy<D: Database>(
    db: &D,
    from: i64,
    to: &[i64],
    guilds: &[Snowflake],
    parts: CarriedParts,
) -> Result<(), D> {
    let (to_these, these) = (D::WORDS.among.put("?2"), D::WORDS.among.put("?3"));
    if parts.has_grants() {
        let sql = format!(
            "UPDATE guilds SET grants = coalesce((SELECT stored.grants FROM guilds AS stored
                WHERE stored.snapshot = ?1 AND stored.id = guilds.id), '{{}}')
            WHERE snapshot {to_these} AND id {these} AND carried & ?4 <> 0"
        );
        db.execute(&sql, &values![from, to, guilds, Carried::GRANTS]).await?;
    }
    let member = parts.member();
    let sql = format!(
        "DELETE FROM guild_staff WHERE snapshot {to_these} AND guild {these}
            AND (CAST(?1 AS BIGINT) IS NULL OR \"user\" = ?1)
            AND EXISTS (SELECT 1 FROM guilds WHERE guilds.snapshot = guild_staff.snapshot
                AND guilds.id = guild_staff.guild AND carried & ?4 <> 0)"
    );
    db.execute(&sql, &values![member, to, guilds, Carried::STAFF]).await?;
    let sql = format!(
        "INSERT INTO guild_staff (snapshot, guild, \"user\", roles)
        SELECT staged.snapshot, staff.guild, staff.\"user\", roles FROM guilds AS staged
        JOIN guild_staff AS staff ON staff.snapshot = ?1 AND staff.guild = staged.id
        WHERE staged.snapshot {to_these} AND staged.id {these} AND carried & ?5 <> 0
            AND (CAST(?4 AS BIGINT) IS NULL OR staff.\"user\" = ?4)"
    );
    db.execute(&sql, &values![from, to, guilds, member, Carried::STAFF]).await.map(drop)
}

/// After a change to a guild: copies these parts of it again into every staged snapshot that carries them over.
pub(super) async fn copy_again<D: Database>(
    db: &D,
    coverage: &Coverage,
    guild: Snowflake,
    parts: CarriedParts,
) -> Result<(), D> {
    let staged = coverage.carrying(guild);
    if staged.is_empty() {
        return Ok(());
    }
    copy(db, coverage.cover(guild).snapshot, &staged, &[guild], parts).await
}
