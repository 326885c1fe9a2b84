package statement

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStatementsEndWhereTheyEnd(t *testing.T) {
	for name, test := range map[string]struct {
		dialect Dialect
		sql     string
		want    []string
	}{
		"semicolons in strings, names and comments": {SQLite, `CREATE TABLE "a;b" (x TEXT DEFAULT ';' /* ; */); -- ;
			CREATE TABLE [c;d] (y TEXT DEFAULT 'it''s;')`, []string{"a;b", "c;d"}},
		"dollar quotes":            {PostgreSQL, `CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $x$ SELECT 1; -- $$ ; $x$; CREATE TABLE t (id int)`, []string{"f", "t"}},
		"nested comments":          {PostgreSQL, "CREATE TABLE t (/* a /* b; */ c; */ id int); CREATE TABLE u (id int)", []string{"t", "u"}},
		"comments do not nest":     {SQLite, "CREATE TABLE t (/* a /* b; */ id int); CREATE TABLE u (id int)", []string{"t", "u"}},
		"a trigger's body":         {SQLite, "CREATE TABLE t (id int); CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT CASE WHEN 1 THEN 2 END; DELETE FROM t; END; CREATE TABLE u (id int)", []string{"t", "g", "u"}},
		"a function's body":        {PostgreSQL, "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END; CREATE TABLE u (id int)", []string{"f", "u"}},
		"an escaped quote":         {PostgreSQL, `CREATE TABLE t (a text DEFAULT E'\';'); CREATE TABLE u (a text DEFAULT '\')`, []string{"t", "u"}},
		"parameters are no quotes": {PostgreSQL, "CREATE FUNCTION f(int) RETURNS int LANGUAGE sql AS 'SELECT $1'; CREATE TABLE u (a$b int)", []string{"f", "u"}},
		"names are folded":         {PostgreSQL, `CREATE TABLE Plays (id int); CREATE TABLE "Plays" (id int)`, []string{"plays", "Plays"}},
	} {
		t.Run(name, func(t *testing.T) {
			statements, err := Parse(test.dialect, test.sql)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, one := range statements {
				got = append(got, one.Name)
			}
			if strings.Join(got, "|") != strings.Join(test.want, "|") {
				t.Errorf("it declares %q, want %q", got, test.want)
			}
		})
	}
}

// Each is refused in the given line, with what to do.
func TestWhatIsNoDeclarationIsRefused(t *testing.T) {
	const table = "CREATE TABLE t (id int);\n"
	for sql, want := range map[string]string{
		"":                                             "declares nothing",
		"-- only a comment":                            "declares nothing",
		"DROP TABLE t":                                 "Turndown",
		"/* hidden */ DROP TABLE t":                    "DROP is not a declaration",
		"--\rDROP\nDROP TABLE t":                       "DROP is not a declaration",
		"ALTER TABLE t ADD x int":                      "the plugin finds the steps",
		"INSERT INTO t VALUES (1)":                     "data are not part",
		"COPY t FROM '/etc/passwd'":                    "data are not part",
		"SET search_path = x":                          "settings",
		"BEGIN":                                        "one transaction",
		"COMMIT":                                       "one transaction",
		"ATTACH 'x' AS y":                              "one database",
		"PRAGMA foreign_keys = 0":                      "its owner's",
		"DO $$ BEGIN END $$":                           "code that runs once",
		"CREATE EXTENSION hstore":                      "installed by the database's owner",
		"CREATE TEMP TABLE x (a int)":                  "end with the connection",
		"CREATE MATERIALIZED VIEW v AS SELECT 1":       "hold data",
		"CREATE TABLE x AS SELECT 1":                   "no list of columns",
		"CREATE TABLE x (a) AS SELECT 1":               "made by a query",
		"CREATE TABLE x PARTITION OF t DEFAULT":        "no list of columns",
		"CREATE TABLE x (a int) PARTITION BY LIST (a)": "partitions",
		"CREATE TABLE x () INHERITS (t)":               "inheritance",
		"CREATE TABLE public.x (a int)":                "named with a schema",
		"CREATE TABLE x (a int REFERENCES other.y)":    "named with a schema",
		"CREATE INDEX CONCURRENTLY i ON t (id)":        "cannot be part of a transaction",
		"CREATE INDEX ON t (id)":                       "without a name",
		"CREATE INDEX i ON u (id)":                     "does not declare",
		"CREATE TRIGGER g AFTER INSERT ON u EXECUTE FUNCTION f()": "does not declare",
		"CREATE TABLE t (id int)":                                 "declared in line 1 already",
		"CREATE TABLE lehr_x (id int)":                            "the plugin's own",
		"GRANT admin TO bob":                                      "membership",
		"GRANT ALL ON SCHEMA public TO bob":                       "not managed",
		"GRANT SELECT ON ALL TABLES IN SCHEMA x TO bob":           "not managed",
		"GRANT SELECT ON u TO bob":                                "does not declare",
		"CREATE TABLE x (a text DEFAULT 'open":                    "does not end",
		`CREATE TABLE "x (a text)`:                                "does not end",
		"CREATE FUNCTION f() AS $a$ $b$":                          "does not end",
		"CREATE TABLE x (a int) /* open":                          "does not end",
		`\! rm -rf /`:                                             "psql",
		"CREATE TABLE x (a\x00 int)":                              "NUL",
		"SELECT 1":                                                "CREATE VIEW",
		"; ; 7":                                                   "only CREATE",
	} {
		text, line := table+sql, 2
		if sql == "" || sql == "-- only a comment" {
			text, line = sql, 1
		}
		if strings.Contains(sql, "\n") {
			line++
		}
		_, err := Parse(PostgreSQL, text)
		at, ok := errors.AsType[*Error](err)
		if !ok || at.Line != line || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want line %d and %q", sql, err, line, want)
		}
	}
	for sql, want := range map[string]string{
		"CREATE VIRTUAL TABLE v USING fts5(x)":                   "virtual",
		"CREATE FUNCTION f() AS ''":                              "not managed",
		"CREATE TABLE t (id int); GRANT SELECT ON t TO bob":      "no roles",
		"CREATE TABLE main.t (id int)":                           "named with a schema",
		"CREATE TABLE 't' (id int)":                              "name of the table is missing",
		"CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN SELECT 1": "end with the connection",
	} {
		if _, err := Parse(SQLite, sql); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", sql, err, want)
		}
	}
}

