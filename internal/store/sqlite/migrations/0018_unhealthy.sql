-- +goose Up

-- What is in sync and unhealthy is found without looking at all that is in sync.
CREATE INDEX report_unhealthy ON report (partition, state, asset) WHERE state = 'in-sync' AND settled = 0;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('report', 'report_unhealthy', '100 10 10 1');
ANALYZE sqlite_schema;
