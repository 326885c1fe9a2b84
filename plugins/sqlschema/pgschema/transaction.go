package pgschema

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"lehr.dev/plugins/sqlschema/database"
	"lehr.dev/sdk/serve"
)

// change runs one change in one transaction that holds the locks and has
// compared the base.
func (e *Engine) change(ctx context.Context, request database.Request, push database.Push, apply func(context.Context, *session, *catalog) error) error {
	if err := push.Effect(ctx); err != nil {
		return err
	}
	conn, err := connect(ctx, request)
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	s, err := begin(ctx, conn, request)
	if err != nil {
		return err
	}
	wanted, err := s.lock(ctx, push)
	if err != nil {
		return err
	}
	if err := apply(ctx, s, wanted); err != nil {
		return err
	}
	if err := push.Effect(ctx); err != nil {
		return err
	}
	return s.explain("committing", s.tx.Commit(ctx))
}

// lock keeps others from changing the tables (their rows may be read and
// written meanwhile), and compares the base.
func (s *session) lock(ctx context.Context, push database.Push) (*catalog, error) {
	if _, err := s.tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended($1, 7291))", s.table()); err != nil {
		return nil, s.explain("waiting for other pushes to this schema", err)
	}
	rows, err := s.tx.Query(ctx, `select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname = $1 and c.relname = any($2) and c.relkind = 'r' order by 1`, s.request.Schema, s.declared().relations)
	if err != nil {
		return nil, s.explain("finding the tables", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, s.explain("finding the tables", err)
	}
	for _, table := range tables {
		if _, err := s.tx.Exec(ctx, "lock table "+quote(s.request.Schema)+"."+quote(table)+" in share update exclusive mode"); err != nil {
			return nil, s.explain("locking the table "+table, err)
		}
	}
	wanted, err := s.wanted(ctx)
	if err != nil {
		return nil, err
	}
	all, err := s.records(ctx)
	if err != nil {
		return nil, err
	}
	base, err := s.base(ctx, wanted, all)
	if err != nil {
		return nil, err
	}
	if base != push.Base {
		return nil, fmt.Errorf("%w: the tables of %s were changed since the plan was made (%s, was %s); nothing was done", serve.ErrStale, s.place, base, push.Base)
	}
	return wanted, s.claimed(wanted.words(), all)
}
