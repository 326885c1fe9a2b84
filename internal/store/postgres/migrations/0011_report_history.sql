-- +goose Up

-- Whether a report tells of nothing in the way (intent.Report.Settled).
ALTER TABLE report ADD COLUMN settled BIGINT NOT NULL DEFAULT 1;
UPDATE report SET settled = 0 WHERE state NOT IN ('in-sync', 'pushing');

-- Reports that were kept, in the order in which they were stored: those that are not
-- settled, and those that replaced one that was not.
CREATE TABLE report_history (
    partition TEXT COLLATE "C" NOT NULL,
    number    BIGINT NOT NULL,
    asset     TEXT COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    record    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, number)
);
CREATE INDEX report_history_asset ON report_history (partition, asset, number);
CREATE INDEX report_history_at ON report_history (partition, at);

-- The number given last. Whoever stores reports holds its row until the commit, so the
-- order of the numbers is that of the commits.
CREATE TABLE report_number (
    partition TEXT COLLATE "C" PRIMARY KEY,
    last      BIGINT NOT NULL
);
