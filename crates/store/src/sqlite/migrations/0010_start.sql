-- Times are milliseconds since 1970 unless a column says otherwise. Ids of the provider are integers.

-- One number that only ever grows. The versions of grants and lists are drawn from it, so that a version never comes back,
-- not even when a user's row goes and a new one comes.
CREATE TABLE counter (
    id    INTEGER PRIMARY KEY CHECK (id = 0),
    value INTEGER NOT NULL
) STRICT;
INSERT INTO counter (id, value) VALUES (0, 0);

-- Users who have a session, or are about to: `signing_in` is set between the grant and the session, to 0 at first and to the
-- time of the first sweep that sees it afterwards.
CREATE TABLE users (
    id            INTEGER PRIMARY KEY,
    username      TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    avatar        TEXT    NOT NULL,
    grant_sealed  BLOB,
    grant_version INTEGER NOT NULL,
    list          TEXT,
    list_fetched  INTEGER,
    list_version  INTEGER NOT NULL,
    signing_in    INTEGER,
    -- Until then, somebody is refreshing the user's grant: its refresh token is good for one use.
    refresh_until INTEGER,
    -- The ID of the key that sealed the grant, from its first bytes: their number, then the ID. The key of a damaged grant is ''.
    grant_key     TEXT GENERATED ALWAYS AS (
        CASE WHEN grant_sealed IS NULL THEN NULL
            WHEN unicode(substr(grant_sealed, 1, 1)) BETWEEN 1 AND 32
            THEN CAST(substr(grant_sealed, 2, unicode(substr(grant_sealed, 1, 1))) AS TEXT)
            ELSE '' END) VIRTUAL
) STRICT;
CREATE INDEX users_signing_in ON users (signing_in) WHERE signing_in IS NOT NULL;
CREATE INDEX users_grant_key ON users (grant_key) WHERE grant_key IS NOT NULL;

CREATE TABLE sessions (
    token_hash BLOB    NOT NULL PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    user_id    INTEGER NOT NULL REFERENCES users (id),
    created    INTEGER NOT NULL,
    last_seen  INTEGER NOT NULL,
    agent      TEXT    NOT NULL
) STRICT;
CREATE INDEX sessions_user ON sessions (user_id, created);
CREATE INDEX sessions_last_seen ON sessions (last_seen);
CREATE INDEX sessions_created ON sessions (created);

CREATE TABLE code_claims (
    hash    BLOB    NOT NULL PRIMARY KEY,
    settled INTEGER NOT NULL,
    user    TEXT,
    until   INTEGER NOT NULL
) STRICT;
CREATE INDEX code_claims_until ON code_claims (until);

CREATE TABLE blocked_users (
    user_id INTEGER PRIMARY KEY,
    reason  TEXT    NOT NULL,
    since   INTEGER NOT NULL
) STRICT;

-- Grants that the provider is to be told of: their users have no session any more. `due` is when to send it; `grant_sealed` is
-- gone once it was sent, and then `due` is when to forget it. Somebody who is sending it has time until `sending_until`.
CREATE TABLE revocations (
    user_id       INTEGER PRIMARY KEY,
    grant_sealed  BLOB,
    due           INTEGER NOT NULL,
    tries         INTEGER NOT NULL,
    sending_until INTEGER,
    grant_key     TEXT GENERATED ALWAYS AS (
        CASE WHEN grant_sealed IS NULL THEN NULL
            WHEN unicode(substr(grant_sealed, 1, 1)) BETWEEN 1 AND 32
            THEN CAST(substr(grant_sealed, 2, unicode(substr(grant_sealed, 1, 1))) AS TEXT)
            ELSE '' END) VIRTUAL
) STRICT;
CREATE INDEX revocations_due ON revocations (due);

-- Users who were forgotten: SHA-256 over their ids. What the bot sends of them is stored without their names, until they sign in
-- again.
CREATE TABLE forgotten_users (
    user_hash BLOB    NOT NULL PRIMARY KEY,
    since     INTEGER NOT NULL
) STRICT;

