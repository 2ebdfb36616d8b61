-- An instance of the bot belongs to a key: the same name under another key is another instance. What is stored belongs to the
-- only key that there ever was; if there were several, nobody knows, and the bot sends its snapshots once more.

ALTER TABLE feed_instances RENAME TO feed_instances_0002;
ALTER TABLE instances RENAME TO instances_0001;

-- The numbering and the life of each process of the bot. `started_at` is what its heartbeats told, and never later than
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
INSERT INTO feed_instances (key, instance, next, first_seen, started_at, last_used, sent_snapshot)
    SELECT coalesce((SELECT min(id) FROM bot_keys HAVING count(*) = 1), ''), instance, next, first_seen,
        min(started_at, first_seen), last_used, 1
    FROM feed_instances_0002;
DROP TABLE feed_instances_0002;

CREATE TABLE instances (
    key         TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    memory      INTEGER NOT NULL,
    reported    INTEGER NOT NULL,
    shard_count INTEGER NOT NULL,
    PRIMARY KEY (key, id)
) STRICT, WITHOUT ROWID;
INSERT INTO instances (key, id, started_at, memory, reported, shard_count)
    SELECT coalesce((SELECT min(id) FROM bot_keys HAVING count(*) = 1), ''), id, min(started_at, reported), memory, reported,
        shard_count
    FROM instances_0001;
DROP TABLE instances_0001;

-- The shards that each instance has called its own, in a heartbeat or by a snapshot. Goes with its row of `feed_instances`.
CREATE TABLE feed_own_shards (
    key         TEXT    NOT NULL,
    instance    TEXT    NOT NULL,
    shard_count INTEGER NOT NULL,
    shard_id    INTEGER NOT NULL,
    PRIMARY KEY (key, instance, shard_count, shard_id)
) STRICT, WITHOUT ROWID;
INSERT INTO feed_own_shards (key, instance, shard_count, shard_id)
    SELECT feed_instances.key, feed_instances.instance, shard_count, shard_id
    FROM feed_shards JOIN feed_instances ON feed_instances.instance = feed_shards.instance WHERE shard_count > 0;

ALTER TABLE shards ADD COLUMN key TEXT NOT NULL DEFAULT '';
UPDATE shards SET key = coalesce((SELECT min(id) FROM bot_keys HAVING count(*) = 1), ''),
    started_at = min(started_at, reported);
ALTER TABLE feed_shards ADD COLUMN key TEXT NOT NULL DEFAULT '';
UPDATE feed_shards SET key = coalesce((SELECT min(id) FROM bot_keys HAVING count(*) = 1), '') WHERE shard_count > 0;

-- `basis` is set once lines were carried over from what was stored: the latest commit among the snapshots that they came from.
-- If another was committed since, these are not what is stored any more.
ALTER TABLE staged_snapshots ADD COLUMN key TEXT NOT NULL DEFAULT '';
ALTER TABLE staged_snapshots ADD COLUMN basis INTEGER;

-- Of a guild in a snapshot that is being staged: which parts were carried over from what is stored (1: grants, 2: staff).
ALTER TABLE guilds ADD COLUMN carried INTEGER NOT NULL DEFAULT 0;
