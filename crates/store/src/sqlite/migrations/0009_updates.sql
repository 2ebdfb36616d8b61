-- When maintenance begins and ends, and when that was last changed, epoch milliseconds; NULL for other announcements.
ALTER TABLE announcements ADD COLUMN begins INTEGER;
ALTER TABLE announcements ADD COLUMN ends INTEGER;
ALTER TABLE announcements ADD COLUMN rescheduled INTEGER;

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
