package fetch

import (
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/test/freeport"
	"lehr.dev/test/pgserver"
)

// database is one whose rows a query finds.
type database interface {
	execute(statement string)
	source(r *reader) source.SQL
}

type sqliteFile struct {
	testing.TB
	path string
	db   *sql.DB
}

func newSQLite(t testing.TB) *sqliteFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop's 100%.db")
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path}).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &sqliteFile{t, path, db}
}

func (f *sqliteFile) execute(statement string) {
	f.Helper()
	if _, err := f.db.Exec(statement); err != nil {
		f.Fatal(err)
	}
}

func (f *sqliteFile) source(*reader) source.SQL { return source.SQL{SQLite: f.path} }

type postgresDatabase struct {
	testing.TB
	server *pgserver.Server
	owner  string
	url    string
}

// newPostgres is one that sources read as a user without rights of its own.
func newPostgres(t testing.TB) *postgresDatabase {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a database")
	}
	server := pgserver.New(t)
	server.Start()
	owner := server.Database()
	d := &postgresDatabase{TB: t, server: server, owner: owner}
	d.execute("CREATE ROLE reader LOGIN PASSWORD 'p4ssw0rd-of-the-reader'")
	parsed, err := url.Parse(owner)
	if err != nil {
		t.Fatal(err)
	}
	d.execute("GRANT USAGE ON SCHEMA " + parsed.Query().Get("search_path") + " TO reader")
	parsed.User = url.UserPassword("reader", "p4ssw0rd-of-the-reader")
	d.url = parsed.String()
	return d
}

func (d *postgresDatabase) execute(statement string) {
	d.Helper()
	d.server.Execute(d.owner, statement)
}

func (d *postgresDatabase) source(r *reader) source.SQL {
	return source.SQL{DSN: r.allow("SHOP_DSN", d.url)}
}

// both runs a test on both kinds of database, with a table that has two rows.
func both(t *testing.T, test func(t *testing.T, d database)) {
	for name, open := range map[string]func() database{"sqlite": func() database { return newSQLite(t) }, "postgres": func() database { return newPostgres(t) }} {
		t.Run(name, func(t *testing.T) {
			if name == "postgres" {
				d := newPostgres(t)
				d.execute("CREATE TABLE shop (name text, size bigint)")
				d.execute("INSERT INTO shop VALUES ('a', 1), ('b', 9007199254740993)")
				d.execute("GRANT SELECT ON shop TO reader")
				test(t, d)
				return
			}
			d := open()
			d.execute("CREATE TABLE shop (name text, size bigint)")
			d.execute("INSERT INTO shop VALUES ('a', 1), ('b', 9007199254740993)")
			test(t, d)
		})
	}
}

func asking(r *reader, d database, change func(*source.SQL)) source.Remote {
	of := d.source(r)
	of.Query, of.File = "SELECT name, size FROM shop ORDER BY name", "shop.json"
	if change != nil {
		change(&of)
	}
	return source.Remote{SQL: &of}
}

func TestSQLIsFollowed(t *testing.T) {
	both(t, func(t *testing.T, d database) {
		r := newReader(t, source.Remote{}, "shop.json")
		r.remote = asking(r, d, nil)
		first := r.holds(map[string]string{"shop.json": "[\n  {\n    \"name\": \"a\",\n    \"size\": 1\n  },\n  {\n    \"name\": \"b\",\n    \"size\": 9007199254740993\n  }\n]\n"})
		if again, _, _ := r.read(); again == nil || r.folder.snapshot != first {
			t.Error("what did not change is another snapshot")
		}
		d.execute("DELETE FROM shop WHERE name = 'b'")
		one := map[string]string{"shop.json": "[\n  {\n    \"name\": \"a\",\n    \"size\": 1\n  }\n]\n"}
		r.holds(one)
		// No rows are no answer.
		d.execute("DELETE FROM shop")
		r.stays(one, "finds no rows")
		r.restart(true)
		r.stays(one, "finds no rows")
		fresh := newReader(t, source.Remote{}, "shop.json")
		fresh.remote = asking(fresh, d, nil)
		fresh.refuses(fault.Unavailable, "finds no rows")
		none := newReader(t, source.Remote{}, "shop.json")
		none.remote = asking(none, d, func(s *source.SQL) { s.Empty = true })
		none.holds(map[string]string{"shop.json": "[]\n"})
	})
}

func TestSQLRows(t *testing.T) {
	both(t, func(t *testing.T, d database) {
		r := newReader(t, source.Remote{}, "*.json")
		r.remote = asking(r, d, func(s *source.SQL) { s.File, s.Rows = "", "name" })
		r.holds(map[string]string{"a.json": "{\n  \"name\": \"a\",\n  \"size\": 1\n}\n", "b.json": "{\n  \"name\": \"b\",\n  \"size\": 9007199254740993\n}\n"})
		all, _, _ := r.read()
		for name, c := range map[string]struct{ statement, undo, says string }{
			"path":    {"INSERT INTO shop VALUES ('../c', 1)", "DELETE FROM shop WHERE name = '../c'", "names no file"},
			"hidden":  {"INSERT INTO shop VALUES ('.c', 1)", "DELETE FROM shop WHERE name = '.c'", "names no file"},
			"nothing": {"INSERT INTO shop VALUES (NULL, 1)", "DELETE FROM shop WHERE name IS NULL", "names no file"},
			"twice":   {"INSERT INTO shop VALUES ('a', 2)", "DELETE FROM shop WHERE name = 'a' AND size = 2", "two rows whose name"},
			"none":    {"CREATE TABLE copy AS SELECT * FROM shop; DELETE FROM shop", "INSERT INTO shop SELECT * FROM copy; DROP TABLE copy", "finds no rows"},
		} {
			for statement := range strings.SplitSeq(c.statement, "; ") {
				d.execute(statement)
			}
			r.stays(all, c.says)
			for statement := range strings.SplitSeq(c.undo, "; ") {
				d.execute(statement)
			}
			if found, _, err := r.read(); err != nil || len(found) != 2 {
				t.Errorf("%s: %v: %v", name, found, err)
			}
		}
		d.execute("DELETE FROM shop")
		none := newReader(t, source.Remote{}, "*.json")
		none.remote = asking(none, d, func(s *source.SQL) { s.File, s.Rows, s.Empty = "", "name", true })
		none.holds(map[string]string{})
		r.remote = asking(r, d, func(s *source.SQL) { s.File, s.Rows = "", "nothing" })
		r.folder = nil
		if _, _, err := r.read(); err == nil {
			t.Error("a column that is not there names files")
		}
	})
}

