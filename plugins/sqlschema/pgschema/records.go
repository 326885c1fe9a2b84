package pgschema

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"lehr.dev/plugins/sqlschema/database"
	"lehr.dev/sdk/serve"
)

// records is the table that remembers the last push of each asset.
const records = "lehr_schema_versions"

// record is its row.
type record struct{ asset, version, push, objects string }

func (s *session) table() string { return quote(s.request.Schema) + "." + records }

// own is the row of the asset, or nil.
func own(all []record, asset string) *record {
	for i := range all {
		if all[i].asset == asset {
			return &all[i]
		}
	}
	return nil
}

func (s *session) records(ctx context.Context) ([]record, error) {
	var exists bool
	if err := s.tx.QueryRow(ctx, "select to_regclass($1) is not null", s.table()).Scan(&exists); err != nil || !exists {
		return nil, s.explain("looking for the table "+records, err)
	}
	rows, err := s.tx.Query(ctx, "select asset, version, push, objects from "+s.table())
	if err != nil {
		return nil, s.explain("reading the table "+records, err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (one record, err error) {
		return one, row.Scan(&one.asset, &one.version, &one.push, &one.objects)
	})
	return all, s.explain("reading the table "+records, err)
}

// claimed refuses what another asset manages.
func (s *session) claimed(wanted database.Objects, all []record) error {
	for _, one := range all {
		if one.asset == s.request.Asset {
			continue
		}
		if err := database.Overlap(wanted, one.asset, one.objects); err != nil {
			return serve.Errorf(serve.Conflict, "%s: %w", s.place, err).
				WithHint("an asset that is gone is forgotten by: DELETE FROM %s WHERE asset = '%s'", s.table(), strings.ReplaceAll(one.asset, "'", "''"))
		}
	}
	return nil
}

func (s *session) remember(ctx context.Context, push string, claims string) error {
	_, err := s.tx.Exec(ctx, "create table if not exists "+s.table()+` (
		asset text primary key, version text not null, push text not null, objects text not null,
		changed_at timestamptz not null default now())`)
	if err != nil {
		return s.explain("making the table "+records, err)
	}
	_, err = s.tx.Exec(ctx, "insert into "+s.table()+` (asset, version, push, objects) values ($1, $2, $3, $4)
		on conflict (asset) do update set version = excluded.version, push = excluded.push, objects = excluded.objects, changed_at = now()`,
		s.request.Asset, s.request.Version, push, claims)
	return s.explain("remembering the version", err)
}

func (s *session) forget(ctx context.Context) error {
	all, err := s.records(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	_, err = s.tx.Exec(ctx, "delete from "+s.table()+" where asset = $1", s.request.Asset)
	return s.explain("forgetting the version", err)
}
