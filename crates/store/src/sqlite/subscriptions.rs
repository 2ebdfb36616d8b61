//! Premium subscriptions from a snapshot.

use rusqlite::Connection;

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
