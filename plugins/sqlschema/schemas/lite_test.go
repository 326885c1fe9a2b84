package schemas

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/internal/ground/files"
	"lehr.dev/sdk/serve"
)

// library is made anew by nearly every change.
const library = `
CREATE TABLE authors (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL COLLATE NOCASE UNIQUE);
CREATE TABLE books (
	id INTEGER PRIMARY KEY,
	author INTEGER NOT NULL REFERENCES authors (id) ON DELETE CASCADE,
	title TEXT DEFAULT 'un;titled' CHECK (length(title) > 0),
	shout TEXT GENERATED ALWAYS AS (upper(title)) VIRTUAL
) STRICT;
CREATE TABLE tags (book INTEGER, tag TEXT, PRIMARY KEY (book, tag)) WITHOUT ROWID;
CREATE INDEX books_title ON books (title COLLATE NOCASE DESC) WHERE title IS NOT NULL;
CREATE VIEW shelf AS SELECT name, title FROM authors JOIN books ON author = authors.id;
CREATE TRIGGER books_tag AFTER INSERT ON books BEGIN
	INSERT INTO tags SELECT new.id, CASE WHEN new.title IS NULL THEN 'none' ELSE 'new' END;
END;
CREATE TRIGGER shelf_add INSTEAD OF INSERT ON shelf BEGIN INSERT INTO authors (name) VALUES (new.name); END;
`

func TestMakingATableAnewLosesNothing(t *testing.T) {
	g := newLite(t)
	g.push(t, g.schema(library))
	// Somebody else's trigger, view and table hang on the managed ones.
	g.exec(t, `CREATE TABLE log (what TEXT);
		CREATE TRIGGER foreign_log AFTER UPDATE ON authors BEGIN INSERT INTO log VALUES (new.name); END;
		CREATE VIEW foreign_names AS SELECT name FROM authors;
		CREATE TRIGGER foreign_shelf INSTEAD OF DELETE ON shelf BEGIN INSERT INTO log VALUES ('kept'); END;
		CREATE TABLE reviews (book INTEGER REFERENCES books (id) ON DELETE CASCADE, stars INTEGER)`)
	g.exec(t, `INSERT INTO authors (name) VALUES ('Ann'), ('Bob'), ('Cyd'); DELETE FROM authors WHERE name = 'Cyd';
		INSERT INTO books (id, author, title) VALUES (1, 1, 'one'), (2, 2, 'two'); INSERT INTO reviews VALUES (1, 5)`)
	before := g.query(t, "SELECT * FROM shelf") + g.query(t, "SELECT * FROM tags") + g.query(t, "SELECT * FROM reviews") + g.query(t, "SELECT shout FROM books")
	for name, step := range map[string]struct{ from, to, want string }{
		"a check":              {"length(title) > 0", "length(title) > 1", "column books.title"},
		"a collation":          {"COLLATE NOCASE UNIQUE", "COLLATE BINARY UNIQUE", "column authors.name"},
		"strict":               {") STRICT", ")", "table books"},
		"without rowid":        {"(book, tag)) WITHOUT ROWID", "(book, tag))", "table tags"},
		"on delete":            {"ON DELETE CASCADE", "ON DELETE RESTRICT", "column books.author"},
		"a column, not null":   {"name TEXT NOT NULL", "born INTEGER NOT NULL DEFAULT (1 + 1), name TEXT NOT NULL", "column authors.born"},
		"a default":            {"'un;titled'", "'nameless'", "column books.title"},
		"a computed column":    {"upper(title)", "lower(title)", "column books.shout"},
		"an index":             {"COLLATE NOCASE DESC", "ASC", "index books_title"},
		"a view":               {"SELECT name, title FROM", "SELECT name, title, shout FROM", "view shelf"},
		"a trigger":            {"'none'", "'nothing'", "trigger books.books_tag"},
		"a unique constraint":  {"shout TEXT", "CONSTRAINT one UNIQUE (author, title), shout TEXT", "constraint books.one"},
		"autoincrement itself": {" AUTOINCREMENT", "", "column authors.id"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(library, step.from, step.to, 1)
			if name == "a unique constraint" { // constraints come last
				changed = strings.Replace(library, "VIRTUAL\n)", "VIRTUAL,\n\tCONSTRAINT one UNIQUE (author, title)\n)", 1)
			}
			if got := objects(g.push(t, g.schema(changed))); !strings.Contains(got, step.want) {
				t.Errorf("the plan says\n%s\nwant %s", got, step.want)
			}
			g.push(t, g.schema(library))
			after := g.query(t, "SELECT name, title FROM shelf") + g.query(t, "SELECT * FROM tags") + g.query(t, "SELECT * FROM reviews") + g.query(t, "SELECT shout FROM books")
			if after != before {
				t.Errorf("the rows were\n%s\nand are\n%s", before, after)
			}
		})
	}
	g.exec(t, "UPDATE authors SET name = 'Ada' WHERE id = 1; INSERT INTO books (id, author, title) VALUES (3, 1, 'three')")
	if got := g.query(t, "SELECT what FROM log") + " " + g.query(t, "SELECT tag FROM tags WHERE book = 3") + " " + g.query(t, "SELECT count(*) FROM foreign_names"); got != "Ada new 2" {
		t.Errorf("triggers and views answer %q", got)
	}
	g.exec(t, "DELETE FROM shelf WHERE title = 'one'")
	if got := g.query(t, "SELECT what FROM log"); got != "Ada|kept" {
		t.Errorf("the log says %q", got)
	}
	g.exec(t, "DELETE FROM books WHERE id = 1")
	if got := g.query(t, "SELECT count(*) FROM reviews"); got != "0" {
		t.Error("a foreign table's foreign key was cut")
	}
	if got := g.query(t, "PRAGMA integrity_check"); got != "ok" {
		t.Errorf("the integrity check says %q", got)
	}
}

