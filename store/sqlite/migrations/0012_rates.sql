-- +goose Up

-- When pushes were admitted that count under a key of a rate limit, numbered from
-- the oldest on.
CREATE TABLE rate (
    partition TEXT NOT NULL,
    name      TEXT NOT NULL,
    number    BIGINT NOT NULL,
    admitted  BIGINT NOT NULL,
    PRIMARY KEY (partition, name, number)
) WITHOUT ROWID;
