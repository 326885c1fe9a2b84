-- +goose Up

-- What is kept of the push's plan (internal/ground/planrecord), at most 4096 bytes; NULL: it was
-- admitted before plans were kept. And the holder of the lease that admitted it; empty:
-- before that was kept.
ALTER TABLE push ADD COLUMN plan_record BYTEA;
ALTER TABLE push ADD COLUMN admitted_by TEXT NOT NULL DEFAULT '';
