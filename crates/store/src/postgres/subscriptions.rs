//! Premium subscriptions.

use deadpool_postgres::{GenericClient, Transaction};
use domain::{Snowflake, Subscription};
use tokio_postgres::Row;
use tracing::warn;

use super::columns::{Column as _, ReadColumn as _, Whole, ids, readable};
use super::errors::Sql;

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
