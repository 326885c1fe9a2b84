-- +goose Up

-- Documents as they are now. A deleted one has no content, and keeps its number.
CREATE TABLE document (
    partition TEXT NOT NULL,
    name      TEXT NOT NULL,
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
    partition TEXT NOT NULL,
    name      TEXT NOT NULL,
    revision  BIGINT NOT NULL,
    kind      TEXT NOT NULL,
    of        BIGINT NOT NULL,
    author    TEXT NOT NULL,
    origin    TEXT NOT NULL,
    caller    TEXT NOT NULL,
    created   BIGINT NOT NULL,
    reason    TEXT NOT NULL,
    -- What was asked for, by which a repeated call is known.
    asked     BYTEA NOT NULL,
    -- Of the content that it made.
    digest    BYTEA NOT NULL,
    changes   BYTEA NOT NULL,
    PRIMARY KEY (partition, name, revision)
);
