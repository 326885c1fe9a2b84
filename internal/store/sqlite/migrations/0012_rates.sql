-- +goose Up

-- Pushes that count under a key of a rate limit: those under way from the largest
-- number on, the others from when they ended on.
CREATE TABLE rate (
    partition TEXT NOT NULL,
    name      TEXT NOT NULL,
    counted   BIGINT NOT NULL,
    push      TEXT NOT NULL,
    PRIMARY KEY (partition, name, counted, push)
) WITHOUT ROWID;

-- The keys that a push counts under, one a line.
ALTER TABLE push ADD COLUMN rates TEXT NOT NULL DEFAULT '';
