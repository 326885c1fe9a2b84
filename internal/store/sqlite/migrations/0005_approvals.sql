-- +goose Up

-- A row for each approver. Stores from before were local ones, of one user.
CREATE TABLE approval_by (
    partition TEXT NOT NULL,
    asset     TEXT NOT NULL,
    effective BYTEA NOT NULL,
    plan      BYTEA NOT NULL,
    approver  TEXT NOT NULL,
    origin    TEXT NOT NULL,
    alone     BIGINT NOT NULL,
    reason    TEXT NOT NULL,
    created   BIGINT NOT NULL,
    ends      BIGINT NOT NULL,
    used_by   TEXT NOT NULL,
    PRIMARY KEY (partition, asset, effective, plan, approver)
) WITHOUT ROWID;
INSERT INTO approval_by SELECT partition, asset, effective, plan, approver, origin, 1, reason, created, ends, used_by FROM approval;
DROP TABLE approval;
ALTER TABLE approval_by RENAME TO approval;

CREATE TABLE rejection (
    partition TEXT NOT NULL,
    asset     TEXT NOT NULL,
    effective BYTEA NOT NULL,
    plan      BYTEA NOT NULL,
    rejecter  TEXT NOT NULL,
    origin    TEXT NOT NULL,
    reason    TEXT NOT NULL,
    created   BIGINT NOT NULL,
    ends      BIGINT NOT NULL,
    PRIMARY KEY (partition, asset, effective, plan, rejecter)
) WITHOUT ROWID;

CREATE TABLE override (
    partition TEXT NOT NULL,
    asset     TEXT NOT NULL,
    effective BYTEA NOT NULL,
    kind      TEXT NOT NULL,
    owner     TEXT NOT NULL,
    origin    TEXT NOT NULL,
    reason    TEXT NOT NULL,
    created   BIGINT NOT NULL,
    ends      BIGINT NOT NULL,
    PRIMARY KEY (partition, asset, effective, kind)
) WITHOUT ROWID;

-- The people who made an incarnation, for as long as any content is there that
-- it changed: longer than the incarnation itself may be kept.
CREATE TABLE authorship (
    partition TEXT NOT NULL,
    seq       BIGINT NOT NULL,
    person    TEXT NOT NULL,
    PRIMARY KEY (partition, seq, person)
) WITHOUT ROWID;

ALTER TABLE candidate ADD COLUMN acknowledger TEXT NOT NULL DEFAULT '';
ALTER TABLE candidate ADD COLUMN acknowledger_origin TEXT NOT NULL DEFAULT '';
