-- +goose Up

-- How often somebody said that a partition's sources may have changed: it tells
-- whichever replica acts for the partition.
ALTER TABLE partitions ADD COLUMN hints BIGINT NOT NULL DEFAULT 0;
