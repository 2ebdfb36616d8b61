//! Premium subscriptions.

use deadpool_postgres::{GenericClient, Transaction};
use domain::{Snowflake, Subscription};
use tokio_postgres::Row;
use tracing::warn;

use super::columns::{Column as _, ReadColumn as _, Whole, ids, readable};
use super::errors::Sql;
use super::work::ChangedTopics;
use crate::Topic;

/// The subscription of a user, and every one that names one of these guilds, ordered by owner ID.
pub(super) async fn of_user_or_naming(
    db: &impl GenericClient,
    user: Snowflake,
    guilds: &[Snowflake],
) -> Sql<Vec<Subscription>> {
    let sql = "WITH wanted (userid) AS (
            SELECT $1::bigint UNION SELECT userid FROM subscription_guilds WHERE guild = ANY ($2::bigint[]))
        SELECT userid, slots, active_until,
            ARRAY (SELECT guild FROM subscription_guilds AS named WHERE named.userid = subscriptions.userid ORDER BY ordinal)
        FROM wanted JOIN subscriptions USING (userid) ORDER BY userid";
    let statement = db.prepare_cached(sql).await?;
    // A broken one counts as none, and does not take the user's guilds with it.
    Ok(readable("subscription", &db.query(&statement, &[&user.stored(), &ids(guilds)]).await?, read))
}

fn read(row: &Row) -> Sql<Subscription> {
    let Whole(slots) = row.try_get(1)?;
    let guild = |number: i64| {
        let guild = u64::try_from(number).ok().and_then(Snowflake::new);
        if guild.is_none() {
            warn!("left out a guild of a subscription: not an id");
        }
        guild
    };
    let guilds = row.try_get::<_, Vec<i64>>(3)?.into_iter().filter_map(guild).collect();
    Ok(Subscription { userid: row.column(0)?, slots, guilds, active_until: row.column(2)? })
}

pub(super) async fn put(db: &Transaction<'_>, topics: &mut ChangedTopics, subscription: &Subscription) -> Sql<()> {
    let user = subscription.userid;
    forget_guilds(db, topics, user).await?;
    let sql = "INSERT INTO subscriptions (userid, slots, active_until) VALUES ($1, $2, $3)
        ON CONFLICT (userid) DO UPDATE SET slots = $2, active_until = $3";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&user.stored(), &i64::from(subscription.slots), &subscription.active_until.stored()])
        .await?;
    let sql = "INSERT INTO subscription_guilds (guild, userid, ordinal)
        SELECT guild, $1, ordinal - 1 FROM unnest($2::bigint[]) WITH ORDINALITY AS named (guild, ordinal)";
    let statement = db.prepare_cached(sql).await?;
    let guilds = subscription.distinct_guilds();
    db.execute(&statement, &[&user.stored(), &guilds.stored()]).await?;
    topics.extend(guilds.iter().copied().map(Topic::PremiumEndOf));
    topics.extend(guilds.into_iter().chain([user]).map(Topic::Id));
    Ok(())
}

pub(super) async fn remove(db: &Transaction<'_>, topics: &mut ChangedTopics, user: Snowflake) -> Sql<()> {
    forget_guilds(db, topics, user).await?;
    let statement = db.prepare_cached("DELETE FROM subscriptions WHERE userid = $1").await?;
    if db.execute(&statement, &[&user.stored()]).await? > 0 {
        topics.push(Topic::Id(user));
    }
    Ok(())
}

async fn forget_guilds(db: &Transaction<'_>, topics: &mut ChangedTopics, user: Snowflake) -> Sql<()> {
    let statement = db.prepare_cached("DELETE FROM subscription_guilds WHERE userid = $1 RETURNING guild").await?;
    let named = db.query(&statement, &[&user.stored()]).await?;
    topics.extend(readable("guild of a subscription", &named, |row| Ok(Topic::Id(row.column(0)?))));
    Ok(())
}

/// Replaces all subscriptions with those staged under this number. Only differences are written, which is usually next to
/// nothing.
pub(super) async fn replace_from(db: &Transaction<'_>, snapshot: i64) -> Sql<()> {
    for sql in [
        "DELETE FROM subscriptions AS old WHERE NOT EXISTS
            (SELECT 1 FROM staged_subscriptions AS new WHERE new.snapshot = $1 AND new.userid = old.userid)",
        "INSERT INTO subscriptions AS old (userid, slots, active_until)
            SELECT userid, slots, active_until FROM staged_subscriptions WHERE snapshot = $1
            ON CONFLICT (userid) DO UPDATE SET slots = excluded.slots, active_until = excluded.active_until
            WHERE (old.slots, old.active_until) IS DISTINCT FROM (excluded.slots, excluded.active_until)",
        "CREATE TEMPORARY TABLE named ON COMMIT DROP AS
            SELECT named.guild::bigint AS guild, userid, named.ordinal - 1 AS ordinal
            FROM staged_subscriptions AS staged,
                json_array_elements_text(staged.guilds::json) WITH ORDINALITY AS named (guild, ordinal)
            WHERE snapshot = $1",
    ] {
        // The temporary table is a different one each time, so these statements are not prepared.
        let sql = sql.replace("$1", &snapshot.to_string());
        db.batch_execute(&sql).await?;
    }
    db.batch_execute(
        "ANALYZE named;
        DELETE FROM subscription_guilds AS old WHERE NOT EXISTS
            (SELECT 1 FROM named WHERE named.guild = old.guild AND named.userid = old.userid);
        INSERT INTO subscription_guilds AS old (guild, userid, ordinal) SELECT guild, userid, ordinal FROM named
            ON CONFLICT (guild, userid) DO UPDATE SET ordinal = excluded.ordinal WHERE old.ordinal <> excluded.ordinal;
        DROP TABLE named",
    )
    .await?;
    Ok(())
}
