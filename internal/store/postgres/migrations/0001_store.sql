-- +goose Up

-- The same tables as SQLite's, see sqlite/migrations.
-- Interval rows are open when to_seq is the largest integer. Rows with
-- from_seq or to_seq of head + 1 are staged: no read as of head sees them.

CREATE TABLE partitions (
    id             TEXT COLLATE "C" PRIMARY KEY,
    definition     TEXT COLLATE "C" NOT NULL,
    registered     BIGINT NOT NULL,
    head           BIGINT NOT NULL,
    covered        TEXT COLLATE "C" NOT NULL,
    revision       BIGINT NOT NULL,
    pin_revision   BIGINT NOT NULL,
    stage_revision BIGINT NOT NULL,
    epoch          BIGINT NOT NULL,
    holder         TEXT COLLATE "C" NOT NULL,
    created        BIGINT NOT NULL,
    news           BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE incarnation (
    partition TEXT COLLATE "C" NOT NULL,
    seq       BIGINT NOT NULL,
    created   BIGINT NOT NULL,
    record    TEXT COLLATE "C" NOT NULL,
    -- When the next took its place; the largest integer: it is head.
    superseded BIGINT NOT NULL DEFAULT 9223372036854775807,
    PRIMARY KEY (partition, seq)
);
CREATE INDEX incarnation_time ON incarnation (partition, superseded, created, seq);

CREATE TABLE body (
    id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest BYTEA NOT NULL,
    bytes  BYTEA NOT NULL
);
CREATE UNIQUE INDEX body_digest ON body (digest);

CREATE TABLE member (
    partition TEXT COLLATE "C" NOT NULL,
    asset     TEXT COLLATE "C" NOT NULL,
    from_seq  BIGINT NOT NULL,
    to_seq    BIGINT NOT NULL,
    type      TEXT COLLATE "C" NOT NULL,
    digest    BYTEA NOT NULL,
    effective BYTEA NOT NULL,
    bucket    BIGINT NOT NULL,
    PRIMARY KEY (partition, asset, from_seq)
);
CREATE INDEX member_from ON member (partition, from_seq, bucket);
CREATE INDEX member_to ON member (partition, to_seq, bucket) WHERE to_seq < 9223372036854775807;
CREATE INDEX member_type ON member (partition, type, asset);
CREATE INDEX member_body ON member (digest);
CREATE INDEX member_bucket ON member (partition, bucket, asset, digest) WHERE to_seq = 9223372036854775807;

CREATE TABLE edge (
    partition  TEXT COLLATE "C" NOT NULL,
    from_asset TEXT COLLATE "C" NOT NULL,
    field      TEXT COLLATE "C" NOT NULL,
    to_asset   TEXT COLLATE "C" NOT NULL,
    is_read    BIGINT NOT NULL,
    from_seq   BIGINT NOT NULL,
    to_seq     BIGINT NOT NULL,
    PRIMARY KEY (partition, from_asset, field, to_asset, from_seq)
);
CREATE INDEX edge_target ON edge (partition, to_asset, from_asset);
CREATE INDEX edge_from ON edge (partition, from_seq);
CREATE INDEX edge_to ON edge (partition, to_seq) WHERE to_seq < 9223372036854775807;

-- In this order, the assets that have a field are a range.
CREATE TABLE field (
    partition TEXT COLLATE "C" NOT NULL,
    path      TEXT COLLATE "C" NOT NULL,
    asset     TEXT COLLATE "C" NOT NULL,
    value     TEXT COLLATE "C" NOT NULL,
    from_seq  BIGINT NOT NULL,
    to_seq    BIGINT NOT NULL,
    PRIMARY KEY (partition, path, asset, from_seq)
);
CREATE INDEX field_value ON field (partition, path, value, asset);
CREATE INDEX field_asset ON field (partition, asset);
CREATE INDEX field_from ON field (partition, from_seq);
CREATE INDEX field_to ON field (partition, to_seq) WHERE to_seq < 9223372036854775807;

CREATE TABLE bucket (
    partition TEXT COLLATE "C" NOT NULL,
    bucket    BIGINT NOT NULL,
    from_seq  BIGINT NOT NULL,
    to_seq    BIGINT NOT NULL,
    digest    BYTEA NOT NULL,
    PRIMARY KEY (partition, bucket, from_seq)
);
CREATE INDEX bucket_open ON bucket (partition, bucket, digest) WHERE to_seq = 9223372036854775807;
CREATE INDEX bucket_from ON bucket (partition, from_seq);
CREATE INDEX bucket_to ON bucket (partition, to_seq) WHERE to_seq < 9223372036854775807;

CREATE TABLE candidate (
    partition    TEXT COLLATE "C" NOT NULL,
    digest       TEXT COLLATE "C" NOT NULL,
    base         BIGINT NOT NULL,
    state        TEXT COLLATE "C" NOT NULL,
    acknowledged BIGINT NOT NULL,
    saved        BIGINT NOT NULL,
    number       BIGINT NOT NULL,
    delta        BYTEA NOT NULL,
    record       TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, digest)
);
CREATE INDEX candidate_number ON candidate (partition, number);

