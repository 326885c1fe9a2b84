-- +goose Up

-- asks: the asset waits for people, who approve or take back a rejection. What asks, and
-- which pins end, is found in all partitions without looking at all the others.
ALTER TABLE report ADD COLUMN asks BIGINT NOT NULL DEFAULT 0;
UPDATE report SET asks = 1 WHERE state = 'waiting' AND (record LIKE '%"kind":"approval"%' OR record LIKE '%"kind":"rejected"%');
CREATE INDEX report_asks ON report (partition, asset) WHERE asks = 1;
CREATE INDEX pin_ends ON pin (ends) WHERE ends > 0;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('report', 'report_asks', '100 10 1'),
    ('pin', 'pin_ends', '100 1');
ANALYZE sqlite_schema;
