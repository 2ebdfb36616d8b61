//! What is backed up: the tables with their columns, in an order in which whatever a row refers to comes before it. Both stores have
//! them under the same names.

use super::value::ColumnKind;

/// A column.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: ColumnKind,
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// The columns; those of the key come first, in its order.
    pub(crate) columns: &'static [Column],
    /// How many columns the key has.
    pub(crate) key: usize,
    /// Which rows are worth a backup, if not all; a condition in SQL that both stores understand.
    pub(crate) only: Option<&'static str>,
    /// Which rows a store has that was never used; a condition in SQL.
    pub(crate) unused: Option<&'static str>,
}

impl Table {
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.columns.iter().map(|column| column.name)
    }
}

/// The kind of a column; `None` for one that the newest schema does not have.
pub(crate) fn kind(table: &str, column: &str) -> Option<ColumnKind> {
    let table = TABLES.iter().find(|found| found.name == table)?;
    table.columns.iter().find(|found| found.name == column).map(|found| found.kind)
}

/// Tables that are not backed up: the bot sends again what was being staged. They must be empty where data goes.
pub(crate) const STAGED: [&str; 3] = ["staged_snapshots", "staged_kept", "staged_subscriptions"];

/// A table that is not backed up, and may hold something where data goes: it is written to find out whether writing works.
pub(crate) const PROBE: &str = "probe";

/// Columns that are not backed up: no grant is being refreshed while the service is stopped, and no snapshot is being staged.
#[cfg(test)]
pub(super) const PASSING: [(&str, &str); 2] = [("users", "refresh_until"), ("guilds", "carried")];

/// Rows of other snapshots can be seen by nobody, and wait to be removed. As a comparison with a truth, so that no planner
/// walks over the snapshots in its own order for it.
const OF_A_SHARD: &str = "(snapshot IN (SELECT snapshot FROM feed_shards)) IS TRUE";

const fn integer(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Integer }
}

const fn real(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Real }
}

const fn text(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Text }
}

const fn bytes(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Bytes }
}

const fn boolean(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Boolean }
}

const fn sequence(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Sequence }
}

const fn table(name: &'static str, key: usize, columns: &'static [Column]) -> Table {
    Table { name, columns, key, only: None, unused: None }
}

const fn of_shards(table: Table) -> Table {
    Table { only: Some(OF_A_SHARD), ..table }
}

/// All that is backed up.
pub(crate) const TABLES: &[Table] = &[
    table(
        "users",
        1,
        &[
            integer("id"),
            text("username"),
            text("name"),
            text("avatar"),
            bytes("grant_sealed"),
            integer("grant_version"),
            text("list"),
            integer("list_fetched"),
            integer("list_version"),
            integer("signing_in"),
        ],
    ),
    table(
        "sessions",
        1,
        &[
            bytes("token_hash"),
            text("id"),
            integer("user_id"),
            integer("created"),
            integer("last_seen"),
            text("agent"),
            sequence("ordinal"),
        ],
    ),
    table("code_claims", 1, &[bytes("hash"), boolean("settled"), text("user"), integer("until")]),
    table(
        "revocations",
        1,
        &[integer("user_id"), bytes("grant_sealed"), integer("due"), integer("tries"), integer("sending_until")],
    ),
    table("forgotten_users", 1, &[bytes("user_hash"), integer("since")]),
    table("blocked_users", 1, &[integer("user_id"), text("reason"), integer("since")]),
    Table {
        unused: Some("shard_count = 0 AND guilds = 0"),
        ..table(
            "feed_shards",
            2,
            &[
                integer("shard_count"),
                integer("shard_id"),
                integer("snapshot"),
                integer("committed"),
                text("instance"),
                integer("snapshot_at"),
                integer("guilds"),
                text("key"),
                integer("member_sum"),
            ],
        )
    },
    Table {
        unused: Some("feedback = 0 AND ratings = 0 AND hidden_guilds = 0 AND hidden_members = 0"),
        ..table(
            "totals",
            1,
            &[
                integer("id"),
                integer("feedback"),
                integer("ratings"),
                integer("hidden_guilds"),
                integer("hidden_members"),
            ],
        )
    },
    of_shards(table("feed_sweeps", 1, &[integer("snapshot"), boolean("whole"), integer("after"), boolean("again")])),
    of_shards(table(
        "guilds",
        2,
        &[
            integer("snapshot"),
            integer("id"),
            text("name"),
            text("icon"),
            integer("owner"),
            integer("members"),
            boolean("setup"),
            boolean("linked"),
            text("grants"),
        ],
    )),
    of_shards(table("guild_staff", 3, &[integer("snapshot"), integer("guild"), integer("user"), text("roles")])),
    table(
        "feed_instances",
        2,
        &[
            text("key"),
            text("instance"),
            integer("next"),
            integer("first_seen"),
            integer("started_at"),
            integer("last_used"),
            boolean("sent_snapshot"),
        ],
    ),
    table("feed_own_shards", 4, &[text("key"), text("instance"), integer("shard_count"), integer("shard_id")]),
    table("subscriptions", 1, &[integer("userid"), integer("slots"), integer("active_until")]),
    table("subscription_guilds", 2, &[integer("guild"), integer("userid"), integer("ordinal")]),
    table(
        "team",
        1,
        &[
            integer("ordinal"),
            text("username"),
            text("name"),
            text("avatar"),
            integer("discord_id"),
            text("role"),
            text("color"),
            text("category"),
            integer("position"),
            text("permissions"),
        ],
    ),
    table(
        "feedback",
        1,
        &[
            text("id"),
            text("feedback"),
            integer("rating"),
            integer("timestamp"),
            integer("submitter_id"),
            text("submitter_username"),
            text("submitter_name"),
            text("submitter_avatar"),
            integer("slot"),
        ],
    ),
    table(
        "bot_keys",
        1,
        &[text("id"), text("label"), bytes("key_hash"), integer("created"), integer("revoked"), sequence("ordinal")],
    ),
    table(
        "instances",
        2,
        &[
            text("key"),
            text("id"),
            integer("started_at"),
            integer("memory"),
            integer("reported"),
            integer("shard_count"),
        ],
    ),
    table(
        "shards",
        1,
        &[
            integer("id"),
            text("instance"),
            integer("started_at"),
            integer("reported"),
            integer("sent"),
            integer("acknowledged"),
            real("latency"),
            text("key"),
        ],
    ),
    table(
        "audit",
        1,
        &[
            sequence("id"),
            integer("at"),
            text("kind"),
            text("person"),
            text("key"),
            text("address"),
            text("request"),
            text("detail"),
            integer("count"),
        ],
    ),
    table("history_minutes", 1, &[integer("begins"), text("state"), real("latency")]),
    table("history_days", 1, &[integer("begins"), integer("up"), integer("partial"), integer("down")]),
    table(
        "incidents",
        1,
        &[integer("id"), text("worst"), integer("began"), integer("ended"), integer("shards"), integer("shard_count")],
    ),
    table("announcements", 1, &[integer("id"), text("title"), text("text"), integer("posted"), integer("ended")]),
];
