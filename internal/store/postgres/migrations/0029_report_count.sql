-- +goose Up

-- The same as SQLite's, see sqlite/migrations.
CREATE TABLE report_count (
    partition TEXT COLLATE "C" NOT NULL,
    state     TEXT COLLATE "C" NOT NULL,
    reports   BIGINT NOT NULL,
    PRIMARY KEY (partition, state)
);
INSERT INTO report_count (partition, state, reports) SELECT partition, state, count(*) FROM report GROUP BY partition, state;
