-- +goose Up

-- The same as SQLite's, see sqlite/migrations.
CREATE TABLE retry (
    partition TEXT COLLATE "C" NOT NULL,
    asset     TEXT COLLATE "C" NOT NULL,
    revision  BIGINT NOT NULL,
    created   BIGINT NOT NULL,
    PRIMARY KEY (partition, asset)
);
