//! Guilds with the bot, their staff, and what one person may see of them.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use domain::feed::{Carried, CarriedParts, GuildTotals, UNCOVERED};
use domain::{Guild, GuildFacts, PersonFacts, Snowflake, staff};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::columns::{
    Column as _, ReadColumn as _, grants, grants_text, ids, integer, json, readable, roles, unsigned,
};
use super::coverage::{Coverage, counts, cover};
use super::errors::Sql;
use super::subscriptions;
use super::work::ChangedTopics;
use crate::Topic;
use crate::sql::{accounts, team};
use crate::totals_change::TotalsChange;

/// What is known about a user, and about the guilds among these that have the bot.
pub(super) async fn person(db: &Transaction<'_>, user: Snowflake, guilds: &[Snowflake]) -> Sql<PersonFacts> {
    // The three queries are sent at the same time, in the transaction that `Read::Snapshot` opens.
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
pub(super) async fn without_bot(db: &impl GenericClient, guilds: &[Snowflake]) -> Sql<Vec<Snowflake>> {
    let sql = concat!(
        "WITH ",
        counts!(),
        " SELECT asked.guild FROM unnest($1::bigint[]) AS asked (guild) CROSS JOIN LATERAL ",
        cover!(),
        " AS cover WHERE cover.snapshot <> $2
            AND NOT EXISTS (SELECT 1 FROM guilds WHERE guilds.snapshot = cover.snapshot AND guilds.id = asked.guild)"
    );
    let statement = db.prepare_cached(sql).await?;
    db.query(&statement, &[&ids(guilds), &UNCOVERED]).await?.iter().map(|row| Ok(row.column(0)?)).collect()
}

/// The guilds and the user's roles there, in order of guild ID and without duplicates.
async fn facts(db: &impl GenericClient, user: Snowflake, guilds: &[Snowflake]) -> Sql<Vec<GuildFacts>> {
    // One statement, so that it sees one state, before a snapshot or after it.
    let sql = concat!(
        "WITH ",
        counts!(),
        " SELECT guilds.id, name, icon, owner, members, setup, linked, grants, roles
        FROM (SELECT DISTINCT guild FROM unnest($2::bigint[]) AS named (guild)) AS asked CROSS JOIN LATERAL ",
        cover!(),
        " AS cover JOIN guilds ON guilds.snapshot = cover.snapshot AND guilds.id = asked.guild
        LEFT JOIN guild_staff AS staff
            ON staff.snapshot = cover.snapshot AND staff.guild = asked.guild AND staff.\"user\" = $1
        ORDER BY guilds.id"
    );
    let statement = db.prepare_cached(sql).await?;
    // One broken guild never breaks the list.
    Ok(readable("guild", &db.query(&statement, &[&user.stored(), &ids(guilds)]).await?, read))
}

fn read(row: &Row) -> Sql<GuildFacts> {
    let guild = row.column(0)?;
    let (grants, roles) = (grants(row.try_get(7)?), row.try_get::<_, Option<&str>>(8)?.map(roles).unwrap_or_default());
    Ok(GuildFacts {
        id: guild,
        name: row.try_get(1)?,
        icon: row.try_get(2)?,
        owner: row.column(3)?,
        members: unsigned(row.try_get(4)?),
        setup: row.try_get(5)?,
        linked: row.try_get(6)?,
        granted: staff::granted(guild, &roles, &grants),
        subscriptions: Vec::new(),
    })
}

/// Stores the current state of a guild in the snapshot that covers it, as if it had come with that.
pub(super) async fn put(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    coverage: &mut Coverage,
    totals: &mut TotalsChange,
    guild: &Guild,
) -> Sql<()> {
    let cover = coverage.cover(guild.id);
    // Grants and staff that the change does not mention stay.
    let sql = "INSERT INTO guilds (snapshot, id, name, icon, owner, members, setup, linked, grants)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, coalesce($9, '{}'))
        ON CONFLICT (snapshot, id) DO UPDATE SET name = $3, icon = $4, owner = $5, members = $6, setup = $7, linked = $8,
            grants = coalesce($9, guilds.grants)";
    let statement = db.prepare_cached(sql).await?;
    let Guild { id, name, icon, owner, members, setup, linked, .. } = guild;
    let (members, grants) = (integer(*members), guild.grants.as_ref().map(grants_text));
    let row: [&(dyn ToSql + Sync); 9] =
        [&cover.snapshot, &id.stored(), name, icon, &owner.stored(), &members, setup, linked, &grants];
    db.execute(&statement, &row).await?;
    let before = coverage.replace_members(*id, Some(members));
    totals.add(topics, cover.shard, GuildTotals::change(before, guild));
    if before.is_none() {
        // A subscription may already name it.
        topics.push(Topic::PremiumEndOf(guild.id));
    } else if !guild.carried().staff {
        delete_staff(db, cover.snapshot, &[guild.id]).await?;
    }
    insert_staff(db, cover.snapshot, guild).await?;
    topics.push(Topic::Id(guild.id));
    Ok(())
}

async fn insert_staff(db: &Transaction<'_>, snapshot: i64, guild: &Guild) -> Sql<()> {
    let members = guild.staff.iter().flatten().map(|(user, roles)| (*user, json(roles)));
    let (users, roles): (Vec<Snowflake>, Vec<String>) = members.unzip();
    if users.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO guild_staff (snapshot, guild, \"user\", roles)
        SELECT $1, $2, member.id, member.roles FROM unnest($3::bigint[], $4::text[]) AS member (id, roles)";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&snapshot, &guild.id.stored(), &users.stored(), &roles]).await?;
    Ok(())
}

/// Removes a guild with its grants and staff. Subscriptions that name it stay as they are.
pub(super) async fn remove(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    coverage: &mut Coverage,
    totals: &mut TotalsChange,
    guild: Snowflake,
) -> Sql<()> {
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
pub(super) async fn put_member(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    coverage: &Coverage,
    guild: Snowflake,
    user: Snowflake,
    roles: &[Snowflake],
) -> Sql<()> {
    let snapshot = coverage.cover(guild).snapshot;
    let statement = db.prepare_cached("SELECT grants FROM guilds WHERE snapshot = $1 AND id = $2").await?;
    let stored = db.query_opt(&statement, &[&snapshot, &guild.stored()]).await?;
    let stored = stored.as_ref().map(|row| row.try_get::<_, &str>(0)).transpose()?;
    let grants = stored.map(grants).unwrap_or_default();
    if !staff::is_staff(guild, roles, &grants) {
        return remove_staff(db, topics, snapshot, guild, user).await;
    }
    let sql = "INSERT INTO guild_staff (snapshot, guild, \"user\", roles) VALUES ($1, $2, $3, $4)
        ON CONFLICT (snapshot, guild, \"user\") DO UPDATE SET roles = $4";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&snapshot, &guild.stored(), &user.stored(), &json(&roles)]).await?;
    topics.push(Topic::Id(user));
    Ok(())
}

/// A member has left: they are no longer staff, and the guild is no longer on their list.
pub(super) async fn remove_member(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    coverage: &Coverage,
    guild: Snowflake,
    user: Snowflake,
) -> Sql<()> {
    remove_staff(db, topics, coverage.cover(guild).snapshot, guild, user).await?;
    accounts::forget_guild(db, user, guild).await?;
    topics.push(Topic::Id(user));
    Ok(())
}

async fn remove_staff(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    snapshot: i64,
    guild: Snowflake,
    user: Snowflake,
) -> Sql<()> {
    let sql = "DELETE FROM guild_staff WHERE snapshot = $1 AND guild = $2 AND \"user\" = $3";
    let statement = db.prepare_cached(sql).await?;
    if db.execute(&statement, &[&snapshot, &guild.stored(), &user.stored()]).await? > 0 {
        topics.push(Topic::Id(user));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) totals: GuildTotals,
    /// How many rows of staff.
    pub(super) staff: u64,
}

pub(super) async fn delete(db: &Transaction<'_>, snapshot: i64, guilds: &[Snowflake]) -> Sql<Removed> {
    let staff = delete_staff(db, snapshot, guilds).await?;
    let sql = "DELETE FROM guilds WHERE snapshot = $1 AND id = ANY ($2) RETURNING members";
    let statement = db.prepare_cached(sql).await?;
    Ok(Removed { totals: totals_of(&db.query(&statement, &[&snapshot, &ids(guilds)]).await?)?, staff })
}

async fn delete_staff(db: &Transaction<'_>, snapshot: i64, guilds: &[Snowflake]) -> Sql<u64> {
    let statement = db.prepare_cached("DELETE FROM guild_staff WHERE snapshot = $1 AND guild = ANY ($2)").await?;
    Ok(db.execute(&statement, &[&snapshot, &ids(guilds)]).await?)
}

/// The totals of the guilds in these rows, each of which has a member count.
fn totals_of(rows: &[Row]) -> Sql<GuildTotals> {
    rows.iter().map(|row| Ok(GuildTotals::one(row.try_get(0)?))).sum()
}

/// Moves guilds and their staff from one snapshot to another, and returns what was moved.
pub(super) async fn relocate(db: &Transaction<'_>, from: i64, to: i64, guilds: &[Snowflake]) -> Sql<GuildTotals> {
    let staff = "UPDATE guild_staff SET snapshot = $2 WHERE snapshot = $1 AND guild = ANY ($3)";
    let statement = db.prepare_cached(staff).await?;
    db.execute(&statement, &[&from, &to, &ids(guilds)]).await?;
    let sql = "UPDATE guilds SET snapshot = $2 WHERE snapshot = $1 AND id = ANY ($3) RETURNING members";
    let statement = db.prepare_cached(sql).await?;
    totals_of(&db.query(&statement, &[&from, &to, &ids(guilds)]).await?)
}

/// Copies those parts of guilds that staged snapshots carry over from the snapshot that has them now.
pub(super) async fn copy(
    db: &Transaction<'_>,
    from: i64,
    to: &[i64],
    guilds: &[Snowflake],
    parts: CarriedParts,
) -> Sql<()> {
    if parts.has_grants() {
        let sql = "UPDATE guilds AS staged
            SET grants = coalesce((SELECT grants FROM guilds WHERE snapshot = $1 AND id = staged.id), '{}')
            WHERE snapshot = ANY ($2) AND id = ANY ($3) AND carried & $4 <> 0";
        let statement = db.prepare_cached(sql).await?;
        db.execute(&statement, &[&from, &to, &ids(guilds), &Carried::GRANTS]).await?;
    }
    let member = parts.member();
    let sql = "DELETE FROM guild_staff AS staff USING guilds AS staged
        WHERE staged.snapshot = ANY ($1) AND staged.id = ANY ($2) AND carried & $4 <> 0
            AND staff.snapshot = staged.snapshot AND staff.guild = staged.id AND ($3::bigint IS NULL OR staff.\"user\" = $3)";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&to, &ids(guilds), &member.stored(), &Carried::STAFF]).await?;
    let sql = "INSERT INTO guild_staff (snapshot, guild, \"user\", roles)
        SELECT staged.snapshot, staff.guild, staff.\"user\", roles FROM guilds AS staged
        JOIN guild_staff AS staff ON staff.snapshot = $1 AND staff.guild = staged.id
        WHERE staged.snapshot = ANY ($2) AND staged.id = ANY ($3) AND carried & $5 <> 0
            AND ($4::bigint IS NULL OR staff.\"user\" = $4)";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&from, &to, &ids(guilds), &member.stored(), &Carried::STAFF]).await?;
    Ok(())
}

/// After a change to a guild: copies these parts of it again into every staged snapshot that carries them over.
pub(super) async fn copy_again(
    db: &Transaction<'_>,
    coverage: &Coverage,
    guild: Snowflake,
    parts: CarriedParts,
) -> Sql<()> {
    let staged = coverage.carrying(guild);
    if staged.is_empty() {
        return Ok(());
    }
    copy(db, coverage.cover(guild).snapshot, &staged, &[guild], parts).await
}
