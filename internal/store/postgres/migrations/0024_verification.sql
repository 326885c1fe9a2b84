-- +goose Up

-- Verifications that are under way in environments of a partition. While one is there, nothing
-- is pushed to its assets.
CREATE TABLE verification (
    partition   TEXT NOT NULL,
    home        TEXT NOT NULL,
    application TEXT NOT NULL,
    environment TEXT NOT NULL,
    record      TEXT NOT NULL,
    PRIMARY KEY (partition, home, application, environment)
);
