package liteschema

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"

	"modernc.org/sqlite"

	"lehr.dev/internal/ground/statement"
	"lehr.dev/plugins/sqlschema/database"
	"lehr.dev/sdk/serve"
)

// Engine is SQLite.
type Engine struct{}

var _ database.Engine = Engine{}

// limitAttached is SQLITE_LIMIT_ATTACHED.
const limitAttached = 7

// wanted runs the statements in a database in memory, that cannot reach any
// file, and reads what came of them.
func wanted(ctx context.Context, request database.Request) (*catalog, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, fmt.Errorf("opening a database in memory: %w", err)
	}
	db.SetMaxOpenConns(1)
	memory := &session{db: db, request: request, file: file{path: "memory"}}
	if memory.conn, err = db.Conn(ctx); err != nil {
		_ = db.Close() // the error says more
		return nil, fmt.Errorf("opening a database in memory: %w", err)
	}
	defer memory.close()
	if _, err := sqlite.Limit(memory.conn, limitAttached, 0); err != nil {
		return nil, fmt.Errorf("keeping a database in memory from files: %w", err)
	}
	for _, one := range request.Statements {
		if err := memory.run(ctx, one.Text); err != nil {
			return nil, serve.Errorf(serve.Invalid, "line %d of sql, CREATE %s %s: %w", one.Line, strings.ToUpper(string(one.Kind)), one.Name, err).
				WithHint("SQLite understands it so; mend the statement")
		}
	}
	objects, err := memory.objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range request.Statements {
		made := slices.ContainsFunc(objects, func(o object) bool { return o.kind == string(one.Kind) && fold(o.name) == fold(one.Name) })
		if !made || len(objects) != len(request.Statements) {
			return nil, serve.Errorf(serve.Invalid, "line %d of sql: %s %s is not what came of it", one.Line, one.Kind, one.Name).
				WithHint("write each statement once, plainly, and end it with a semicolon")
		}
	}
	return newCatalog(objects)
}

// objects are all of the database that have a text.
func (s *session) objects(ctx context.Context) ([]object, error) {
	rows, err := s.conn.QueryContext(ctx, "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
	if err != nil {
		return nil, s.explain("reading sqlite_schema", err)
	}
	defer rows.Close()
	var all []object
	for rows.Next() {
		var one object
		if err := rows.Scan(&one.kind, &one.name, &one.table, &one.text); err != nil {
			return nil, s.explain("reading sqlite_schema", err)
		}
		all = append(all, one)
	}
	return all, s.explain("reading sqlite_schema", rows.Err())
}

// current reads what is there of what is wanted: the declared tables with all
// their indexes, and the declared views and triggers.
func (s *session) current(ctx context.Context, want *catalog) (*catalog, error) {
	all, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	var ours []object
	for _, one := range all {
		_, isTable := want.tables[fold(one.name)]
		_, isView := want.views[fold(one.name)]
		_, onTable := want.tables[fold(one.table)]
		_, isTrigger := want.triggers[fold(one.table)+"."+fold(one.name)]
		kind := statement.Kind(one.kind)
		if (kind == statement.Table || kind == statement.View) && (isTable && kind != statement.Table || isView && kind != statement.View) {
			return nil, serve.Errorf(serve.Conflict, "%s: %s is a %s there", s.file.path, one.name, one.kind).
				WithHint("rename it, or choose another name in the sql; nothing of another kind is ever replaced")
		}
		if isTable && kind == statement.Table || isView && kind == statement.View || onTable && kind == statement.Index || isTrigger && kind == statement.Trigger {
			ours = append(ours, one)
		}
	}
	return newCatalog(ours)
}

// base changes with every change of the schema, for SQLite counts them, with
// every push, and with the file.
func (s *session) base(ctx context.Context) (string, error) {
	version, err := s.number(ctx, "PRAGMA schema_version")
	if err != nil {
		return "", s.explain("reading the schema's version", err)
	}
	all, err := s.records(ctx)
	push := "none"
	for _, one := range all {
		if one.asset == s.request.Asset {
			push = one.push
		}
	}
	return fmt.Sprintf("push %s, schema %d, file %s", push, version, s.file.identity), err
}

// Look reads the schema, in one read transaction.
func (Engine) Look(ctx context.Context, request database.Request) (database.Sight, error) {
	want, err := wanted(ctx, request)
	if err != nil {
		return database.Sight{}, err
	}
	s, err := open(ctx, request, false)
	if err != nil {
		return database.Sight{}, err
	}
	defer s.close()
	machine, err := machineName()
	if err != nil {
		return database.Sight{}, err
	}
	if err := s.run(ctx, "BEGIN"); err != nil {
		return database.Sight{}, s.explain("beginning to read", err)
	}
	sight, err := s.look(ctx, want)
	sight.Instance = "sqlite:" + machine + s.file.real
	return sight, err
}

func (s *session) look(ctx context.Context, want *catalog) (sight database.Sight, err error) {
	if sight.Base, err = s.base(ctx); err != nil {
		return sight, err
	}
	if sight.Wanted, err = want.words(); err != nil {
		return sight, err
	}
	current, err := s.current(ctx, want)
	if err != nil {
		return sight, err
	}
	if sight.Current, err = current.words(); err != nil {
		return sight, err
	}
	record, err := s.claimed(ctx, sight.Wanted)
	if err != nil {
		return sight, err
	}
	if record != nil {
		sight.Recorded, sight.Version = true, record.version
		sight.Current[database.Managed] = record.objects
	}
	sight.Rows = map[string]bool{}
	for name, t := range current.tables {
		has, err := s.number(ctx, "SELECT EXISTS (SELECT 1 FROM "+quote(t.name)+")")
		if err != nil {
			return sight, s.explain("looking for rows of "+t.name, err)
		}
		sight.Rows[name] = has == 1
	}
	return sight, nil
}

// machineName is what tells this machine from others.
func machineName() (string, error) {
	if id, err := os.ReadFile("/etc/machine-id"); err == nil && len(strings.TrimSpace(string(id))) > 0 {
		return strings.TrimSpace(string(id)), nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("naming this machine: neither /etc/machine-id nor a host name is to be had: %w", err)
	}
	return name, nil
}
