-- +goose Up

-- The same as SQLite's, see sqlite/migrations.
-- From which incarnation on a rollout governs the asset; 0: it did so already.
ALTER TABLE pin ADD COLUMN governed BIGINT NOT NULL DEFAULT 0;
-- The runs of rollouts. A run's record says the rest.
CREATE TABLE rollout (
    partition TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    run BIGINT NOT NULL,
    open BIGINT NOT NULL,
    -- Incarnations that it needs: what it brings, what was before, what it goes back to.
    target BIGINT NOT NULL,
    base BIGINT NOT NULL,
    back BIGINT NOT NULL,
    ended BIGINT NOT NULL,
    record TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, name, run)
);
CREATE INDEX rollout_open ON rollout (partition, name, run) WHERE open = 1;
-- What a rollout saw of an asset.
CREATE TABLE observation (
    partition TEXT COLLATE "C" NOT NULL,
    rollout TEXT COLLATE "C" NOT NULL,
    asset TEXT COLLATE "C" NOT NULL,
    record TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, rollout, asset)
);
-- Whether contents of assets are good.
CREATE TABLE judgement (
    partition TEXT COLLATE "C" NOT NULL,
    asset TEXT COLLATE "C" NOT NULL,
    effective BYTEA NOT NULL,
    good BIGINT NOT NULL,
    judged BIGINT NOT NULL,
    record TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, asset, effective)
);
-- What people asked of rollouts.
CREATE TABLE rollout_order (
    partition TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    created BIGINT NOT NULL,
    record TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, number)
);
