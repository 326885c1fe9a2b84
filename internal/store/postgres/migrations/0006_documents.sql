-- +goose Up

-- Documents as they are now. A deleted one has no content, and keeps its number.
CREATE TABLE document (
    partition TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    revision  BIGINT NOT NULL,
    deleted   BIGINT NOT NULL,
    content   BYTEA NOT NULL,
    digest    BYTEA NOT NULL,
    -- The oldest revision whose changes are kept, and how many bytes all have.
    oldest    BIGINT NOT NULL,
    history   BIGINT NOT NULL,
    PRIMARY KEY (partition, name)
);

-- What each revision changed, as JSON with the values of before and after.
CREATE TABLE document_revision (
    partition TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    revision  BIGINT NOT NULL,
    kind      TEXT COLLATE "C" NOT NULL,
    of        BIGINT NOT NULL,
    author    TEXT COLLATE "C" NOT NULL,
    origin    TEXT COLLATE "C" NOT NULL,
    caller    TEXT COLLATE "C" NOT NULL,
    created   BIGINT NOT NULL,
    reason    TEXT COLLATE "C" NOT NULL,
    -- What was asked for, by which a repeated call is known.
    asked     BYTEA NOT NULL,
    -- Of the content that it made.
    digest    BYTEA NOT NULL,
    changes   BYTEA NOT NULL,
    PRIMARY KEY (partition, name, revision)
);
