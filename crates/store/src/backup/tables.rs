//! What is backed up: the tables with their columns, ordered so that rows come after what they refer to. Both stores use the
//! same names.

use super::value::ColumnKind;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableColumn {
    pub(crate) name: &'static str,
    pub(crate) kind: ColumnKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// The columns, starting with those of the key in its order.
    pub(crate) columns: &'static [TableColumn],
    pub(crate) key: usize,
    /// Which rows to back up, if not all; an SQL condition that both stores understand.
    pub(crate) only: Option<&'static str>,
    /// Which rows an unused store has; an SQL condition.
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

/// Tables that are not backed up, because the bot resends what was being staged. They must be empty at the destination.
pub(crate) const STAGED: [&str; 3] = ["staged_snapshots", "staged_kept", "staged_subscriptions"];

/// A table that is not backed up and may have rows at the destination: the service writes to it to find out whether writing works.
pub(crate) const PROBE: &str = "probe";

/// Columns that are not backed up: while the service is stopped, no grant is being refreshed and no snapshot staged.
pub(super) const PASSING: [(&str, &str); 2] = [("users", "refresh_until"), ("guilds", "carried")];

/// Rows of other snapshots are invisible and waiting to be removed. The comparison with a truth value keeps planners from going
/// through the snapshots in their own order.
const OF_A_SHARD: &str = "(snapshot IN (SELECT snapshot FROM feed_shards)) IS TRUE";

/// A table: its name, the number of its key columns, and the columns with their kinds.
macro_rules! table {
    ($name:literal, $key:literal: $($column:ident $kind:ident),+) => {
        Table {
            name: $name,
            columns: &[$(TableColumn { name: stringify!($column), kind: ColumnKind::$kind }),+],
            key: $key,
            only: None,
            unused: None,
        }
    };
}

const fn of_shards(table: Table) -> Table {
    Table { only: Some(OF_A_SHARD), ..table }
}

/// Everything that is backed up.
pub(crate) const TABLES: &[Table] = &[
    table!("users", 1:
        id Integer, username Text, name Text, avatar Text, grant_sealed Bytes, grant_version Integer, list Text,
        list_fetched Integer, list_version Integer, signing_in Integer
    ),
    table!("sessions", 1:
        token_hash Bytes, id Text, user_id Integer, created Integer, last_seen Integer, agent Text, ordinal Sequence
    ),
    table!("code_claims", 1: hash Bytes, settled Boolean, user Text, until Integer),
    table!("revocations", 1: user_id Integer, grant_sealed Bytes, due Integer, tries Integer, sending_until Integer),
    table!("forgotten_users", 1: user_hash Bytes, since Integer),
    table!("blocked_users", 1: user_id Integer, reason Text, since Integer),
    Table {
        unused: Some("shard_count = 0 AND guilds = 0"),
        ..table!("feed_shards", 2:
            shard_count Integer, shard_id Integer, snapshot Integer, committed Integer, instance Text,
            snapshot_at Integer, guilds Integer, key Text, member_sum Integer
        )
    },
    Table {
        unused: Some("feedback = 0 AND ratings = 0 AND hidden_guilds = 0 AND hidden_members = 0"),
        ..table!("totals", 1: id Integer, feedback Integer, ratings Integer, hidden_guilds Integer, hidden_members Integer)
    },
    of_shards(table!("feed_sweeps", 1: snapshot Integer, whole Boolean, after Integer, again Boolean)),
    of_shards(table!("guilds", 2:
        snapshot Integer, id Integer, name Text, icon Text, owner Integer, members Integer, setup Boolean,
        linked Boolean, grants Text
    )),
    of_shards(table!("guild_staff", 3: snapshot Integer, guild Integer, user Integer, roles Text)),
    table!("feed_instances", 2:
        key Text, instance Text, next Integer, first_seen Integer, started_at Integer, last_used Integer,
        sent_snapshot Boolean
    ),
    table!("feed_own_shards", 4: key Text, instance Text, shard_count Integer, shard_id Integer),
    table!("subscriptions", 1: userid Integer, slots Integer, active_until Integer),
    table!("subscription_guilds", 2: guild Integer, userid Integer, ordinal Integer),
    table!("team", 1:
        ordinal Integer, username Text, name Text, avatar Text, discord_id Integer, role Text, color Text,
        category Text, position Integer, permissions Text
    ),
    table!("feedback", 1:
        id Text, feedback Text, rating Integer, timestamp Integer, submitter_id Integer, submitter_username Text,
        submitter_name Text, submitter_avatar Text, slot Integer
    ),
    table!("bot_keys", 1: id Text, label Text, key_hash Bytes, created Integer, revoked Integer, ordinal Sequence),
    table!("instances", 2:
        key Text, id Text, started_at Integer, memory Integer, reported Integer, shard_count Integer
    ),
    table!("shards", 1:
        id Integer, instance Text, started_at Integer, reported Integer, sent Integer, acknowledged Integer,
        latency Real, key Text
    ),
    table!("audit", 1:
        id Sequence, at Integer, kind Text, person Text, key Text, address Text, request Text, detail Text,
        count Integer
    ),
    table!("history_minutes", 1: begins Integer, state Text, latency Real),
    table!("history_days", 1: begins Integer, up Integer, partial Integer, down Integer),
    table!("incidents", 1: id Integer, worst Text, began Integer, ended Integer, shards Integer, shard_count Integer),
    table!("announcements", 1:
        id Integer, title Text, text Text, posted Integer, ended Integer, begins Integer, ends Integer,
        rescheduled Integer
    ),
    table!("history_updates", 1:
        id Integer, announcement Integer, incident Integer, phase Text, text Text, posted Integer
    ),
];
