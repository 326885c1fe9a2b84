-- +goose Up

-- That a pin takes its asset back to what it was before: what goes back waits for
-- fewer checks. A rollback's (rank 2) always does.
ALTER TABLE pin ADD COLUMN back BIGINT NOT NULL DEFAULT 0;
UPDATE pin SET back = 1 WHERE pin_rank = 2;