// A query only reads, one statement, no more than its limits.
func TestHostileQueries(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made.db")
	both(t, func(t *testing.T, d database) {
		r := newReader(t, source.Remote{}, "shop.json")
		r.limits.FileBytes = 10_000
		for _, query := range []string{
			"DELETE FROM shop RETURNING name", "SELECT 1; DROP TABLE shop", "SELECT 1) AS x; DELETE FROM shop; SELECT * FROM (SELECT 1",
			"ATTACH DATABASE '" + made + "' AS other", "SELECT 1); VACUUM INTO '" + made + "'; SELECT * FROM (SELECT 1", "VACUUM INTO '" + made + "'",
			"SELECT 'a' || \";\" FROM shop; DELETE FROM shop --", "/* */ DELETE FROM shop", "SELECT nothing FROM nowhere", "PRAGMA journal_mode=DELETE", "SELEC",
			"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
			"WITH gone AS (DELETE FROM shop RETURNING name) SELECT * FROM gone", "COPY shop TO PROGRAM 'touch " + made + "'",
		} {
			r.remote = asking(r, d, func(s *source.SQL) { s.Query = query })
			r.folder = nil
			if found, _, err := r.read(); err == nil {
				t.Errorf("%s finds %v", query, found)
			}
			if _, err := os.Stat(made); err == nil {
				t.Fatalf("%s made a file", query)
			}
		}
		r.remote = asking(r, d, nil)
		r.folder = nil
		if found, _, err := r.read(); err != nil || !strings.Contains(found["shop.json"], "9007199254740993") {
			t.Errorf("the rows are %v: %v", found, err)
		}
	})
}

// A right that was revoked, a password that changed and a server that is down
// leave the source as it was, and tell no password.
func TestPostgresThatFails(t *testing.T) {
	d := newPostgres(t)
	d.execute("CREATE TABLE shop (name text, size bigint)")
	d.execute("INSERT INTO shop VALUES ('a', 1)")
	d.execute("GRANT SELECT ON shop TO reader")
	r := newReader(t, source.Remote{}, "shop.json")
	r.remote = asking(r, d, nil)
	found, _, err := r.read()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		harm, mend func()
		says       string
	}{
		{func() { d.execute("REVOKE SELECT ON shop FROM reader") }, func() { d.execute("GRANT SELECT ON shop TO reader") }, "permission denied"},
		{func() { d.execute("ALTER TABLE shop ENABLE ROW LEVEL SECURITY") }, func() { d.execute("ALTER TABLE shop DISABLE ROW LEVEL SECURITY") }, "finds no rows"},
		{func() { d.execute("ALTER ROLE reader NOLOGIN") }, func() { d.execute("ALTER ROLE reader LOGIN") }, "not permitted to log in"},
		{func() { t.Setenv("SHOP_DSN", "postgres://reader:p4ssw0rd-of-the-reader@"+freeport.Address(t)+"/x") }, func() { t.Setenv("SHOP_DSN", d.url) }, "no connection"},
		{func() { t.Setenv("SHOP_DSN", "reader:p4ssw0rd-of-the-reader is nonsense") }, func() { t.Setenv("SHOP_DSN", d.url) }, "holds no address"},
		{func() { d.server.Crash() }, func() { d.server.Start() }, "no connection"},
	} {
		c.harm()
		r.stays(found, c.says)
		if reason := r.folder.Failing().Reason; strings.Contains(reason, "p4ssw0rd") {
			t.Errorf("the password shows: %s", reason)
		}
		c.mend()
		r.holds(found)
	}
}

// TestSQLThatTheDatabaseRefuses: it is the query that is wrong, and that is told, with
// what may be done, rather than that it is tried again.
func TestSQLThatTheDatabaseRefuses(t *testing.T) {
	both(t, func(t *testing.T, d database) {
		for query, want := range map[string]string{
			"SELEC name FROM shop":     "the database refuses the query of ",
			"SELECT nmae FROM shop":    "nmae",
			"DELETE FROM shop":         "the database refuses the query of ",
			"SELECT name FROM no_shop": "no_shop",
		} {
			r := newReader(t, source.Remote{}, "shop.json")
			r.remote = asking(r, d, func(s *source.SQL) { s.Query = query })
			r.refuses(fault.Invalid, want)
		}
		r := newReader(t, source.Remote{}, "shop.json")
		r.remote = asking(r, d, func(s *source.SQL) { s.Rows = "nmae" })
		r.refuses(fault.Invalid, "nmae")
	})
}
