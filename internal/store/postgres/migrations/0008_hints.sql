-- +goose Up

-- The same as SQLite's, see sqlite/migrations.
ALTER TABLE partitions ADD COLUMN hints BIGINT NOT NULL DEFAULT 0;
