-- +goose Up

-- Pushes that count under a key of a rate limit: those under way from the largest
-- number on, the others from when they ended on.
CREATE TABLE rate (
    partition TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    counted   BIGINT NOT NULL,
    push      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, name, counted, push)
);

-- The keys that a push counts under, one a line.
ALTER TABLE push ADD COLUMN rates TEXT COLLATE "C" NOT NULL DEFAULT '';
