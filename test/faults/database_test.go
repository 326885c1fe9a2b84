package faults

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/test/pgserver"
)

const (
	plays     = "CREATE TABLE plays (id INTEGER PRIMARY KEY, title TEXT NOT NULL);"
	playsYear = "CREATE TABLE plays (id INTEGER PRIMARY KEY, title TEXT NOT NULL, year INTEGER);\n" +
		"CREATE INDEX plays_year ON plays (year);\nCREATE VIEW titles AS SELECT title FROM plays;"
)

// newDatabaseWorld is a partition of commands and of one schema, in SQLite.
func newDatabaseWorld(t *testing.T, name string) (w *world, path string) {
	t.Helper()
	example(t)
	w = newWorld(t, partition{name: name, plugins: "Command: {run: lehr-command}\n  Schema: {run: lehr-sqlschema}"})
	path = filepath.Join(w.production, "plays.db")
	w.write(path, "")
	return w, path
}

// declare says what the schema should be.
func (w *world) declare(database, declarations string, v values) {
	w.Helper()
	w.schemas["plays"] = schema{database, declarations}
	w.want(v)
}

// open opens an SQLite database for writing, for one connection.
func (w *world) open(path string) *sql.DB {
	w.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		w.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	w.Cleanup(func() { db.Close() })
	return db
}

func (w *world) exec(db *sql.DB, statements ...string) {
	w.Helper()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			w.Fatalf("%s: %v", statement, err)
		}
	}
}

