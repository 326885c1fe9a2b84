-- +goose Up

-- What whoever runs the server asks of many partitions; at most one row.
CREATE TABLE common_policy (
    id             BIGINT PRIMARY KEY,
    body           BYTEA NOT NULL,
    digest         BYTEA NOT NULL,
    place          TEXT NOT NULL,
    revision       TEXT NOT NULL,
    since          BIGINT NOT NULL,
    problems       TEXT NOT NULL,
    problems_since BIGINT NOT NULL
);
