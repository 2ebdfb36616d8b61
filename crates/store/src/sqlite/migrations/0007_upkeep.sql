-- The id of the key that sealed a grant, from its first bytes: their number, then the id. The key of a grant that is damaged is ''.
ALTER TABLE users ADD COLUMN grant_key TEXT GENERATED ALWAYS AS (
    CASE WHEN grant_sealed IS NULL THEN NULL
        WHEN unicode(substr(grant_sealed, 1, 1)) BETWEEN 1 AND 32
        THEN CAST(substr(grant_sealed, 2, unicode(substr(grant_sealed, 1, 1))) AS TEXT)
        ELSE '' END) VIRTUAL;
CREATE INDEX users_grant_key ON users (grant_key) WHERE grant_key IS NOT NULL;
ALTER TABLE revocations ADD COLUMN grant_key TEXT GENERATED ALWAYS AS (
    CASE WHEN grant_sealed IS NULL THEN NULL
        WHEN unicode(substr(grant_sealed, 1, 1)) BETWEEN 1 AND 32
        THEN CAST(substr(grant_sealed, 2, unicode(substr(grant_sealed, 1, 1))) AS TEXT)
        ELSE '' END) VIRTUAL;

-- Written by the health probe, to find out whether writing works.
CREATE TABLE probe (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL
) STRICT;

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