// objects lists what is in an SQLite database.
func (w *world) objects(path string) []string {
	w.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		w.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT type || ' ' || name FROM sqlite_schema WHERE name NOT LIKE 'lehr_%' AND name NOT LIKE 'sqlite_%'
		UNION SELECT 'column ' || name FROM pragma_table_info('plays')`)
	if err != nil {
		w.Fatal(err)
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			w.Fatal(err)
		}
		found = append(found, one)
	}
	slices.Sort(found)
	return found
}

func (w *world) has(path string, wanted ...string) func() string {
	slices.Sort(wanted)
	return func() string {
		if have := w.objects(path); !slices.Equal(have, wanted) {
			return "it has " + strings.Join(have, ", ")
		}
		return ""
	}
}

var (
	hasPlays     = []string{"table plays", "column id", "column title"}
	hasPlaysYear = []string{"table plays", "column id", "column title", "column year", "index plays_year", "view titles"}
)

// A database that another writer has locked is waited for by its own asset
// alone, and changed when it is free.
func TestDatabaseLocked(t *testing.T) {
	t.Parallel()
	w, path := newDatabaseWorld(t, "locked")
	w.declare("sqlite:"+path, plays, values{"a": 1})
	w.serve()
	w.await("the table is there", w.has(path, slices.Clone(hasPlays)...))
	writer := w.open(path)
	w.exec(writer, "BEGIN IMMEDIATE", "INSERT INTO plays (title) VALUES ('Hamlet')")
	w.declare("sqlite:"+path, playsYear, values{"a": 2})
	t.Log(w.awaitTold("schema/plays", `another program holds the lock longer than lock_timeout`, `nothing was changed, and it is tried again`))
	w.converges(values{"a": 2})
	if missing := w.has(path, slices.Clone(hasPlays)...)(); missing != "" {
		t.Errorf("while it was locked: %s", missing)
	}
	w.exec(writer, "COMMIT")
	w.await("the rest is there", w.has(path, slices.Clone(hasPlaysYear)...))
	w.await("all is in sync", w.inSync)
}

// What another tool did half is done wholly, without doing any of it twice.
func TestSchemaHalfApplied(t *testing.T) {
	t.Parallel()
	w, path := newDatabaseWorld(t, "half")
	w.declare("sqlite:"+path, plays, values{"a": 1})
	w.serve()
	w.await("the table is there", w.has(path, slices.Clone(hasPlays)...))
	w.await("all is in sync", w.inSync)
	if _, err := w.lehr("hold", "schema/plays", "--reason", "another tool is at it"); err != nil {
		t.Fatal(err)
	}
	other := w.open(path)
	w.exec(other, "INSERT INTO plays (title) VALUES ('Hamlet')", "ALTER TABLE plays ADD COLUMN year INTEGER", "UPDATE plays SET year = 1601")
	w.declare("sqlite:"+path, playsYear, values{"a": 2})
	told := w.awaitTold("schema/plays", `hold`, `another tool is at it`)
	w.converges(values{"a": 2})
	w.await("only the rest differs", func() string {
		report := w.report("half", "schema/plays")
		var changes []string
		for _, change := range report.GetPlan().GetChanges() {
			changes = append(changes, change.Path)
		}
		if text := strings.Join(changes, " "); !strings.Contains(text, "plays_year") || strings.Contains(text, "column") {
			return "the plan is " + text
		}
		return ""
	})
	t.Log(told)
	if _, err := w.lehr("unhold", "schema/plays", "--reason", "over"); err != nil {
		t.Fatal(err)
	}
	w.await("all is there", w.has(path, slices.Clone(hasPlaysYear)...))
	w.await("all is in sync", w.inSync)
	var year int
	if err := other.QueryRow("SELECT year FROM plays").Scan(&year); err != nil || year != 1601 {
		t.Errorf("the year is %d, not 1601 %s", year, text(err))
	}
}

// A migration that loses data waits for a person, who is told what is lost;
// the server's death does not make it forget that.
func TestSchemaThatLosesData(t *testing.T) {
	t.Parallel()
	w, path := newDatabaseWorld(t, "loss")
	w.declare("sqlite:"+path, playsYear, values{"a": 1})
	w.serve()
	w.await("all is there", w.has(path, slices.Clone(hasPlaysYear)...))
	w.declare("sqlite:"+path, plays+"\nCREATE VIEW titles AS SELECT title FROM plays;", values{"a": 2})
	told := w.awaitTold("schema/plays", `approval`, `destructive|lost|drop`)
	t.Log(told)
	w.converges(values{"a": 2})
	w.kill()
	w.serve()
	w.awaitTold("schema/plays", `approval`)
	if missing := w.has(path, slices.Clone(hasPlaysYear)...)(); missing != "" {
		t.Errorf("without an approval %s", missing)
	}
	// What awaits the approval is the old server's report until the new one has looked. While the
	// plugin starts no plan is known, and the approval is refused.
	var plan string
	w.await("the plan is approved", func() string {
		plan = w.report("loss", "schema/plays").GetPlanDigest()
		if told, err := w.lehr("approve", "schema/plays", "--plan", plan, "--reason", "nobody asks for the year"); err != nil {
			return fmt.Sprintf("%v %s", err, told)
		}
		return ""
	})
	w.await("the column is gone", w.has(path, append(slices.Clone(hasPlays), "view titles")...))
	w.await("all is in sync", w.inSync)
	pushed := 0
	for _, push := range w.journal("loss") {
		if push.Asset == "schema/plays" && push.Plan == plan {
			pushed++
		}
	}
	if pushed != 1 {
		t.Errorf("S9: the approved plan was admitted %d times", pushed)
	}
}

// report is an asset's last one.
func (w *world) report(partition, asset string) *apipb.Report {
	w.Helper()
	for _, report := range w.reports(partition) {
		if report.Asset == asset {
			return report
		}
	}
	return nil
}

// PostgreSQL goes away and comes back; what was asked for meanwhile comes about.
func TestPostgresGoesAway(t *testing.T) {
	t.Parallel()
	example(t)
	server := pgserver.New(t)
	w := newWorld(t, partition{name: "postgres", plugins: "Command: {run: lehr-command}\n  Schema: {run: lehr-sqlschema}"})
	server.Start()
	w.declare(server.URL("postgres"), plays, values{"a": 1})
	w.serve()
	columns := func(wanted string) func() string {
		return func() string {
			have, err := server.Query(server.URL("postgres"), "SELECT string_agg(column_name, ' ' ORDER BY column_name) FROM information_schema.columns WHERE table_name = 'plays'")
			if have != wanted {
				return have + text(err)
			}
			return ""
		}
	}
	w.await("the table is there", columns("id title"))
	w.await("all is in sync", w.inSync)
	if _, err := server.Query(server.URL("postgres"), "INSERT INTO plays VALUES (1, 'Hamlet')"); err != nil {
		t.Fatal(err)
	}
	server.Crash()
	w.declare(server.URL("postgres"), playsYear, values{"a": 2})
	t.Log(w.awaitTold("schema/plays", `connect|refused`, `postgres|127\.0\.0\.1`))
	w.converges(values{"a": 2})
	server.Start()
	w.await("the column is there", columns("id title year"))
	w.await("all is in sync", w.inSync)
	if rows, err := server.Query(server.URL("postgres"), "SELECT title FROM plays"); err != nil || rows != "Hamlet" {
		t.Errorf("the rows are %q %s", rows, text(err))
	}
}
