-- The feed. A snapshot of a shard is staged under a number of its own and becomes visible by one row of `feed_shards`: of the
-- rows of a guild, the one counts whose snapshot is the latest committed among those that cover the guild. What no read can see
-- any more is removed behind, by `feed_sweeps`.

ALTER TABLE guilds RENAME TO guilds_0001;
ALTER TABLE guild_staff RENAME TO guild_staff_0001;

-- `snapshot` comes first, so that a snapshot is written to, and removed from, one end of the table; 0 holds the guilds that no
-- snapshot covers. `grants` is {role id: [permission key]}.
CREATE TABLE guilds (
    snapshot INTEGER NOT NULL,
    id       INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    icon     TEXT,
    owner    INTEGER NOT NULL,
    members  INTEGER NOT NULL,
    setup    INTEGER NOT NULL,
    linked   INTEGER NOT NULL,
    grants   TEXT    NOT NULL,
    PRIMARY KEY (snapshot, id)
) STRICT, WITHOUT ROWID;

-- The staff of a row of `guilds`; comes and goes with it. `roles` is [role id].
CREATE TABLE guild_staff (
    snapshot INTEGER NOT NULL,
    guild    INTEGER NOT NULL,
    user     INTEGER NOT NULL,
    roles    TEXT    NOT NULL,
    PRIMARY KEY (snapshot, guild, user)
) STRICT, WITHOUT ROWID;

INSERT INTO guilds (snapshot, id, name, icon, owner, members, setup, linked, grants)
    SELECT 0, id, name, icon, owner, members, setup, linked, grants FROM guilds_0001 ORDER BY id;
INSERT INTO guild_staff (snapshot, guild, user, roles)
    SELECT 0, guild, user, roles FROM guild_staff_0001 ORDER BY guild, user;
DROP TABLE guild_staff_0001;
DROP TABLE guilds_0001;

-- The latest committed snapshot of each shard. `committed` orders the commits; it is drawn from `counter`. `guilds` is how many
-- rows the snapshot has. The row (0, 0) stands for the guilds that no snapshot covers.
CREATE TABLE feed_shards (
    shard_count INTEGER NOT NULL,
    shard_id    INTEGER NOT NULL,
    snapshot    INTEGER NOT NULL,
    committed   INTEGER NOT NULL,
    instance    TEXT    NOT NULL,
    snapshot_at INTEGER NOT NULL,
    guilds      INTEGER NOT NULL,
    PRIMARY KEY (shard_count, shard_id)
) STRICT, WITHOUT ROWID;
INSERT INTO feed_shards (shard_count, shard_id, snapshot, committed, instance, snapshot_at, guilds)
    SELECT 0, 0, 0, 0, '', 0, count(*) FROM guilds;

-- Snapshots that are being staged; of a shard, or without one of the subscriptions.
CREATE TABLE staged_snapshots (
    id          INTEGER PRIMARY KEY,
    shard_count INTEGER,
    shard_id    INTEGER,
    instance    TEXT    NOT NULL,
    sequence    INTEGER NOT NULL,
    begun       INTEGER NOT NULL,
    guilds      INTEGER NOT NULL
) STRICT;

-- Guilds that a staged snapshot leaves as they are.
CREATE TABLE staged_kept (
    snapshot INTEGER NOT NULL,
    guild    INTEGER NOT NULL,
    PRIMARY KEY (snapshot, guild)
) STRICT, WITHOUT ROWID;

-- `guilds` is [guild id].
CREATE TABLE staged_subscriptions (
    snapshot     INTEGER NOT NULL,
    userid       INTEGER NOT NULL,
    slots        INTEGER NOT NULL,
    active_until INTEGER,
    guilds       TEXT    NOT NULL,
    PRIMARY KEY (snapshot, userid)
) STRICT, WITHOUT ROWID;

-- Snapshots with rows that no read can see: all of them (`whole`), or those that a later snapshot covers. `after` is the guild
-- up to which the walk has come; `again` says that more was covered since it began.
CREATE TABLE feed_sweeps (
    snapshot INTEGER PRIMARY KEY,
    whole    INTEGER NOT NULL,
    after    INTEGER NOT NULL,
    again    INTEGER NOT NULL
) STRICT;

-- The numbering of each process of the bot. `started_at` is what its heartbeats told; they are forgotten sooner than this.
CREATE TABLE feed_instances (
    instance   TEXT    NOT NULL PRIMARY KEY,
    next       INTEGER NOT NULL,
    first_seen INTEGER NOT NULL,
    started_at INTEGER,
    last_used  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
