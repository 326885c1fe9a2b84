-- +goose Up

-- What a plugin asked Lehr to keep of an asset and one real thing, at most 16 kB, in place
-- of the resume token. The numbers of an asset are in the order in which they were set.
CREATE TABLE memo (
    partition    TEXT NOT NULL,
    asset        TEXT NOT NULL,
    resource_key TEXT NOT NULL,
    bytes        BYTEA NOT NULL,
    digest       BYTEA NOT NULL,
    number       BIGINT NOT NULL,
    set_at       BIGINT NOT NULL,
    push         TEXT NOT NULL,
    epoch        BIGINT NOT NULL,
    PRIMARY KEY (partition, asset, resource_key)
);
ALTER TABLE push DROP COLUMN resume_token;