func TestKeysAreNotGivenTwice(t *testing.T) {
	g := newLite(t)
	g.push(t, g.schema("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT)"))
	g.exec(t, "INSERT INTO t (a) VALUES ('x'), ('y'); DELETE FROM t WHERE id = 2")
	g.push(t, g.schema("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT CHECK (a <> ''))"))
	g.exec(t, "INSERT INTO t (a) VALUES ('z')")
	if got := g.query(t, "SELECT max(id) FROM t"); got != "3" {
		t.Errorf("the next key is %s", got)
	}
	g.push(t, g.schema("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT CHECK (a <> '-'))"))
	// Hidden row ids stay as well.
	g.push(t, g.schema("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT CHECK (a <> '-')); CREATE TABLE h (a TEXT)"))
	g.exec(t, "INSERT INTO h (rowid, a) VALUES (70, 'x')")
	g.push(t, g.schema("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT CHECK (a <> '-')); CREATE TABLE h (a TEXT NOT NULL)"))
	if got := g.query(t, "SELECT rowid FROM h"); got != "70" {
		t.Errorf("the row id is %s", got)
	}
}

func TestWhatWorkedStillWorks(t *testing.T) {
	for name, test := range map[string]struct{ foreign, want string }{
		"a foreign view":    {"CREATE VIEW f AS SELECT b FROM t", "view f"},
		"a foreign trigger": {"CREATE TABLE o (x); CREATE TRIGGER f AFTER INSERT ON o BEGIN INSERT INTO t (b) VALUES (1); END", "triggers of o"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newLite(t)
			g.push(t, g.schema("CREATE TABLE t (a INTEGER, b INTEGER)"))
			g.exec(t, test.foreign)
			schema := g.schema("CREATE TABLE t (a INTEGER)")
			d := g.diff(t, schema)
			outcome := g.try(t, schema, d, allowed{})
			if outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, test.want) {
				t.Fatalf("the push ended as %+v", outcome)
			}
			if after := g.diff(t, schema); changes(after) != changes(d) {
				t.Errorf("something was changed:\n%s", changes(after))
			}
		})
	}
}

func TestRowsDoNotLoseTheirParents(t *testing.T) {
	g := newLite(t)
	g.push(t, g.schema("CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE t (p INTEGER)"))
	g.exec(t, "INSERT INTO t VALUES (7)")
	schema := g.schema("CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE t (p INTEGER REFERENCES p (id))")
	outcome := g.try(t, schema, g.diff(t, schema), allowed{})
	if outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "rows that are not there") {
		t.Fatalf("the push ended as %+v", outcome)
	}
	g.exec(t, "INSERT INTO p VALUES (7)")
	g.push(t, schema)
}

