-- +goose Up

-- The same as SQLite's, see sqlite/migrations.
ALTER TABLE report ADD COLUMN asks BIGINT NOT NULL DEFAULT 0;
UPDATE report SET asks = 1 WHERE state = 'waiting' AND (record LIKE '%"kind":"approval"%' OR record LIKE '%"kind":"rejected"%');
CREATE INDEX report_asks ON report (partition, asset) WHERE asks = 1;
CREATE INDEX pin_ends ON pin (ends) WHERE ends > 0;
