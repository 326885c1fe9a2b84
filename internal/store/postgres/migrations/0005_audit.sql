-- +goose Up

-- Which store this is, for ever: what is said of it elsewhere names it.
CREATE TABLE identity (
    id TEXT COLLATE "C" PRIMARY KEY
);
INSERT INTO identity (id) VALUES (replace(gen_random_uuid()::text, '-', ''));
