-- +goose Up
-- The group of each asset as its last report has it, so that a group is counted
-- by an index alone.
ALTER TABLE report ADD COLUMN service TEXT NOT NULL DEFAULT '';
ALTER TABLE report ADD COLUMN instance TEXT NOT NULL DEFAULT '';
UPDATE report SET
    service = coalesce((SELECT value FROM field WHERE field.partition = report.partition AND field.asset = report.asset
        AND path = 'lehr.intent.v1.Group.service' AND to_seq = 9223372036854775807), ''),
    instance = coalesce((SELECT value FROM field WHERE field.partition = report.partition AND field.asset = report.asset
        AND path = 'lehr.intent.v1.Group.instance' AND to_seq = 9223372036854775807), '');
CREATE INDEX report_group ON report (partition, service, state, instance, asset) WHERE service <> '';
-- What each push was decided on, in words.
ALTER TABLE push ADD COLUMN grounds TEXT NOT NULL DEFAULT '';
