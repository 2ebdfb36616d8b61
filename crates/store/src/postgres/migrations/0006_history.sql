-- How the bot did in each minute: 'up', 'partial' or 'down', and the mean latency in milliseconds. `begins` is epoch milliseconds.
-- A minute that is not here is unknown.
CREATE TABLE history_minutes (
    begins  BIGINT PRIMARY KEY,
    state   TEXT   COLLATE "C" NOT NULL,
    latency FLOAT8
);

-- How many minutes of each day (UTC) were how.
CREATE TABLE history_days (
    begins  BIGINT PRIMARY KEY,
    up      BIGINT NOT NULL,
    partial BIGINT NOT NULL,
    down    BIGINT NOT NULL
);

-- Times in which the bot was not up: the worst that was seen, and how many shards it affected. `ended` is NULL while it goes on, of one
-- at the most.
CREATE TABLE incidents (
    id          BIGINT PRIMARY KEY,
    worst       TEXT   COLLATE "C" NOT NULL,
    began       BIGINT NOT NULL,
    ended       BIGINT,
    shards      BIGINT NOT NULL,
    shard_count BIGINT NOT NULL
);
CREATE UNIQUE INDEX incidents_open ON incidents ((ended IS NULL)) WHERE ended IS NULL;

-- What the operator tells visitors. `ended` is NULL while it holds.
CREATE TABLE announcements (
    id     BIGINT PRIMARY KEY,
    title  TEXT   NOT NULL,
    text   TEXT   NOT NULL,
    posted BIGINT NOT NULL,
    ended  BIGINT
);
