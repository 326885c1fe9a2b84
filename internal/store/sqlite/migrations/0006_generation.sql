-- +goose Up

-- One row for each time that a person adopted the store, and one for its
-- making; the last counts. timeline is a random name, so that no other copy of
-- the store that was adopted has it too. place is what a database server says
-- of itself, and changes when another one took its place. suspect says why
-- nothing may be pushed until the store is adopted, lost how many commits are
-- known to be missing, unsure that there may be more.
CREATE TABLE history (
    generation BIGINT PRIMARY KEY,
    timeline   TEXT NOT NULL,
    place      TEXT NOT NULL,
    began      BIGINT NOT NULL,
    suspect    TEXT NOT NULL,
    since      BIGINT NOT NULL,
    lost       BIGINT NOT NULL,
    unsure     BIGINT NOT NULL
) WITHOUT ROWID;

-- How much each writer has committed in a generation, raised by each commit,
-- and witnessed outside the store. ended: it has, and committed nothing since.
-- place is where it last found all that it had committed.
CREATE TABLE writer (
    generation BIGINT NOT NULL,
    name       TEXT NOT NULL,
    commits    BIGINT NOT NULL,
    place      TEXT NOT NULL,
    ended      BIGINT NOT NULL,
    PRIMARY KEY (generation, name)
) WITHOUT ROWID;

