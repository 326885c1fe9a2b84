-- +goose Up

-- The pushes that count under a key of a rate limit.
CREATE TABLE rate (
    partition TEXT NOT NULL,
    name      TEXT NOT NULL,
    admitted  BIGINT NOT NULL,
    push      TEXT NOT NULL,
    PRIMARY KEY (partition, name, admitted, push)
) WITHOUT ROWID;
