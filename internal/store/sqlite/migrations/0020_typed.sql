-- +goose Up

-- What programs go by was read back out of sentences for people: whose word a health is,
-- what the plugin told last, and the check that a wait is of. It has fields now.
UPDATE report SET record = json_set(record, '$.health.plugin', 'unknown')
    WHERE json_extract(record, '$.health.reason') LIKE '%it was told before';
UPDATE report SET record = json_set(record, '$.health.source', 'after-push')
    WHERE json_extract(record, '$.health.reason') LIKE 'after its push: %';
UPDATE report SET record = json_set(record, '$.health.plugin', 'healthy')
    WHERE json_extract(record, '$.health.reason') LIKE 'after its push: %its plugin says that it is healthy';
UPDATE report SET record = json_set(record, '$.health.plugin', 'unhealthy')
    WHERE json_extract(record, '$.health.reason') LIKE 'after its push: %its plugin says that it is unhealthy';
UPDATE report SET record = json_set(record, '$.waiting', (
    SELECT json_group_array(CASE
        WHEN json_extract(value, '$.reason') LIKE 'check % %'
        THEN json_set(value, '$.check', rtrim(substr(json_extract(value, '$.reason'), 7, instr(substr(json_extract(value, '$.reason'), 7), ' ') - 1), ':'))
        ELSE json(value) END)
    FROM json_each(record, '$.waiting')))
    WHERE record LIKE '%"check %';
