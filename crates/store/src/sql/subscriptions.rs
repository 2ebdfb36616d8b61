//! Premium subscriptions.

use domain::{Snowflake, Subscription};

use super::{ChangedTopics, Database, Read, Result, Row, readable, values};
use crate::Topic;
use crate::columns::{Column as _, json, warn_broken};

/// The subscription of a user, and every one that names one of these guilds, ordered by owner ID.
pub(super) async fn of_user_or_naming<D: Database>(
    db: &D,
    user: Snowflake,
    guilds: &[Snowflake],
) -> Result<Vec<Subscription>, D> {
    let sql = format!(
        "WITH wanted (userid) AS (
            SELECT CAST(?1 AS BIGINT) UNION SELECT userid FROM subscription_guilds WHERE guild {})
        SELECT userid, slots, active_until, guild
        FROM wanted JOIN subscriptions USING (userid) LEFT JOIN subscription_guilds USING (userid)
        ORDER BY userid, ordinal",
        D::WORDS.among.put("?2")
    );
    let mut found: Vec<Subscription> = Vec::new();
    // A broken one counts as none, and does not take the user's guilds with it.
    for (guild, subscription) in readable!("subscription", db.query(&sql, &values![user, guilds]).await?, read) {
        if found.last().is_none_or(|last| last.userid != subscription.userid) {
            found.push(subscription);
        }
        if let Some(last) = found.last_mut() {
            last.guilds.extend(guild);
        }
    }
    Ok(found)
}

/// A subscription without its guilds, and one of them.
fn read(row: &Row) -> Read<(Option<Snowflake>, Subscription)> {
    let guild = row.get::<Option<_>>(3);
    let guild = guild.inspect_err(|error| warn_broken!(%error, "left out a guild of a subscription"));
    let (userid, slots, active_until) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok((guild.unwrap_or_default(), Subscription { userid, slots, guilds: Vec::new(), active_until }))
}

pub(crate) async fn put<D: Database>(db: &D, topics: &mut ChangedTopics, subscription: &Subscription) -> Result<(), D> {
    let Subscription { userid: user, slots, active_until, .. } = subscription;
    forget_guilds(db, topics, *user).await?;
    let sql = "INSERT INTO subscriptions (userid, slots, active_until) VALUES (?1, ?2, ?3)
        ON CONFLICT (userid) DO UPDATE SET slots = ?2, active_until = ?3";
    db.execute(sql, &values![user, slots, active_until]).await?;
    let guilds = subscription.distinct_guilds();
    let named: Vec<(i64, usize)> =
        guilds.iter().enumerate().map(|(ordinal, guild)| (guild.stored(), ordinal)).collect();
    let sql = format!(
        "INSERT INTO subscription_guilds (guild, userid, ordinal)
        SELECT CAST(value ->> 0 AS BIGINT), ?1, CAST(value ->> 1 AS BIGINT) FROM {} WHERE true",
        D::WORDS.elements.put("?2")
    );
    db.execute(&sql, &values![user, json(&named)]).await?;
    topics.extend(guilds.iter().copied().map(Topic::PremiumEndOf));
    topics.extend(guilds.into_iter().chain([*user]).map(Topic::Id));
    Ok(())
}

pub(crate) async fn remove<D: Database>(db: &D, topics: &mut ChangedTopics, user: Snowflake) -> Result<(), D> {
    forget_guilds(db, topics, user).await?;
    if db.execute("DELETE FROM subscriptions WHERE userid = ?1", &values![user]).await? > 0 {
        topics.push(Topic::Id(user));
    }
    Ok(())
}

async fn forget_guilds<D: Database>(db: &D, topics: &mut ChangedTopics, user: Snowflake) -> Result<(), D> {
    let sql = "DELETE FROM subscription_guilds WHERE userid = ?1 RETURNING guild";
    let named = db.query(sql, &values![user]).await?;
    topics.extend(readable!("guild of a subscription", named, |row| row.get(0).map(Topic::Id)));
    Ok(())
}