-- What happened. `person` is the id of a user, or 'forgotten:' and the hash above; `key` is the id of a bot's key; `address` is the
-- network that it came from, cut to /24 or /48; `request` is the request's id; `count` is how many times, in a row that sums up.
CREATE TABLE audit (
    id      INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    person  TEXT,
    key     TEXT,
    address TEXT,
    request TEXT,
    detail  TEXT    NOT NULL,
    count   INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_at ON audit (at, id);
CREATE INDEX audit_person ON audit (person) WHERE person IS NOT NULL;

-- Written by the health probe, to find out whether writing works.
CREATE TABLE probe (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL
) STRICT;

-- The feed. A snapshot of a shard is staged under a number of its own and becomes visible by one row of `feed_shards`: of the
-- rows of a guild, the one counts whose snapshot is the latest committed among those that cover the guild. What no read can see
-- any more is removed behind, by `feed_sweeps`.

-- `snapshot` comes first, so that a snapshot is written to, and removed from, one end of the table; 0 holds the guilds that no
-- snapshot covers. `grants` is {role id: [permission key]}. Of a guild in a snapshot
-- that is being staged, `carried` says which parts were carried over from what is stored (1: grants, 2: staff).
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
    carried  INTEGER NOT NULL DEFAULT 0,
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

-- The latest committed snapshot of each shard. `committed` orders the commits; it is drawn from `counter`. `guilds` is how many
-- rows the snapshot has, and `member_sum` is the sum of their members; a guild counts with a billion at most, so that no sum leaves
-- its column. The row (0, 0) stands for the guilds that no snapshot covers.
CREATE TABLE feed_shards (
    shard_count INTEGER NOT NULL,
    shard_id    INTEGER NOT NULL,
    snapshot    INTEGER NOT NULL,
    committed   INTEGER NOT NULL,
    instance    TEXT    NOT NULL,
    snapshot_at INTEGER NOT NULL,
    guilds      INTEGER NOT NULL,
    key         TEXT    NOT NULL DEFAULT '',
    member_sum  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (shard_count, shard_id)
) STRICT, WITHOUT ROWID;
INSERT INTO feed_shards (shard_count, shard_id, snapshot, committed, instance, snapshot_at, guilds)
    VALUES (0, 0, 0, 0, '', 0, 0);

-- Snapshots that are being staged; of a shard, or without one of the subscriptions. `basis` is set once lines were carried
-- over from what was stored: the latest commit among the snapshots that they came from. If another was committed since, these are not
-- what is stored any more.
CREATE TABLE staged_snapshots (
    id          INTEGER PRIMARY KEY,
    shard_count INTEGER,
    shard_id    INTEGER,
    instance    TEXT    NOT NULL,
    sequence    INTEGER NOT NULL,
    begun       INTEGER NOT NULL,
    guilds      INTEGER NOT NULL,
    key         TEXT    NOT NULL DEFAULT '',
    basis       INTEGER,
    member_sum  INTEGER NOT NULL DEFAULT 0
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

-- The numbering and the life of each process of the bot. It belongs to a key: the same name under another key is another process.
-- `started_at` is what its heartbeats told, and never later than
-- `first_seen`; they are forgotten sooner than this. `last_used` is its last numbered call. `sent_snapshot`: it has sent one.
CREATE TABLE feed_instances (
    key           TEXT    NOT NULL,
    instance      TEXT    NOT NULL,
    next          INTEGER NOT NULL,
    first_seen    INTEGER NOT NULL,
    started_at    INTEGER,
    last_used     INTEGER NOT NULL,
    sent_snapshot INTEGER NOT NULL,
    PRIMARY KEY (key, instance)
) STRICT, WITHOUT ROWID;

-- The shards that each instance has called its own, in a heartbeat or by a snapshot. Goes with its row of `feed_instances`.
CREATE TABLE feed_own_shards (
    key         TEXT    NOT NULL,
    instance    TEXT    NOT NULL,
    shard_count INTEGER NOT NULL,
    shard_id    INTEGER NOT NULL,
    PRIMARY KEY (key, instance, shard_count, shard_id)
) STRICT, WITHOUT ROWID;

-- The totals of `GET /stats`, kept as they change: one row. `feedback` entries have the sum `ratings`. `hidden_guilds` and `hidden_members` are taken off the sums over
-- `feed_shards`, for as long as a sweep looks for rows that a later snapshot covers.
CREATE TABLE totals (
    id             INTEGER PRIMARY KEY CHECK (id = 0),
    feedback       INTEGER NOT NULL,
    ratings        INTEGER NOT NULL,
    hidden_guilds  INTEGER NOT NULL,
    hidden_members INTEGER NOT NULL
) STRICT;
INSERT INTO totals (id, feedback, ratings, hidden_guilds, hidden_members)
    VALUES (0, 0, 0, 0, 0);

CREATE TABLE subscriptions (
    userid       INTEGER PRIMARY KEY,
    slots        INTEGER NOT NULL,
    active_until INTEGER
) STRICT;

-- A subscription may name guilds that do not have the bot.
CREATE TABLE subscription_guilds (
    guild   INTEGER NOT NULL,
    userid  INTEGER NOT NULL REFERENCES subscriptions (userid) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    PRIMARY KEY (guild, userid)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscription_guilds_userid ON subscription_guilds (userid, ordinal);

-- `permissions` is [permission key].
CREATE TABLE team (
    ordinal     INTEGER PRIMARY KEY,
    username    TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    avatar      TEXT    NOT NULL,
    discord_id  INTEGER NOT NULL,
    role        TEXT    NOT NULL,
    color       TEXT    NOT NULL,
    category    TEXT    NOT NULL,
    position    INTEGER NOT NULL,
    permissions TEXT    NOT NULL
) STRICT;
CREATE INDEX team_discord_id ON team (discord_id);

-- `timestamp` is in seconds, as the bot sends it. The positive entries hold the slots 0, 1, 2, … without a gap: a random entry
-- is the entry of a random slot.
CREATE TABLE feedback (
    id                 TEXT    NOT NULL PRIMARY KEY,
    feedback           TEXT    NOT NULL,
    rating             INTEGER NOT NULL,
    timestamp          INTEGER NOT NULL,
    submitter_id       INTEGER NOT NULL,
    submitter_username TEXT    NOT NULL,
    submitter_name     TEXT    NOT NULL,
    submitter_avatar   TEXT    NOT NULL,
    slot               INTEGER
) STRICT;
CREATE UNIQUE INDEX feedback_slot ON feedback (slot) WHERE slot IS NOT NULL;
CREATE INDEX feedback_submitter ON feedback (submitter_id);

CREATE TABLE bot_keys (
    id       TEXT    NOT NULL PRIMARY KEY,
    label    TEXT    NOT NULL,
    key_hash BLOB    NOT NULL UNIQUE,
    created  INTEGER NOT NULL,
    revoked  INTEGER
) STRICT;

CREATE TABLE instances (
    key         TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    memory      INTEGER NOT NULL,
    reported    INTEGER NOT NULL,
    shard_count INTEGER NOT NULL,
    PRIMARY KEY (key, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE shards (
    id           INTEGER PRIMARY KEY,
    instance     TEXT    NOT NULL,
    started_at   INTEGER NOT NULL,
    reported     INTEGER NOT NULL,
    sent         INTEGER NOT NULL,
    acknowledged INTEGER NOT NULL,
    latency      REAL    NOT NULL,
    key          TEXT    NOT NULL DEFAULT ''
) STRICT;

-- How the bot did in each minute: 'up', 'partial' or 'down', and the mean latency in milliseconds. `begins` is epoch milliseconds.
-- A minute that is not here is unknown.
CREATE TABLE history_minutes (
    begins  INTEGER PRIMARY KEY,
    state   TEXT    NOT NULL,
    latency REAL
) STRICT;

-- How many minutes of each day (UTC) were how.
CREATE TABLE history_days (
    begins  INTEGER PRIMARY KEY,
    up      INTEGER NOT NULL,
    partial INTEGER NOT NULL,
    down    INTEGER NOT NULL
) STRICT;

-- Times in which the bot was not up: the worst that was seen, and how many shards it affected. `ended` is NULL while it goes on, of one
-- at the most.
CREATE TABLE incidents (
    id          INTEGER PRIMARY KEY,
    worst       TEXT    NOT NULL,
    began       INTEGER NOT NULL,
    ended       INTEGER,
    shards      INTEGER NOT NULL,
    shard_count INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX incidents_open ON incidents ((ended IS NULL)) WHERE ended IS NULL;

-- What the operator tells visitors. `ended` is NULL while it holds. Maintenance has the times when it begins and ends, and when that
-- was last changed.
CREATE TABLE announcements (
    id          INTEGER PRIMARY KEY,
    title       TEXT    NOT NULL,
    text        TEXT    NOT NULL,
    posted      INTEGER NOT NULL,
    ended       INTEGER,
    begins      INTEGER,
    ends        INTEGER,
    rescheduled INTEGER
) STRICT;

-- What the operator tells visitors while an incident or an announcement goes on: 'investigating', 'identified', 'monitoring' or
-- 'resolved'. Each row is about one of the two.
CREATE TABLE history_updates (
    id           INTEGER PRIMARY KEY,
    announcement INTEGER REFERENCES announcements (id) ON DELETE CASCADE,
    incident     INTEGER REFERENCES incidents (id) ON DELETE CASCADE,
    phase        TEXT    NOT NULL,
    text         TEXT    NOT NULL,
    posted       INTEGER NOT NULL
) STRICT;
