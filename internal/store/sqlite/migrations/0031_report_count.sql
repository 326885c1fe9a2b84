-- +goose Up

-- How many reports of each state a partition has. Whoever writes or removes reports keeps it in the
-- same transaction, so that a page about many assets does not count them.
CREATE TABLE report_count (
    partition TEXT NOT NULL,
    state     TEXT NOT NULL,
    reports   BIGINT NOT NULL,
    PRIMARY KEY (partition, state)
) WITHOUT ROWID;
INSERT INTO report_count (partition, state, reports) SELECT partition, state, count(*) FROM report GROUP BY partition, state;
