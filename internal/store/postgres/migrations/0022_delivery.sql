-- +goose Up

-- Versions that a source of versions lists, or listed. Gone is when it no longer did; 0: it does.
CREATE TABLE version (
    partition TEXT NOT NULL,
    source    TEXT NOT NULL,
    name      TEXT NOT NULL,
    digest    TEXT NOT NULL,
    gone      BIGINT NOT NULL,
    record    TEXT NOT NULL,
    PRIMARY KEY (partition, source, name, digest)
);

-- What people and programs said of an application's versions, and what became of them: rows
-- that are only added to.
CREATE TABLE delivery (
    partition   TEXT NOT NULL,
    number      BIGINT NOT NULL,
    application TEXT NOT NULL,
    kind        TEXT NOT NULL,
    environment TEXT NOT NULL,
    version     TEXT NOT NULL,
    digest      TEXT NOT NULL,
    created     BIGINT NOT NULL,
    record      TEXT NOT NULL,
    PRIMARY KEY (partition, number)
);
CREATE INDEX delivery_application ON delivery (partition, application, number);
