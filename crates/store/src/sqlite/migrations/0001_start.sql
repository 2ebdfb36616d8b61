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
    signing_in    INTEGER
) STRICT;
CREATE INDEX users_signing_in ON users (signing_in) WHERE signing_in IS NOT NULL;

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

-- `grants` is {role id: [permission key]}.
CREATE TABLE guilds (
    id      INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL,
    icon    TEXT,
    owner   INTEGER NOT NULL,
    members INTEGER NOT NULL,
    setup   INTEGER NOT NULL,
    linked  INTEGER NOT NULL,
    grants  TEXT    NOT NULL
) STRICT;

-- `roles` is [role id].
CREATE TABLE guild_staff (
    guild INTEGER NOT NULL REFERENCES guilds (id) ON DELETE CASCADE,
    user  INTEGER NOT NULL,
    roles TEXT    NOT NULL,
    PRIMARY KEY (guild, user)
) STRICT, WITHOUT ROWID;

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
    id          TEXT    NOT NULL PRIMARY KEY,
    started_at  INTEGER NOT NULL,
    memory      INTEGER NOT NULL,
    reported    INTEGER NOT NULL,
    shard_count INTEGER NOT NULL
) STRICT;

CREATE TABLE shards (
    id           INTEGER PRIMARY KEY,
    instance     TEXT    NOT NULL,
    started_at   INTEGER NOT NULL,
    reported     INTEGER NOT NULL,
    sent         INTEGER NOT NULL,
    acknowledged INTEGER NOT NULL,
    latency      REAL    NOT NULL
) STRICT;
