-- +goose Up

-- What programs go by was read back out of sentences for people: whose word a health is,
-- what the plugin told last, and the check that a wait is of. It has fields now.
UPDATE report SET record = jsonb_set(record::jsonb, '{health,plugin}', '"unknown"')::text
    WHERE record::jsonb #>> '{health,reason}' LIKE '%it was told before';
UPDATE report SET record = jsonb_set(record::jsonb, '{health,source}', '"after-push"')::text
    WHERE record::jsonb #>> '{health,reason}' LIKE 'after its push: %';
UPDATE report SET record = jsonb_set(record::jsonb, '{health,plugin}', '"healthy"')::text
    WHERE record::jsonb #>> '{health,reason}' LIKE 'after its push: %its plugin says that it is healthy';
UPDATE report SET record = jsonb_set(record::jsonb, '{health,plugin}', '"unhealthy"')::text
    WHERE record::jsonb #>> '{health,reason}' LIKE 'after its push: %its plugin says that it is unhealthy';
UPDATE report SET record = jsonb_set(record::jsonb, '{waiting}', (
    SELECT jsonb_agg(CASE
        WHEN value ->> 'reason' LIKE 'check % %'
        THEN jsonb_set(value, '{check}', to_jsonb(rtrim(split_part(value ->> 'reason', ' ', 2), ':')))
        ELSE value END ORDER BY ordinality)
    FROM jsonb_array_elements(record::jsonb -> 'waiting') WITH ORDINALITY))::text
    WHERE record LIKE '%"check %';
