-- When maintenance begins and ends, and when that was last changed, epoch milliseconds; NULL for other announcements.
ALTER TABLE announcements ADD COLUMN begins BIGINT;
ALTER TABLE announcements ADD COLUMN ends BIGINT;
ALTER TABLE announcements ADD COLUMN rescheduled BIGINT;

-- What the operator tells visitors while an incident or an announcement goes on: 'investigating', 'identified', 'monitoring' or
-- 'resolved'. Each row is about one of the two.
CREATE TABLE history_updates (
    id           BIGINT PRIMARY KEY,
    announcement BIGINT REFERENCES announcements (id) ON DELETE CASCADE,
    incident     BIGINT REFERENCES incidents (id) ON DELETE CASCADE,
    phase        TEXT   COLLATE "C" NOT NULL,
    text         TEXT   NOT NULL,
    posted       BIGINT NOT NULL
);
