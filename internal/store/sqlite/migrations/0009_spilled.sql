-- +goose Up

-- Which blobs of the kind spill the bodies of a partition name.
CREATE TABLE spilled (
    partition TEXT NOT NULL,
    body      BLOB NOT NULL,
    name      TEXT NOT NULL,
    PRIMARY KEY (partition, body, name)
) WITHOUT ROWID;
CREATE INDEX spilled_name ON spilled (partition, name);
