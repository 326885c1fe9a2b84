-- +goose Up

-- Interval rows are open when to_seq is the largest integer. Rows with
-- from_seq or to_seq of head + 1 are staged: no read as of head sees them.

CREATE TABLE partitions (
    id             TEXT PRIMARY KEY,
    definition     TEXT NOT NULL,
    registered     BIGINT NOT NULL,
    head           BIGINT NOT NULL,
    covered        TEXT NOT NULL,
    revision       BIGINT NOT NULL,
    pin_revision   BIGINT NOT NULL,
    stage_revision BIGINT NOT NULL,
    epoch          BIGINT NOT NULL,
    holder         TEXT NOT NULL,
    created        BIGINT NOT NULL
);

CREATE TABLE incarnation (
    partition TEXT NOT NULL,
    seq       BIGINT NOT NULL,
    created   BIGINT NOT NULL,
    record    TEXT NOT NULL,
    PRIMARY KEY (partition, seq)
) WITHOUT ROWID;

CREATE TABLE body (
    id     INTEGER PRIMARY KEY,
    digest BYTEA NOT NULL,
    bytes  BYTEA NOT NULL
);
CREATE UNIQUE INDEX body_digest ON body (digest);

CREATE TABLE member (
    partition TEXT NOT NULL,
    asset     TEXT NOT NULL,
    from_seq  BIGINT NOT NULL,
    to_seq    BIGINT NOT NULL,
    type      TEXT NOT NULL,
    digest    BYTEA NOT NULL,
    effective BYTEA NOT NULL,
    bucket    BIGINT NOT NULL,
    PRIMARY KEY (partition, asset, from_seq)
) WITHOUT ROWID;
CREATE INDEX member_from ON member (partition, from_seq, bucket);
CREATE INDEX member_to ON member (partition, to_seq, bucket) WHERE to_seq < 9223372036854775807;
CREATE INDEX member_type ON member (partition, type, asset);
CREATE INDEX member_body ON member (digest);
CREATE INDEX member_bucket ON member (partition, bucket, asset, digest) WHERE to_seq = 9223372036854775807;

CREATE TABLE edge (
    partition  TEXT NOT NULL,
    from_asset TEXT NOT NULL,
    field      TEXT NOT NULL,
    to_asset   TEXT NOT NULL,
    is_read    BIGINT NOT NULL,
    from_seq   BIGINT NOT NULL,
    to_seq     BIGINT NOT NULL,
    PRIMARY KEY (partition, from_asset, field, to_asset, from_seq)
) WITHOUT ROWID;
CREATE INDEX edge_target ON edge (partition, to_asset, from_asset);
CREATE INDEX edge_from ON edge (partition, from_seq);
CREATE INDEX edge_to ON edge (partition, to_seq) WHERE to_seq < 9223372036854775807;

-- In this order, the assets that have a field are a range.
CREATE TABLE field (
    partition TEXT NOT NULL,
    path      TEXT NOT NULL,
    asset     TEXT NOT NULL,
    value     TEXT NOT NULL,
    from_seq  BIGINT NOT NULL,
    to_seq    BIGINT NOT NULL,
    PRIMARY KEY (partition, path, asset, from_seq)
) WITHOUT ROWID;
CREATE INDEX field_value ON field (partition, path, value, asset);
CREATE INDEX field_asset ON field (partition, asset);
CREATE INDEX field_from ON field (partition, from_seq);
CREATE INDEX field_to ON field (partition, to_seq) WHERE to_seq < 9223372036854775807;

CREATE TABLE bucket (
    partition TEXT NOT NULL,
    bucket    BIGINT NOT NULL,
    from_seq  BIGINT NOT NULL,
    to_seq    BIGINT NOT NULL,
    digest    BYTEA NOT NULL,
    PRIMARY KEY (partition, bucket, from_seq)
) WITHOUT ROWID;
CREATE INDEX bucket_open ON bucket (partition, bucket, digest) WHERE to_seq = 9223372036854775807;
CREATE INDEX bucket_from ON bucket (partition, from_seq);
CREATE INDEX bucket_to ON bucket (partition, to_seq) WHERE to_seq < 9223372036854775807;

