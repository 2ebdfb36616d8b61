-- Grants that the provider is to be told of: their users have no session any more. `due` is when to send it; `grant_sealed` is
-- gone once it was sent, and then `due` is when to forget it. Somebody who is sending it has time until `sending_until`.
CREATE TABLE revocations (
    user_id       INTEGER PRIMARY KEY,
    grant_sealed  BLOB,
    due           INTEGER NOT NULL,
    tries         INTEGER NOT NULL,
    sending_until INTEGER
) STRICT;
CREATE INDEX revocations_due ON revocations (due);
