-- +goose Up

-- The pushes that count under a key of a rate limit.
CREATE TABLE rate (
    partition TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    admitted  BIGINT NOT NULL,
    push      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, name, admitted, push)
);
