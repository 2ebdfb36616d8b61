-- An instance of the bot belongs to a key: the same name under another key is another instance. What is stored belongs to the
-- only key that there ever was; if there were several, nobody knows, and the bot sends its snapshots once more.

-- The numbering and the life of each process of the bot. `started_at` is what its heartbeats told, and never later than
-- `first_seen`; they are forgotten sooner than this. `last_used` is its last numbered call. `sent_snapshot`: it has sent one.
ALTER TABLE feed_instances ADD COLUMN key TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE feed_instances ADD COLUMN sent_snapshot BOOLEAN NOT NULL DEFAULT true;
ALTER TABLE feed_instances ALTER COLUMN sent_snapshot DROP DEFAULT;
UPDATE feed_instances SET key = coalesce((SELECT min(id) FROM bot_keys HAVING count(*) = 1), ''),
    started_at = CASE WHEN started_at IS NOT NULL THEN least(started_at, first_seen) END;
ALTER TABLE feed_instances DROP CONSTRAINT feed_instances_pkey, ADD PRIMARY KEY (key, instance);

ALTER TABLE instances ADD COLUMN key TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE instances SET key = coalesce((SELECT min(id) FROM bot_keys HAVING count(*) = 1), ''),
    started_at = least(started_at, reported);
ALTER TABLE instances DROP CONSTRAINT instances_pkey, ADD PRIMARY KEY (key, id);

-- The shards that each instance has called its own, in a heartbeat or by a snapshot. Goes with its row of `feed_instances`.
CREATE TABLE feed_own_shards (
    key         TEXT   COLLATE "C" NOT NULL,
    instance    TEXT   COLLATE "C" NOT NULL,
    shard_count BIGINT NOT NULL,
    shard_id    BIGINT NOT NULL,
    PRIMARY KEY (key, instance, shard_count, shard_id)
);
INSERT INTO feed_own_shards (key, instance, shard_count, shard_id)
    SELECT feed_instances.key, feed_instances.instance, shard_count, shard_id
    FROM feed_shards JOIN feed_instances ON feed_instances.instance = feed_shards.instance WHERE shard_count > 0;

ALTER TABLE shards ADD COLUMN key TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE shards SET key = coalesce((SELECT min(id) FROM bot_keys HAVING count(*) = 1), ''),
    started_at = least(started_at, reported);
ALTER TABLE feed_shards ADD COLUMN key TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE feed_shards SET key = coalesce((SELECT min(id) FROM bot_keys HAVING count(*) = 1), '') WHERE shard_count > 0;

-- `basis` is set once lines were carried over from what was stored: the latest commit among the snapshots that they came from.
-- If another was committed since, these are not what is stored any more.
ALTER TABLE staged_snapshots ADD COLUMN key TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE staged_snapshots ADD COLUMN basis BIGINT;

-- Of a guild in a snapshot that is being staged: which parts were carried over from what is stored (1: grants, 2: staff).
ALTER TABLE guilds ADD COLUMN carried BIGINT NOT NULL DEFAULT 0;