func TestHostileTextIsReadInTime(t *testing.T) {
	for name, sql := range map[string]string{
		"ten megabytes":      strings.Repeat("CREATE TABLE t (id int);", 10<<20/24),
		"many statements":    strings.Repeat("CREATE TABLE t();\n", MaxStatements+5),
		"open comments":      strings.Repeat("/*", MaxBytes/2),
		"dollars":            strings.Repeat("$", MaxBytes),
		"different tags":     strings.Repeat("$a", MaxBytes/2),
		"quotes":             strings.Repeat(`"`, MaxBytes),
		"words":              strings.Repeat("create ", MaxBytes/8),
		"triggers in no end": "CREATE TRIGGER g ON t BEGIN " + strings.Repeat("END;", MaxBytes/5),
	} {
		for _, dialect := range []Dialect{SQLite, PostgreSQL} {
			begin := time.Now()
			if _, err := Parse(dialect, sql); err == nil {
				t.Errorf("%s was accepted", name)
			}
			// Not a measurement: what is quadratic takes minutes here.
			if spent := time.Since(begin); spent > 20*time.Second {
				t.Errorf("%s took %s", name, spent)
			}
		}
	}
}

// TestForeignFiles reads the SQL that PostgreSQL installs itself from: it is
// read to the end, and between two tokens there is only space and comments.
func TestForeignFiles(t *testing.T) {
	files, err := filepath.Glob("/usr/share/postgresql/*/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no PostgreSQL to read the files of (apt-get install postgresql)")
		}
		t.Skip("there is no PostgreSQL to read the files of (apt-get install postgresql)")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := Scan(PostgreSQL, string(text))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		end := 0
		for _, token := range tokens {
			between := strings.TrimSpace(string(text[end:token.Start]))
			if between != "" && !strings.HasPrefix(between, "--") && !strings.HasPrefix(between, "/*") {
				t.Fatalf("%s: line %d: %q was left out", file, token.Line, between)
			}
			end = token.End
		}
		if parts := Split(tokens); len(tokens) > 0 && len(parts) < strings.Count(string(text), "\nCREATE ") {
			t.Errorf("%s: %d statements are fewer than it has lines with CREATE", file, len(parts))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("CREATE TABLE t (id int); -- x\nCREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END;", true)
	f.Add("CREATE FUNCTION f() RETURNS int AS $a$ ; $a$ LANGUAGE sql; GRANT SELECT (a, b) ON t, u TO x", false)
	f.Add("CREATE TABLE [a", true)
	f.Fuzz(func(t *testing.T, sql string, lite bool) {
		dialect := PostgreSQL
		if lite {
			dialect = SQLite
		}
		statements, err := Parse(dialect, sql)
		if err != nil {
			return
		}
		for _, one := range statements {
			// A statement read alone is the same statement.
			again, err := Scan(dialect, one.Text)
			if err != nil || len(again) != len(one.Tokens) {
				t.Fatalf("%q: %d tokens, alone %d (%v)", one.Text, len(one.Tokens), len(again), err)
			}
		}
	})
}
