package databases

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files/lite"
	"lehr.dev/internal/importer"
)

func readSQLite(ctx context.Context, args []string) (importer.Import, error) {
	path, err := filepath.Abs(strings.TrimPrefix(args[0], "sqlite:"))
	if err != nil {
		return importer.Import{}, fault.New(fault.Invalid, "%q: %w", args[0], err)
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return importer.Import{}, fault.New(fault.NotFound, "there is no SQLite file at %s", path).WithHint("name one that is there: lehr import sqlite FILE --to FOLDER")
	}
	// immutable would read past a log that another process has.
	db, err := lite.Open(path, nil, "busy_timeout(5000)")
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return importer.Import{}, err
	}
	if err != nil {
		return importer.Import{}, fault.New(fault.Unavailable, "opening %s: %w", path, err)
	}
	defer db.Close()
	f := contents{}
	if err := f.readMaster(ctx, db); err != nil {
		return importer.Import{}, canceled(ctx, fault.New(fault.Unavailable, "reading the schema of %s: %w", path, err).WithHint("is it an SQLite file, and may you read it?"))
	}
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	return f.write("SQLite file "+path, "schema/"+segment(name), field("database", "sqlite:"+path))
}

func (f *contents) readMaster(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT m.type, m.name, m.tbl_name, coalesce(m.sql, ''), coalesce(l.type, '')
		FROM sqlite_schema m LEFT JOIN pragma_table_list l ON l.schema = 'main' AND l.name = m.tbl_name AND m.type = 'table'
		ORDER BY CASE m.type WHEN 'table' THEN 1 WHEN 'index' THEN 2 WHEN 'view' THEN 3 ELSE 4 END, m.rowid`)
	if err != nil {
		return err
	}
	defer rows.Close()
	skipped := map[string]bool{}
	for rows.Next() {
		var kind, name, table, text, listed string
		if err := rows.Scan(&kind, &name, &table, &text, &listed); err != nil {
			return err
		}
		switch {
		case text == "", strings.HasPrefix(name, "sqlite_"): // SQLite's own: of a constraint, or counters.
		case strings.HasPrefix(strings.ToLower(table), reserved), skipped[table]:
		case listed == "virtual":
			skipped[table] = true
			f.leave("table "+name, "virtual tables are not managed; it stays as it is")
		case listed == "shadow":
			skipped[table] = true // Of the virtual one.
		default:
			f.statements = append(f.statements, statement{kind, name, text})
		}
	}
	return rows.Err()
}

// segment is a name as a part of an asset id.
func segment(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || b.Len() > 0 && strings.ContainsRune("._-", r) {
			b.WriteRune(r)
		} else if b.Len() > 0 {
			b.WriteByte('-')
		}
	}
	if b.Len() == 0 {
		return "main"
	}
	return b.String()[:min(b.Len(), 100)]
}