CREATE TABLE candidate_entry (
    partition TEXT COLLATE "C" NOT NULL,
    candidate TEXT COLLATE "C" NOT NULL,
    asset     TEXT COLLATE "C" NOT NULL,
    digest    BYTEA NOT NULL,
    has_body  BIGINT NOT NULL,
    record    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, candidate, asset)
);
CREATE INDEX candidate_entry_body ON candidate_entry (digest) WHERE has_body = 1;

CREATE TABLE blob (
    id        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition TEXT COLLATE "C" NOT NULL,
    kind      TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    digest    BYTEA NOT NULL,
    bytes     BYTEA NOT NULL
);
CREATE UNIQUE INDEX blob_name ON blob (partition, kind, name);

CREATE TABLE pin (
    partition TEXT COLLATE "C" NOT NULL,
    asset     TEXT COLLATE "C" NOT NULL,
    pin_rank  BIGINT NOT NULL,
    seq       BIGINT NOT NULL,
    revision  BIGINT NOT NULL,
    holder    TEXT COLLATE "C" NOT NULL,
    origin    TEXT COLLATE "C" NOT NULL,
    reason    TEXT COLLATE "C" NOT NULL,
    created   BIGINT NOT NULL,
    ends      BIGINT NOT NULL,
    PRIMARY KEY (partition, asset, pin_rank)
);
CREATE INDEX pin_seq ON pin (partition, seq);

CREATE TABLE hold (
    partition TEXT COLLATE "C" NOT NULL,
    asset     TEXT COLLATE "C" NOT NULL,
    owner     TEXT COLLATE "C" NOT NULL,
    origin    TEXT COLLATE "C" NOT NULL,
    reason    TEXT COLLATE "C" NOT NULL,
    created   BIGINT NOT NULL,
    ends      BIGINT NOT NULL,
    PRIMARY KEY (partition, asset)
);

-- The stop of all partitions has the empty partition.
CREATE TABLE stop (
    partition TEXT COLLATE "C" PRIMARY KEY,
    owner     TEXT COLLATE "C" NOT NULL,
    origin    TEXT COLLATE "C" NOT NULL,
    reason    TEXT COLLATE "C" NOT NULL,
    since     BIGINT NOT NULL
);

CREATE TABLE approval (
    partition TEXT COLLATE "C" NOT NULL,
    asset     TEXT COLLATE "C" NOT NULL,
    effective BYTEA NOT NULL,
    plan      BYTEA NOT NULL,
    approver  TEXT COLLATE "C" NOT NULL,
    origin    TEXT COLLATE "C" NOT NULL,
    reason    TEXT COLLATE "C" NOT NULL,
    created   BIGINT NOT NULL,
    ends      BIGINT NOT NULL,
    used_by   TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, asset, effective, plan)
);

