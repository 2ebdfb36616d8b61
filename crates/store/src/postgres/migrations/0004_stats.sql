-- The totals of `GET /stats`, kept as they change. `member_sum` is of the rows that `guilds` counts; a guild counts with a billion
-- at most, so that no sum leaves its column. (It is not called `members`, because a replica of the release before, which may still
-- run for a while, reads that column of `guilds` beside this table.)
ALTER TABLE feed_shards ADD COLUMN member_sum BIGINT NOT NULL DEFAULT 0;
ALTER TABLE staged_snapshots ADD COLUMN member_sum BIGINT NOT NULL DEFAULT 0;
WITH counted AS (
    SELECT snapshot, sum(least(greatest(members, 0), 1000000000)) AS member_sum FROM guilds GROUP BY snapshot
), committed AS (
    UPDATE feed_shards SET member_sum = counted.member_sum FROM counted WHERE counted.snapshot = feed_shards.snapshot
)
UPDATE staged_snapshots SET member_sum = counted.member_sum FROM counted WHERE counted.snapshot = staged_snapshots.id;

-- One row. `feedback` entries have the sum `ratings`. `hidden_guilds` and `hidden_members` are taken off the sums over
-- `feed_shards`, for as long as a sweep looks for rows that a later snapshot covers.
CREATE TABLE totals (
    id             BIGINT PRIMARY KEY CHECK (id = 0),
    feedback       BIGINT NOT NULL,
    ratings        BIGINT NOT NULL,
    hidden_guilds  BIGINT NOT NULL,
    hidden_members BIGINT NOT NULL
);
INSERT INTO totals (id, feedback, ratings, hidden_guilds, hidden_members)
    SELECT 0, (SELECT count(*) FROM feedback), (SELECT coalesce(sum(rating), 0) FROM feedback),
        count(*), coalesce(sum(least(greatest(guilds.members, 0), 1000000000)), 0)
    FROM feed_sweeps
    JOIN feed_shards AS own ON own.snapshot = feed_sweeps.snapshot AND NOT whole
    JOIN guilds ON guilds.snapshot = own.snapshot
    WHERE EXISTS (SELECT 1 FROM feed_shards AS later WHERE later.committed > own.committed AND later.shard_count > 0
        AND (guilds.id >> 22) % later.shard_count = later.shard_id);
