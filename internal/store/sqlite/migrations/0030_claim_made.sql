-- +goose Up

-- made: the claim was taken, or is held, by an admission to create the resource. What was found there
-- when the asset came is not made by it, and a rule of previews does not approve its removal.
ALTER TABLE claim ADD COLUMN made BIGINT NOT NULL DEFAULT 0;
