-- +goose Up

-- Which store this is, for ever: what is said of it elsewhere names it.
CREATE TABLE identity (
    id TEXT PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO identity (id) VALUES (lower(hex(randomblob(16))));
