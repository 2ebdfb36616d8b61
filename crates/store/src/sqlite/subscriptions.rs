//! Premium subscriptions.

use domain::{Snowflake, Subscription};
use rusqlite::{Connection, Row};

use super::columns::{Column as _, ReadColumn as _, readable};

pub(super) fn of_user(connection: &Connection, user: Snowflake) -> rusqlite::Result<Option<Subscription>> {
    let mut statement =
        connection.prepare_cached("SELECT userid, slots, active_until FROM subscriptions WHERE userid = ?1")?;
    // At most one; a broken one counts as none, and does not take the user's guilds with it.
    let subscription = readable("subscription", statement.query_map([user.stored()], read)?)?.pop();
    subscription.map(|subscription| with_guilds(connection, subscription)).transpose()
}

/// Every subscription that names a guild.
pub(super) fn naming(connection: &Connection, guild: Snowflake) -> rusqlite::Result<Vec<Subscription>> {
    let sql = "SELECT userid, slots, active_until FROM subscription_guilds JOIN subscriptions USING (userid)
        WHERE guild = ?1 ORDER BY userid";
    let mut statement = connection.prepare_cached(sql)?;
    let subscriptions = readable("subscription", statement.query_map([guild.stored()], read)?)?;
    subscriptions.into_iter().map(|subscription| with_guilds(connection, subscription)).collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Subscription> {
    Ok(Subscription { userid: row.column(0)?, slots: row.get(1)?, guilds: Vec::new(), active_until: row.column(2)? })
}

fn with_guilds(connection: &Connection, mut subscription: Subscription) -> rusqlite::Result<Subscription> {
    subscription.guilds = guilds_of(connection, subscription.userid)?;
    Ok(subscription)
}

fn guilds_of(connection: &Connection, user: Snowflake) -> rusqlite::Result<Vec<Snowflake>> {
    let mut statement =
        connection.prepare_cached("SELECT guild FROM subscription_guilds WHERE userid = ?1 ORDER BY ordinal")?;
    readable("guild of a subscription", statement.query_map([user.stored()], |row| row.column(0))?)
}

/// Replaces all subscriptions with those staged under this number.
pub(super) fn replace_from(connection: &Connection, snapshot: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM subscription_guilds")?.execute([])?;
    connection.prepare_cached("DELETE FROM subscriptions")?.execute([])?;
    let sql = "INSERT INTO subscriptions (userid, slots, active_until)
        SELECT userid, slots, active_until FROM staged_subscriptions WHERE snapshot = ?1";
    connection.prepare_cached(sql)?.execute([snapshot])?;
    let sql = "INSERT INTO subscription_guilds (guild, userid, ordinal)
        SELECT CAST(named.value AS INTEGER), userid, named.key
        FROM staged_subscriptions AS staged, json_each(staged.guilds) AS named WHERE snapshot = ?1";
    connection.prepare_cached(sql)?.execute([snapshot]).map(drop)
}