func TestALockedFileIsTriedAgain(t *testing.T) {
	g := newLite(t)
	g.push(t, g.schema("CREATE TABLE t (a INTEGER)"))
	schema := g.schema("CREATE TABLE t (a INTEGER, b INTEGER)")
	schema.LockTimeout = durationpb.New(20 * time.Millisecond)
	d := g.diff(t, schema)
	g.exec(t, "BEGIN EXCLUSIVE")
	outcome := g.try(t, schema, d, allowed{})
	if outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, "lock_timeout") {
		t.Fatalf("the push ended as %+v", outcome)
	}
	g.exec(t, "COMMIT; BEGIN IMMEDIATE")
	outcome = g.try(t, schema, d, allowed{})
	if outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, "lock_timeout") {
		t.Fatalf("the push ended as %+v", outcome)
	}
	g.exec(t, "COMMIT")
	g.push(t, schema)
}

func TestWriteAheadLog(t *testing.T) {
	g := newLite(t)
	g.exec(t, "PRAGMA journal_mode = WAL")
	g.push(t, g.schema(library))
	g.exec(t, "INSERT INTO authors (name) VALUES ('Ann')")
	g.push(t, g.schema(strings.Replace(library, "length(title) > 0", "length(title) > 1", 1)))
	if got := g.query(t, "PRAGMA journal_mode"); got != "wal" {
		t.Errorf("the journal's mode is %s", got)
	}
}

func TestTroublesOfFiles(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return "sqlite:" + path
	}
	const table = "CREATE TABLE t (id INTEGER)"
	for name, trouble := range map[string]struct {
		schema *sqlschemapb.Schema
		want   string
	}{
		"no file":          {&sqlschemapb.Schema{Database: "sqlite:" + folder + "/none.db", Sql: table}, "touch "},
		"a folder":         {&sqlschemapb.Schema{Database: "sqlite:" + folder, Sql: table}, "is not a file"},
		"no database":      {&sqlschemapb.Schema{Database: write("text.db", strings.Repeat("no database at all. ", 100)), Sql: table}, "not an SQLite database"},
		"a relative path":  {&sqlschemapb.Schema{Database: "sqlite:x.db", Sql: table}, "sqlite:/absolute/path.db"},
		"a schema":         {&sqlschemapb.Schema{Database: write("a.db", ""), Schema: "public", Sql: table}, "no schemas"},
		"another engine":   {&sqlschemapb.Schema{Database: "mysql://x", Sql: table}, "neither"},
		"unknown function": {&sqlschemapb.Schema{Database: write("b.db", ""), Sql: "CREATE TABLE t (id INTEGER, CHECK (nonsense(id)));"}, "nonsense"},
		"deep nesting":     {&sqlschemapb.Schema{Database: write("c.db", ""), Sql: "CREATE TABLE t (a CHECK (" + strings.Repeat("(", 100_000)}, "line 1 of sql"},
		"many columns":     {&sqlschemapb.Schema{Database: write("d.db", ""), Sql: "CREATE TABLE t (a" + strings.Repeat(", a", 50_000) + ")"}, "line 1 of sql"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &ground{name: "sqlite"}
			if reason := g.refused(t, trouble.schema); !strings.Contains(reason, trouble.want) || len(reason) > 1<<20 {
				t.Errorf("the answer is %.300q, want %q", reason, trouble.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(folder, "none.db")); err == nil {
		t.Error("looking made a file")
	}
}

func TestLookingLeavesTheFileAsItIs(t *testing.T) {
	g := newLite(t)
	g.push(t, g.schema(library))
	path := strings.TrimPrefix(g.url, "sqlite:")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g.diff(t, g.schema(strings.Replace(library, "COLLATE NOCASE UNIQUE", "", 1)))
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Errorf("looking wrote to the file (%v)", err)
	}
}

// TestAStoreIsNoDatabaseToKeep: by no name that leads to it.
func TestAStoreIsNoDatabaseToKeep(t *testing.T) {
	g := newLite(t)
	store := strings.TrimPrefix(g.url, "sqlite:")
	defer files.Guard([]string{store}, nil)()
	soft, hard := filepath.Join(t.TempDir(), "soft.db"), filepath.Join(filepath.Dir(filepath.Dir(store)), "hard.db")
	if err := os.Symlink(store, soft); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(store, hard); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{store, soft, hard, "/proc/self/root" + store} {
		g.url = "sqlite:" + path
		if reason := g.refused(t, g.schema("CREATE TABLE t (id int)")); !strings.Contains(reason, "a file of Lehr's own") {
			t.Errorf("%s: %s", path, reason)
		}
	}
}
