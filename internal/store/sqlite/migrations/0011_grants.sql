-- +goose Up

-- Since when a definition gives the role; 0: by a server's policy, by the first
-- incarnation, or before this was kept. An approver counts a while after it.
ALTER TABLE access_grant ADD COLUMN since BIGINT NOT NULL DEFAULT 0;
