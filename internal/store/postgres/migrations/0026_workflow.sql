-- +goose Up

-- The same as SQLite's, see sqlite/migrations.
-- Runs of workflows. Touched grows over all runs of a partition with every step. Wakes is when a
-- run must be looked at although nothing happens; 0: never. Ended is 0 while it goes on.
CREATE TABLE workflow_run (
    partition TEXT NOT NULL,
    number    BIGINT NOT NULL,
    workflow  TEXT NOT NULL,
    request   TEXT NOT NULL,
    open      BIGINT NOT NULL,
    wakes     BIGINT NOT NULL,
    touched   BIGINT NOT NULL,
    version   BIGINT NOT NULL,
    ended     BIGINT NOT NULL,
    record    TEXT NOT NULL,
    PRIMARY KEY (partition, number)
);
CREATE UNIQUE INDEX workflow_run_request ON workflow_run (partition, request) WHERE request <> '';
CREATE UNIQUE INDEX workflow_run_touched ON workflow_run (partition, touched);
CREATE INDEX workflow_run_open ON workflow_run (partition, number) WHERE open = 1;
CREATE INDEX workflow_run_name ON workflow_run (partition, workflow, number);
CREATE INDEX workflow_run_ended ON workflow_run (partition, ended) WHERE open = 0;

-- What happened in a run: rows that are only added.
CREATE TABLE workflow_event (
    partition TEXT NOT NULL,
    run       BIGINT NOT NULL,
    number    BIGINT NOT NULL,
    created   BIGINT NOT NULL,
    kind      TEXT NOT NULL,
    record    TEXT NOT NULL,
    PRIMARY KEY (partition, run, number)
);
