//! Premium subscriptions from a snapshot.

use tokio_postgres::Client;

use super::errors::Sql;

/// Replaces all subscriptions with those staged under this number. Only differences are written, which is usually next to
/// nothing.
pub(super) async fn replace_from(db: &Client, snapshot: i64) -> Sql<()> {
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
