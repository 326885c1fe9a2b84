-- +goose Up

-- Grows with what may matter to an actor and no decision rests on; with
-- revision, it tells other processes of news.
ALTER TABLE partitions ADD COLUMN news BIGINT NOT NULL DEFAULT 0;

-- The processes that serve; each has its leases until the end of its own.
CREATE TABLE replica (
    name TEXT PRIMARY KEY,
    ends BIGINT NOT NULL
) WITHOUT ROWID;