CREATE TABLE candidate (
    partition    TEXT NOT NULL,
    digest       TEXT NOT NULL,
    base         BIGINT NOT NULL,
    state        TEXT NOT NULL,
    acknowledged BIGINT NOT NULL,
    saved        BIGINT NOT NULL,
    number       BIGINT NOT NULL,
    delta        BYTEA NOT NULL,
    record       TEXT NOT NULL,
    PRIMARY KEY (partition, digest)
) WITHOUT ROWID;
CREATE INDEX candidate_number ON candidate (partition, number);

CREATE TABLE candidate_entry (
    partition TEXT NOT NULL,
    candidate TEXT NOT NULL,
    asset     TEXT NOT NULL,
    digest    BYTEA NOT NULL,
    has_body  BIGINT NOT NULL,
    record    TEXT NOT NULL,
    PRIMARY KEY (partition, candidate, asset)
) WITHOUT ROWID;
CREATE INDEX candidate_entry_body ON candidate_entry (digest) WHERE has_body = 1;

CREATE TABLE blob (
    id        INTEGER PRIMARY KEY,
    partition TEXT NOT NULL,
    kind      TEXT NOT NULL,
    name      TEXT NOT NULL,
    digest    BYTEA NOT NULL,
    bytes     BYTEA NOT NULL
);
CREATE UNIQUE INDEX blob_name ON blob (partition, kind, name);

CREATE TABLE pin (
    partition TEXT NOT NULL,
    asset     TEXT NOT NULL,
    pin_rank  BIGINT NOT NULL,
    seq       BIGINT NOT NULL,
    revision  BIGINT NOT NULL,
    holder    TEXT NOT NULL,
    origin    TEXT NOT NULL,
    reason    TEXT NOT NULL,
    created   BIGINT NOT NULL,
    ends      BIGINT NOT NULL,
    PRIMARY KEY (partition, asset, pin_rank)
) WITHOUT ROWID;
CREATE INDEX pin_seq ON pin (partition, seq);

CREATE TABLE hold (
    partition TEXT NOT NULL,
    asset     TEXT NOT NULL,
    owner     TEXT NOT NULL,
    origin    TEXT NOT NULL,
    reason    TEXT NOT NULL,
    created   BIGINT NOT NULL,
    ends      BIGINT NOT NULL,
    PRIMARY KEY (partition, asset)
) WITHOUT ROWID;

