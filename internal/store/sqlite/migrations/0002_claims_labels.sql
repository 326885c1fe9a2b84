-- +goose Up

-- When the next incarnation took its place; the largest integer: it is head.
ALTER TABLE incarnation ADD COLUMN superseded BIGINT NOT NULL DEFAULT 9223372036854775807;
-- When one ended whose successor is gone is not known: no time finds it.
UPDATE incarnation SET superseded = coalesce(
    (SELECT n.created FROM incarnation n WHERE n.partition = incarnation.partition AND n.seq = incarnation.seq + 1), created)
    WHERE seq < (SELECT p.head FROM partitions p WHERE p.id = incarnation.partition);
CREATE INDEX incarnation_time ON incarnation (partition, superseded, created, seq);

-- Those with person = 0 are what Publish was given: they are in the
-- incarnation's record too, and here to be found.
CREATE TABLE label (
    partition TEXT NOT NULL,
    seq       BIGINT NOT NULL,
    name      TEXT NOT NULL,
    value     TEXT NOT NULL,
    person    BIGINT NOT NULL,
    PRIMARY KEY (partition, seq, name)
) WITHOUT ROWID;
CREATE INDEX label_name ON label (partition, name, value, seq);
INSERT INTO label (partition, seq, name, value, person)
    SELECT i.partition, i.seq, j.key, j.value, 0 FROM incarnation i, json_each(i.record, '$.labels') j;

-- absent: nothing was there, as a Turndown asked. adrift: the asset may not be
-- in head. It is set too often rather than too seldom; whoever reads it asks
-- member. carried: the claimant of a resource has not been seen in sync with
-- it yet, and this is what the former holder was; shown only when the claimant
-- leaves head too, so that the resource is never out of sight.
ALTER TABLE enforced ADD COLUMN absent BIGINT NOT NULL DEFAULT 0;
ALTER TABLE enforced ADD COLUMN adrift BIGINT NOT NULL DEFAULT 1;
ALTER TABLE enforced ADD COLUMN carried BIGINT NOT NULL DEFAULT 0;
UPDATE enforced SET adrift = 0 WHERE EXISTS (
    SELECT 1 FROM member m, partitions p WHERE p.id = enforced.partition AND m.partition = enforced.partition
    AND m.asset = enforced.asset AND m.from_seq <= p.head AND m.to_seq = 9223372036854775807);
CREATE INDEX enforced_adrift ON enforced (partition, asset) WHERE adrift = 1;

CREATE INDEX claim_asset ON claim (partition, asset);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('incarnation', 'incarnation_time', '3000 1000 1 1 1'),
    ('label', 'label', '300 100 2 1'),
    ('label', 'label_name', '300 100 10 2 1'),
    ('enforced', 'enforced_adrift', '300 100 1'),
    ('claim', 'claim_asset', '300000 100000 1');
ANALYZE sqlite_schema;
