//! What the bot says about premium subscriptions.

use domain::{Snowflake, Subscription};

use super::{ChangedTopics, Database, Result, readable, values};
use crate::Topic;
use crate::columns::{Column as _, json};

pub(crate) async fn put<D: Database>(db: &D, topics: &mut ChangedTopics, subscription: &Subscription) -> Result<(), D> {
    let Subscription { userid: user, slots, active_until, .. } = subscription;
    forget_guilds(db, topics, *user).await?;
    let sql = "INSERT INTO subscriptions (userid, slots, active_until) VALUES ($1, $2, $3)
        ON CONFLICT (userid) DO UPDATE SET slots = $2, active_until = $3";
    db.execute(sql, &values![user, slots, active_until]).await?;
    let guilds = subscription.distinct_guilds();
    let named: Vec<(i64, usize)> =
        guilds.iter().enumerate().map(|(ordinal, guild)| (guild.stored(), ordinal)).collect();
    let sql = format!(
        "INSERT INTO subscription_guilds (guild, userid, ordinal)
        SELECT CAST(value ->> 0 AS BIGINT), $1, CAST(value ->> 1 AS BIGINT) FROM {} WHERE true",
        D::WORDS.elements("$2")
    );
    db.execute(&sql, &values![user, json(&named)]).await?;
    topics.extend(guilds.iter().copied().map(Topic::PremiumEndOf));
    topics.extend(guilds.into_iter().chain([*user]).map(Topic::Id));
    Ok(())
}

pub(crate) async fn remove<D: Database>(db: &D, topics: &mut ChangedTopics, user: Snowflake) -> Result<(), D> {
    forget_guilds(db, topics, user).await?;
    if db.execute("DELETE FROM subscriptions WHERE userid = $1", &values![user]).await? > 0 {
        topics.push(Topic::Id(user));
    }
    Ok(())
}

async fn forget_guilds<D: Database>(db: &D, topics: &mut ChangedTopics, user: Snowflake) -> Result<(), D> {
    let sql = "DELETE FROM subscription_guilds WHERE userid = $1 RETURNING guild";
    let named = db.query(sql, &values![user]).await?;
    topics.extend(readable("guild of a subscription", named, |row| row.get(0).map(Topic::Id)));
    Ok(())
}
