-- +goose Up

-- That somebody asked for an asset to be tried now, the last time that they did,
-- with the revision of the partition that it made: an enforcer takes up what is
-- newer than it has read. What is older than an hour goes with the next one.
CREATE TABLE retry (
    partition TEXT NOT NULL,
    asset     TEXT NOT NULL,
    revision  BIGINT NOT NULL,
    created   BIGINT NOT NULL,
    PRIMARY KEY (partition, asset)
) WITHOUT ROWID;
