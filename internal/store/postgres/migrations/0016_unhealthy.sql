-- +goose Up

-- The same as SQLite's, see sqlite/migrations.
CREATE INDEX report_unhealthy ON report (partition, state, asset) WHERE state = 'in-sync' AND settled = 0;
