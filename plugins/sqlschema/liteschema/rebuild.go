package liteschema

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/statement"
)

// rebuiltName is that of a table while it is made anew.
const rebuiltName = statement.Reserved + "new_"

// table brings one table to what is wanted of it: by adding columns where
// that is all, else by making it anew.
func (w *walk) table(ctx context.Context, is, want *table) error {
	added, simple := additions(is, want)
	if !simple {
		return w.rebuild(ctx, is, want)
	}
	for _, column := range added {
		if err := w.do(ctx, "ALTER TABLE "+quote(is.name)+" ADD COLUMN "+column.text); err != nil {
			return err
		}
	}
	return nil
}

// additions returns the columns to add, if adding them is all that there is
// to do and SQLite can do so in place.
func additions(is, want *table) (added []part, simple bool) {
	before := map[string]string{}
	for _, column := range is.columns {
		before[fold(column.name)] = column.word
	}
	kept := 0
	for _, column := range want.columns {
		switch word, there := before[fold(column.name)]; {
		case !there && addable(column):
			added = append(added, column)
		case there && word == column.word:
			kept++
		default:
			return nil, false
		}
	}
	return added, kept == len(is.columns) && is.options == want.options && maps.Equal(is.constraints, want.constraints)
}

// addable reports whether ALTER TABLE can add the column.
func addable(column part) bool {
	tokens, err := statement.Scan(statement.SQLite, column.text)
	if err != nil {
		return false
	}
	has := func(words ...string) int {
		return slices.IndexFunc(tokens, func(token statement.Token) bool { return isWord(token, words...) })
	}
	if has("primary", "unique", "stored", "generated", "as", "references") >= 0 {
		return false
	}
	preset := has("default")
	if preset < 0 {
		return has("not") < 0
	}
	// A constant: neither (…) nor the time, nor NULL beside NOT NULL.
	value := tokens[min(preset+1, len(tokens)-1)]
	return !value.Is("(") && !isWord(value, "current_time", "current_date", "current_timestamp", "null")
}

// rebuild makes a table anew and copies its rows: SQLite's own procedure for
// what ALTER TABLE cannot do. Foreign keys are off, so that nothing cascades,
// and names in other definitions stay as they are. Triggers of others are
// made again; indexes follow with their statements.
func (w *walk) rebuild(ctx context.Context, is, want *table) error {
	if w.orphans == nil {
		var err error
		if w.orphans, err = w.countOrphans(ctx); err != nil {
			return err
		}
	}
	triggers, err := w.triggersOn(ctx, is.name)
	if err != nil {
		return err
	}
	last, err := w.lastKey(ctx, is)
	if err != nil {
		return err
	}
	fresh := rebuiltName + want.name
	if err := w.do(ctx, "CREATE TABLE "+quote(fresh)+want.text[want.nameEnd:]); err != nil {
		return err
	}
	columns, err := w.shared(ctx, is, fresh)
	if err != nil {
		return err
	}
	steps := []string{"DROP TABLE " + quote(is.name), "ALTER TABLE " + quote(fresh) + " RENAME TO " + quote(want.name)}
	if len(columns) > 0 {
		list := strings.Join(columns, ", ")
		steps = append([]string{"INSERT INTO " + quote(fresh) + " (" + list + ") SELECT " + list + " FROM " + quote(is.name)}, steps...)
	}
	for _, step := range append(steps, triggers...) {
		if err := w.do(ctx, step); err != nil {
			return err
		}
	}
	for name, index := range w.current.indexes {
		if fold(index.table) == fold(is.name) {
			delete(w.current.indexes, name)
		}
	}
	return w.keepLastKey(ctx, want, last)
}

// triggersOn are the texts of all triggers on a table, whoever made them.
func (w *walk) triggersOn(ctx context.Context, table string) ([]string, error) {
	all, err := w.objects(ctx)
	var texts []string
	for _, one := range all {
		if one.kind == "trigger" && fold(one.table) == fold(table) {
			texts = append(texts, one.text)
		}
	}
	return texts, err
}

// shared are the columns to copy: stored in both tables, and the row id
// where no column stands for it.
func (w *walk) shared(ctx context.Context, is *table, fresh string) ([]string, error) {
	before, err := w.stored(ctx, is.name)
	if err != nil {
		return nil, err
	}
	after, err := w.stored(ctx, fresh)
	if err != nil {
		return nil, err
	}
	var columns []string
	hidden := true
	for _, name := range after {
		hidden = hidden && !slices.Contains([]string{"rowid", "oid", "_rowid_"}, fold(name))
		if slices.ContainsFunc(before, func(other string) bool { return fold(other) == fold(name) }) {
			columns = append(columns, quote(name))
		}
	}
	for _, name := range before {
		hidden = hidden && !slices.Contains([]string{"rowid", "oid", "_rowid_"}, fold(name))
	}
	for _, table := range []string{is.name, fresh} {
		plain, err := w.number(ctx, `SELECT NOT wr AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo($1) WHERE pk > 0 AND upper(type) = 'INTEGER') FROM pragma_table_list($1) WHERE schema = 'main'`, table)
		if err != nil {
			return nil, w.explain("looking at "+table, err)
		}
		hidden = hidden && plain == 1
	}
	if hidden && len(columns) > 0 {
		columns = append(columns, "rowid")
	}
	return columns, nil
}

func (w *walk) stored(ctx context.Context, table string) ([]string, error) {
	rows, err := w.conn.QueryContext(ctx, "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", table)
	if err != nil {
		return nil, w.explain("looking at the columns of "+table, err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, w.explain("looking at the columns of "+table, err)
		}
		names = append(names, name)
	}
	return names, w.explain("looking at the columns of "+table, rows.Err())
}

// lastKey is the highest key that AUTOINCREMENT ever gave, or -1.
func (w *walk) lastKey(ctx context.Context, is *table) (int64, error) {
	exists, err := w.number(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_sequence'")
	if err != nil || exists == 0 {
		return -1, w.explain("looking for the last key of "+is.name, err)
	}
	last, err := w.number(ctx, "SELECT seq FROM sqlite_sequence WHERE name = ?", is.name)
	if errors.Is(err, sql.ErrNoRows) {
		return -1, nil
	}
	return last, w.explain("looking for the last key of "+is.name, err)
}

// keepLastKey sees to it that no key is given twice.
func (w *walk) keepLastKey(ctx context.Context, want *table, last int64) error {
	if last < 0 || !strings.Contains(strings.ToLower(want.text), "autoincrement") {
		return nil
	}
	if err := w.do(ctx, "DELETE FROM sqlite_sequence WHERE name = ?", want.name); err != nil {
		return err
	}
	return w.do(ctx, "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", want.name, last)
}
