-- +goose Up

-- Sources whose versions were saved. Revision is another text after each change of their rows, so that
-- readers know what they have read before.
CREATE TABLE version_source (
    partition TEXT NOT NULL,
    source    TEXT NOT NULL,
    revision  TEXT NOT NULL,
    PRIMARY KEY (partition, source)
);
