-- +goose Up

-- The same as SQLite's, see sqlite/migrations.
CREATE TABLE history (
    generation BIGINT PRIMARY KEY,
    timeline   TEXT COLLATE "C" NOT NULL,
    place      TEXT COLLATE "C" NOT NULL,
    began      BIGINT NOT NULL,
    suspect    TEXT COLLATE "C" NOT NULL,
    since      BIGINT NOT NULL,
    lost       BIGINT NOT NULL,
    unsure     BIGINT NOT NULL
);

CREATE TABLE writer (
    generation BIGINT NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    commits    BIGINT NOT NULL,
    place      TEXT COLLATE "C" NOT NULL,
    ended      BIGINT NOT NULL,
    PRIMARY KEY (generation, name)
);

