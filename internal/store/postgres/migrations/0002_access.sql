-- +goose Up

-- hash is of the secret, which is not kept. revoked is 0 while it was not.
CREATE TABLE token (
    id          TEXT COLLATE "C" PRIMARY KEY,
    hash        BYTEA NOT NULL,
    owner       TEXT COLLATE "C" NOT NULL,
    owner_groups TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    kind        TEXT COLLATE "C" NOT NULL,
    roles       TEXT COLLATE "C" NOT NULL,
    partitions  TEXT COLLATE "C" NOT NULL,
    parent      TEXT COLLATE "C" NOT NULL,
    created     BIGINT NOT NULL,
    ends        BIGINT NOT NULL,
    revoked     BIGINT NOT NULL
);
CREATE INDEX token_parent ON token (parent);

-- Of all partitions when partition is empty. source is "server" or
-- "definition".
CREATE TABLE access_grant (
    partition TEXT COLLATE "C" NOT NULL,
    source    TEXT COLLATE "C" NOT NULL,
    subject   TEXT COLLATE "C" NOT NULL,
    role      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, source, subject, role)
);
