-- +goose Up

-- A row for each approver. Stores from before were local ones, of one user.
ALTER TABLE approval ADD COLUMN alone BIGINT NOT NULL DEFAULT 1;
ALTER TABLE approval ALTER COLUMN alone DROP DEFAULT;
ALTER TABLE approval DROP CONSTRAINT approval_pkey;
ALTER TABLE approval ADD PRIMARY KEY (partition, asset, effective, plan, approver);

CREATE TABLE rejection (
    partition TEXT COLLATE "C" NOT NULL,
    asset     TEXT COLLATE "C" NOT NULL,
    effective BYTEA NOT NULL,
    plan      BYTEA NOT NULL,
    rejecter  TEXT COLLATE "C" NOT NULL,
    origin    TEXT COLLATE "C" NOT NULL,
    reason    TEXT COLLATE "C" NOT NULL,
    created   BIGINT NOT NULL,
    ends      BIGINT NOT NULL,
    PRIMARY KEY (partition, asset, effective, plan, rejecter)
);

CREATE TABLE override (
    partition TEXT COLLATE "C" NOT NULL,
    asset     TEXT COLLATE "C" NOT NULL,
    effective BYTEA NOT NULL,
    kind      TEXT COLLATE "C" NOT NULL,
    owner     TEXT COLLATE "C" NOT NULL,
    origin    TEXT COLLATE "C" NOT NULL,
    reason    TEXT COLLATE "C" NOT NULL,
    created   BIGINT NOT NULL,
    ends      BIGINT NOT NULL,
    PRIMARY KEY (partition, asset, effective, kind)
);

-- The people who made an incarnation, for as long as any content is there that
-- it changed: longer than the incarnation itself may be kept.
CREATE TABLE authorship (
    partition TEXT COLLATE "C" NOT NULL,
    seq       BIGINT NOT NULL,
    person    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, seq, person)
);

ALTER TABLE candidate ADD COLUMN acknowledger TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE candidate ADD COLUMN acknowledger_origin TEXT COLLATE "C" NOT NULL DEFAULT '';
