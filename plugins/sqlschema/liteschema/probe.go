package liteschema

import (
	"context"
	"maps"
	"slices"
	"strings"

	"lehr.dev/sdk/serve"
)

// works tells of each view, and of each table with triggers, whether SQLite
// can still make sense of it. SQLite itself does not ask that when something
// is dropped, so it is asked before and after. Nothing is run.
func (s *session) works(ctx context.Context) (map[string]bool, error) {
	all, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	works := map[string]bool{}
	for _, one := range all {
		switch one.kind {
		case "view":
			works["view "+one.name] = s.compiles(ctx, "SELECT * FROM "+quote(one.name)) == nil
		case "trigger":
			if _, known := works["triggers of "+one.table]; !known {
				works["triggers of "+one.table] = s.triggersWork(ctx, one.table)
			}
		}
	}
	return works, nil
}

// compiles reports whether a statement can be run; it is not.
func (s *session) compiles(ctx context.Context, text string) error {
	rows, err := s.conn.QueryContext(ctx, "EXPLAIN "+text)
	if err != nil {
		return err
	}
	return rows.Close()
}

func (s *session) triggersWork(ctx context.Context, table string) bool {
	rows, err := s.conn.QueryContext(ctx, "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", table)
	if err != nil {
		return false
	}
	defer rows.Close()
	var names, sets []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return false
		}
		names, sets = append(names, quote(name)), append(sets, quote(name)+" = "+quote(name))
	}
	if rows.Err() != nil || rows.Close() != nil || len(names) == 0 {
		return false
	}
	into := quote(table)
	nulls := strings.TrimSuffix(strings.Repeat("NULL, ", len(names)), ", ")
	for _, text := range []string{
		"DELETE FROM " + into, "UPDATE " + into + " SET " + strings.Join(sets, ", "),
		"INSERT INTO " + into + " (" + strings.Join(names, ", ") + ") VALUES (" + nulls + ")",
	} {
		// A view has triggers for some of these only.
		if err := s.compiles(ctx, text); err != nil && !strings.Contains(err.Error(), "because it is a view") {
			return false
		}
	}
	return true
}

// stillWorks refuses a change that breaks what worked, or makes what does not
// work.
func (w *walk) stillWorks(ctx context.Context) error {
	after, err := w.works(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before, was := w.worked[name]; !after[name] && (before || !was) {
			return serve.Errorf(serve.Conflict, "the %s in %s would not work any more, or does not yet; nothing was changed", name, w.file.path).
				WithHint("it names a table or column that is not there then: change it first, or declare what it needs")
		}
	}
	return nil
}

// kin is a table with the one that its foreign key names.
type kin struct{ child, parent string }

func (s *session) foreignKeys(ctx context.Context) ([]kin, error) {
	rows, err := s.conn.QueryContext(ctx, `SELECT t.name, k."table" FROM pragma_table_list t, pragma_foreign_key_list(t.name) k WHERE t.schema = 'main' AND t.type = 'table'`)
	if err != nil {
		return nil, s.explain("looking for foreign keys", err)
	}
	defer rows.Close()
	var all []kin
	for rows.Next() {
		var one kin
		if err := rows.Scan(&one.child, &one.parent); err != nil {
			return nil, s.explain("looking for foreign keys", err)
		}
		all = append(all, one)
	}
	return all, s.explain("looking for foreign keys", rows.Err())
}

// childless refuses to leave foreign keys that lead nowhere.
func (w *walk) childless(ctx context.Context) error {
	all, err := w.foreignKeys(ctx)
	for _, one := range all {
		if w.wanted.tables[fold(one.parent)] != nil {
			return serve.Errorf(serve.Conflict, "the table %s in %s refers to %s, which would be gone; nothing was changed", one.child, w.file.path, one.parent).
				WithHint("change %s first; nothing is ever dropped that this asset does not declare", one.child)
		}
	}
	return err
}

// countOrphans counts the rows without a parent, of the declared tables and
// those that refer to them. A table whose foreign keys cannot be checked, for
// they do not fit what they refer to, counts as -1.
func (w *walk) countOrphans(ctx context.Context) (map[string]int64, error) {
	all, err := w.foreignKeys(ctx)
	counts := map[string]int64{}
	for _, one := range all {
		if _, known := counts[one.child]; known || w.wanted.tables[fold(one.child)] == nil && w.wanted.tables[fold(one.parent)] == nil {
			continue
		}
		count, err := w.number(ctx, "SELECT count(*) FROM pragma_foreign_key_check(?)", one.child)
		if err != nil {
			count = -1
		}
		if ctx.Err() != nil {
			return nil, w.explain("checking foreign keys", err)
		}
		counts[one.child] = count
	}
	return counts, err
}

// noNewOrphans refuses a change that leaves rows without their parent.
func (w *walk) noNewOrphans(ctx context.Context) error {
	after, err := w.countOrphans(ctx)
	if err != nil {
		return err
	}
	for _, table := range slices.Sorted(maps.Keys(after)) {
		before := w.orphans[table]
		if after[table] < 0 && before >= 0 {
			return serve.Errorf(serve.Conflict, "foreign keys of %s in %s would not fit what they refer to; nothing was changed", table, w.file.path).
				WithHint("what a foreign key names must be a primary key or unique")
		}
		if after[table] > max(before, 0) && before >= 0 {
			return serve.Errorf(serve.Conflict, "%d rows of %s in %s would refer to rows that are not there; nothing was changed", after[table]-before, table, w.file.path).
				WithHint("mend the rows first: PRAGMA foreign_key_check lists those that are wrong now")
		}
	}
	return nil
}