CREATE TABLE push (
    number       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           TEXT COLLATE "C" NOT NULL,
    partition    TEXT COLLATE "C" NOT NULL,
    asset        TEXT COLLATE "C" NOT NULL,
    target       BIGINT NOT NULL,
    effective    BYTEA NOT NULL,
    plan         BYTEA NOT NULL,
    resource_key TEXT COLLATE "C" NOT NULL,
    epoch        BIGINT NOT NULL,
    admitted     BIGINT NOT NULL,
    budgets      TEXT COLLATE "C" NOT NULL,
    resume_token BYTEA,
    doubt        BIGINT NOT NULL,
    open         BIGINT NOT NULL,
    ending       TEXT COLLATE "C" NOT NULL,
    reason       TEXT COLLATE "C" NOT NULL,
    ended        BIGINT NOT NULL
);
CREATE UNIQUE INDEX push_id ON push (id);
-- S3: one open push of an asset, and of a resource key.
CREATE UNIQUE INDEX push_open_asset ON push (partition, asset) WHERE open = 1;
CREATE UNIQUE INDEX push_open_key ON push (resource_key) WHERE open = 1 AND resource_key <> '';
CREATE INDEX push_asset ON push (partition, asset, number);
CREATE INDEX push_partition ON push (partition, number);

CREATE TABLE budget (
    partition TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    used      BIGINT NOT NULL,
    PRIMARY KEY (partition, name)
);

CREATE TABLE claim (
    resource_key TEXT COLLATE "C" PRIMARY KEY,
    partition    TEXT COLLATE "C" NOT NULL,
    asset        TEXT COLLATE "C" NOT NULL
);
CREATE INDEX claim_asset ON claim (partition, asset);

CREATE TABLE enforced (
    partition    TEXT COLLATE "C" NOT NULL,
    asset        TEXT COLLATE "C" NOT NULL,
    type         TEXT COLLATE "C" NOT NULL,
    effective    BYTEA NOT NULL,
    policy       BYTEA NOT NULL,
    seq          BIGINT NOT NULL,
    resource_key TEXT COLLATE "C" NOT NULL,
    seen         BIGINT NOT NULL,
    absent       BIGINT NOT NULL DEFAULT 0,
    adrift       BIGINT NOT NULL DEFAULT 1,
    carried      BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (partition, asset)
);
CREATE INDEX enforced_seq ON enforced (partition, seq);
CREATE INDEX enforced_adrift ON enforced (partition, asset) WHERE adrift = 1;

CREATE TABLE report (
    partition TEXT COLLATE "C" NOT NULL,
    asset     TEXT COLLATE "C" NOT NULL,
    state     TEXT COLLATE "C" NOT NULL,
    record    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, asset)
);
CREATE INDEX report_state ON report (partition, state, asset);

-- One row for each commit and partition: the records as JSON, each with its
-- own link, and the digest of the last link.
CREATE TABLE audit (
    partition TEXT COLLATE "C" NOT NULL,
    last      BIGINT NOT NULL,
    records   TEXT COLLATE "C" NOT NULL,
    digest    BYTEA NOT NULL,
    PRIMARY KEY (partition, last)
);

-- The end of each chain, so that a missing tail is seen.
CREATE TABLE audit_head (
    partition TEXT COLLATE "C" PRIMARY KEY,
    last      BIGINT NOT NULL,
    digest    BYTEA NOT NULL
);

CREATE TABLE label (
    partition TEXT COLLATE "C" NOT NULL,
    seq       BIGINT NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    value     TEXT COLLATE "C" NOT NULL,
    person    BIGINT NOT NULL,
    PRIMARY KEY (partition, seq, name)
);
CREATE INDEX label_name ON label (partition, name, value, seq);

-- The processes that serve; each has its leases until the end of its own.
CREATE TABLE replica (
    name TEXT COLLATE "C" PRIMARY KEY,
    ends BIGINT NOT NULL
);
