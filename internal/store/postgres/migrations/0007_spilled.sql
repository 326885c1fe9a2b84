-- +goose Up

-- Which blobs of the kind spill the bodies of a partition name.
CREATE TABLE spilled (
    partition TEXT COLLATE "C" NOT NULL,
    body      BYTEA NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, body, name)
);
CREATE INDEX spilled_name ON spilled (partition, name);
