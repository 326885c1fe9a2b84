-- +goose Up

-- hash is of the secret, which is not kept. revoked is 0 while it was not.
CREATE TABLE token (
    id          TEXT PRIMARY KEY,
    hash        BLOB NOT NULL,
    owner       TEXT NOT NULL,
    owner_groups TEXT NOT NULL,
    description TEXT NOT NULL,
    kind        TEXT NOT NULL,
    roles       TEXT NOT NULL,
    partitions  TEXT NOT NULL,
    parent      TEXT NOT NULL,
    created     BIGINT NOT NULL,
    ends        BIGINT NOT NULL,
    revoked     BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX token_parent ON token (parent);

-- Of all partitions when partition is empty. source is "server" or
-- "definition".
CREATE TABLE access_grant (
    partition TEXT NOT NULL,
    source    TEXT NOT NULL,
    subject   TEXT NOT NULL,
    role      TEXT NOT NULL,
    PRIMARY KEY (partition, source, subject, role)
) WITHOUT ROWID;
