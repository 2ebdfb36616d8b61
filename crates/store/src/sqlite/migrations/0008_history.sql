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

-- What the operator tells visitors. `ended` is NULL while it holds.
CREATE TABLE announcements (
    id     INTEGER PRIMARY KEY,
    title  TEXT    NOT NULL,
    text   TEXT    NOT NULL,
    posted INTEGER NOT NULL,
    ended  INTEGER
) STRICT;
