package liteschema

import (
	"context"
	"strings"

	"lehr.dev/plugins/sqlschema/database"
	"lehr.dev/sdk/serve"
)

// recordsTable remembers the last push of each asset.
const recordsTable = "lehr_schema_versions"

type record struct{ asset, version, push, objects string }

func (s *session) records(ctx context.Context) ([]record, error) {
	exists, err := s.number(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", recordsTable)
	if err != nil || exists == 0 {
		return nil, s.explain("looking for the table "+recordsTable, err)
	}
	rows, err := s.conn.QueryContext(ctx, "SELECT asset, version, push, objects FROM "+recordsTable)
	if err != nil {
		return nil, s.explain("reading the table "+recordsTable, err)
	}
	defer rows.Close()
	var all []record
	for rows.Next() {
		var one record
		if err := rows.Scan(&one.asset, &one.version, &one.push, &one.objects); err != nil {
			return nil, s.explain("reading the table "+recordsTable, err)
		}
		all = append(all, one)
	}
	return all, s.explain("reading the table "+recordsTable, rows.Err())
}

// claimed refuses what another asset manages, and returns this asset's own
// record, if there is one.
func (s *session) claimed(ctx context.Context, wanted database.Objects) (*record, error) {
	all, err := s.records(ctx)
	var own *record
	for _, one := range all {
		if one.asset == s.request.Asset {
			own = &one
			continue
		}
		if err := database.Overlap(wanted, one.asset, one.objects); err != nil {
			return nil, serve.Errorf(serve.Conflict, "%s: %w", s.file.path, err).
				WithHint("an asset that is gone is forgotten by: DELETE FROM %s WHERE asset = '%s'", recordsTable, strings.ReplaceAll(one.asset, "'", "''"))
		}
	}
	return own, err
}

func (s *session) remember(ctx context.Context, push, claims string) error {
	err := s.run(ctx, "CREATE TABLE IF NOT EXISTS "+recordsTable+` (
		asset TEXT PRIMARY KEY, version TEXT NOT NULL, push TEXT NOT NULL, objects TEXT NOT NULL,
		changed_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)`)
	if err != nil {
		return s.explain("making the table "+recordsTable, err)
	}
	err = s.run(ctx, "INSERT INTO "+recordsTable+` (asset, version, push, objects) VALUES ($1, $2, $3, $4)
		ON CONFLICT (asset) DO UPDATE SET version = excluded.version, push = excluded.push, objects = excluded.objects, changed_at = CURRENT_TIMESTAMP`,
		s.request.Asset, s.request.Version, push, claims)
	return s.explain("remembering the version", err)
}

func (s *session) forget(ctx context.Context) error {
	all, err := s.records(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	return s.explain("forgetting the version", s.run(ctx, "DELETE FROM "+recordsTable+" WHERE asset = ?", s.request.Asset))
}