-- The stop of all partitions has the empty partition.
CREATE TABLE stop (
    partition TEXT PRIMARY KEY,
    owner     TEXT NOT NULL,
    origin    TEXT NOT NULL,
    reason    TEXT NOT NULL,
    since     BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE approval (
    partition TEXT NOT NULL,
    asset     TEXT NOT NULL,
    effective BYTEA NOT NULL,
    plan      BYTEA NOT NULL,
    approver  TEXT NOT NULL,
    origin    TEXT NOT NULL,
    reason    TEXT NOT NULL,
    created   BIGINT NOT NULL,
    ends      BIGINT NOT NULL,
    used_by   TEXT NOT NULL,
    PRIMARY KEY (partition, asset, effective, plan)
) WITHOUT ROWID;

CREATE TABLE push (
    number       INTEGER PRIMARY KEY,
    id           TEXT NOT NULL,
    partition    TEXT NOT NULL,
    asset        TEXT NOT NULL,
    target       BIGINT NOT NULL,
    effective    BYTEA NOT NULL,
    plan         BYTEA NOT NULL,
    resource_key TEXT NOT NULL,
    epoch        BIGINT NOT NULL,
    admitted     BIGINT NOT NULL,
    budgets      TEXT NOT NULL,
    resume_token BYTEA,
    doubt        BIGINT NOT NULL,
    open         BIGINT NOT NULL,
    ending       TEXT NOT NULL,
    reason       TEXT NOT NULL,
    ended        BIGINT NOT NULL
);
CREATE UNIQUE INDEX push_id ON push (id);
-- S3: one open push of an asset, and of a resource key.
CREATE UNIQUE INDEX push_open_asset ON push (partition, asset) WHERE open = 1;
CREATE UNIQUE INDEX push_open_key ON push (resource_key) WHERE open = 1 AND resource_key <> '';
CREATE INDEX push_asset ON push (partition, asset, number);
CREATE INDEX push_partition ON push (partition, number);

CREATE TABLE budget (
    partition TEXT NOT NULL,
    name      TEXT NOT NULL,
    used      BIGINT NOT NULL,
    PRIMARY KEY (partition, name)
) WITHOUT ROWID;

CREATE TABLE claim (
    resource_key TEXT PRIMARY KEY,
    partition    TEXT NOT NULL,
    asset        TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE enforced (
    partition    TEXT NOT NULL,
    asset        TEXT NOT NULL,
    type         TEXT NOT NULL,
    effective    BYTEA NOT NULL,
    policy       BYTEA NOT NULL,
    seq          BIGINT NOT NULL,
    resource_key TEXT NOT NULL,
    seen         BIGINT NOT NULL,
    PRIMARY KEY (partition, asset)
) WITHOUT ROWID;
CREATE INDEX enforced_seq ON enforced (partition, seq);

CREATE TABLE report (
    partition TEXT NOT NULL,
    asset     TEXT NOT NULL,
    state     TEXT NOT NULL,
    record    TEXT NOT NULL,
    PRIMARY KEY (partition, asset)
) WITHOUT ROWID;
CREATE INDEX report_state ON report (partition, state, asset);

-- One row for each commit and partition: the records as JSON, each with its
-- own link, and the digest of the last link.
CREATE TABLE audit (
    partition TEXT NOT NULL,
    last      BIGINT NOT NULL,
    records   TEXT NOT NULL,
    digest    BYTEA NOT NULL,
    PRIMARY KEY (partition, last)
) WITHOUT ROWID;

-- The end of each chain, so that a missing tail is seen.
CREATE TABLE audit_head (
    partition TEXT PRIMARY KEY,
    last      BIGINT NOT NULL,
    digest    BYTEA NOT NULL
) WITHOUT ROWID;

-- What a large store looks like, for the planner: without it, SQLite takes a
-- partition for ten rows. Rows in all, then rows for each prefix of the key.
ANALYZE;
DELETE FROM sqlite_stat1;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('incarnation', 'incarnation', '3000 1000 1'),
    ('member', 'member', '600000 200000 2 1'),
    ('member', 'member_from', '600000 200000 200 2'),
    ('member', 'member_to', '300000 100000 100 2'),
    ('member', 'member_type', '600000 200000 20000 2'),
    ('member', 'member_body', '600000 2'),
    ('member', 'member_bucket', '300000 100000 100 1 1'),
    ('edge', 'edge', '900000 300000 4 2 2 1'),
    ('edge', 'edge_target', '900000 300000 20 2'),
    ('edge', 'edge_from', '900000 300000 300'),
    ('edge', 'edge_to', '450000 150000 150'),
    ('field', 'field', '1500000 500000 50000 2 1'),
    ('field', 'field_value', '1500000 500000 50000 5000 2'),
    ('field', 'field_asset', '1500000 500000 10'),
    ('field', 'field_from', '1500000 500000 500'),
    ('field', 'field_to', '750000 250000 250'),
    ('bucket', 'bucket', '9000 3000 3 1'),
    ('bucket', 'bucket_open', '3000 1000 1 1'),
    ('bucket', 'bucket_from', '9000 3000 10'),
    ('bucket', 'bucket_to', '6000 2000 10'),
    ('candidate', 'candidate', '300 100 1'),
    ('candidate', 'candidate_number', '300 100 1'),
    ('candidate_entry', 'candidate_entry', '30000 10000 100 1'),
    ('candidate_entry', 'candidate_entry_body', '30000 2'),
    ('pin', 'pin', '300 100 2 1'),
    ('pin', 'pin_seq', '300 100 10'),
    ('push', 'push_id', '1000000 1'),
    ('push', 'push_open_asset', '1000 300 1'),
    ('push', 'push_open_key', '1000 1'),
    ('push', 'push_asset', '1000000 300000 10 1'),
    ('push', 'push_partition', '1000000 300000 1'),
    ('enforced', 'enforced', '300000 100000 1'),
    ('enforced', 'enforced_seq', '300000 100000 1000'),
    ('report', 'report', '300000 100000 1'),
    ('report', 'report_state', '300000 100000 20000 1'),
    ('audit', 'audit', '100000 30000 1');
ANALYZE sqlite_schema;
