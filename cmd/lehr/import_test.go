package main

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"lehr.dev/test/building"
	"lehr.dev/test/pgserver"
)

// programs builds lehr and plugins, and returns their folder.
func programs(t *testing.T, plugins ...string) string {
	t.Helper()
	folder := t.TempDir()
	if err := (building.Program{Of: "."}).At(filepath.Join(folder, "lehr")); err != nil {
		t.Fatal(err)
	}
	for _, name := range plugins {
		if err := (building.Program{Of: filepath.Join(repository, "plugins", name)}).At(filepath.Join(folder, "lehr-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// lehr runs the program, and returns what it printed and its exit code.
func runLehr(t *testing.T, bin string, environment []string, arguments ...string) (output string, code int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(bin, "lehr"), arguments...)
	command.Env = append(os.Environ(), append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "LEHR_SERVER=", "LEHR_STORE=" + t.TempDir() + "/none.db"}, environment...)...)
	out, err := command.CombinedOutput()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), ended.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out), 0
}

func says(t *testing.T, output string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(output, want) {
			t.Errorf("it does not say %q:\n%s", want, output)
		}
	}
}

// theatre has one of everything, and of each kind that is left out.
const theatre = `
CREATE TYPE mood AS ENUM ('comic', 'tragic');
CREATE TYPE "Late Mood" AS ENUM ('it''s dark');
CREATE TYPE pair AS (a int, b int);
CREATE SEQUENCE tickets;
CREATE SEQUENCE rows_of AS smallint INCREMENT BY 5 MINVALUE 10 MAXVALUE 100 START WITH 20 CACHE 3 CYCLE;
CREATE DOMAIN name_of AS varchar(40) COLLATE "C" DEFAULT 'nobody' NOT NULL CONSTRAINT long CHECK (length(VALUE) > 1) CONSTRAINT short CHECK (length(VALUE) < 30);
CREATE DOMAIN a_name AS name_of CHECK (VALUE <> 'x');
CREATE TABLE authors (id serial PRIMARY KEY, name text NOT NULL UNIQUE CHECK (length(name) > 1), born date);
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.seen := now(); RETURN NEW; END $$;
CREATE FUNCTION half(n numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT n / 2';
CREATE FUNCTION how_many() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM authors';
CREATE TABLE "Plays" (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "the title" varchar(200) COLLATE "C" NOT NULL DEFAULT 'untitled',
	author int REFERENCES authors ON DELETE CASCADE, mood mood DEFAULT 'comic', price numeric(8,2) DEFAULT half(10),
	reduced numeric GENERATED ALWAYS AS (price / 2) STORED, seen timestamptz, ticket int DEFAULT nextval('tickets'),
	tags text[] NOT NULL DEFAULT '{}', moods mood[], late "Late Mood", of a_name, row smallint DEFAULT nextval('rows_of'), EXCLUDE USING btree (ticket WITH =)) WITH (fillfactor=70);
CREATE TABLE aardvarks (id int PRIMARY KEY, play bigint REFERENCES "Plays", parent int REFERENCES aardvarks);
CREATE INDEX by_title ON "Plays" (lower("the title")) WHERE author IS NOT NULL;
CREATE UNIQUE INDEX one_a_day ON "Plays" (author, seen DESC);
CREATE VIEW abroad WITH (security_barrier=true) AS SELECT p.id, half(p.price) AS price FROM "Plays" p;
CREATE VIEW a_view_of_abroad AS SELECT * FROM abroad WHERE price > 1;
CREATE TRIGGER stamped BEFORE UPDATE ON "Plays" FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE TRIGGER asleep BEFORE UPDATE ON authors FOR EACH ROW EXECUTE FUNCTION stamp();
ALTER TABLE authors DISABLE TRIGGER asleep;
CREATE TABLE years (y int) PARTITION BY RANGE (y);
CREATE UNLOGGED TABLE scratches (y int);
CREATE MATERIALIZED VIEW sums AS SELECT count(*) FROM authors;
CREATE TABLE hen (id int PRIMARY KEY, egg int);
CREATE TABLE egg (id int PRIMARY KEY, hen int REFERENCES hen);
ALTER TABLE hen ADD FOREIGN KEY (egg) REFERENCES egg;
CREATE SCHEMA other;
CREATE TABLE other.halls (id int PRIMARY KEY);
CREATE TABLE seats (hall int REFERENCES other.halls);
INSERT INTO authors (name) VALUES ('a secret playwright');
`

// TestImportPostgres: what was imported from a real database is in sync with it,
// and neither reading nor planning changed anything there.
func TestImportPostgres(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	server.Execute(server.URL("postgres"), "CREATE DATABASE stage")
	address := server.URL("stage")
	server.Execute(address, theatre)
	bin := programs(t, "sqlschema")
	folder := filepath.Join(t.TempDir(), "theatre")
	state := func() string {
		t.Helper()
		all, err := server.Query(address, `SELECT string_agg(oid::text || relname || relnamespace || xmin::text, ' ' ORDER BY oid) FROM pg_class WHERE oid > 16383`)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := state()
	output, code := runLehr(t, bin, nil, "import", "postgres", address, "--to", folder)
	if code != 0 {
		t.Fatal(output)
	}
	says(t, output, "tables: 4", "indexes: 2", "views: 2", "functions: 3", "triggers: 1", "Wrote partition theatre",
		"trigger asleep of authors: it is not simply enabled", "table years: partitions are not managed", "table scratches: it is not logged",
		"materialized view sums", "need each other", "table seats: its foreign key", "types: 2", "domains: 2", "sequences: 2", "type pair: it is not managed", "rights are left")
	for _, file := range []string{"schema.sql", "schema.star", "lehr.yaml"} {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil || strings.Contains(string(text), "playwright") {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
	output, code = runLehr(t, bin, nil, "plan", filepath.Join(folder, "lehr.yaml"))
	if code != 0 {
		sql, _ := os.ReadFile(filepath.Join(folder, "schema.sql"))
		t.Errorf("plan ended with %d:\n%s\n%s", code, output, sql)
	}
	says(t, output, "0 to change, 1 the same, 0 unknown")
	if after := state(); after != before {
		t.Errorf("the database changed:\n%s\n%s", before, after)
	}
	// What is another than imported is told.
	server.Execute(address, `ALTER TABLE authors ADD COLUMN died date`)
	if output, code = runLehr(t, bin, nil, "plan", filepath.Join(folder, "lehr.yaml")); code != 2 {
		t.Errorf("after a change plan ended with %d", code)
	}
	says(t, output, "authors.died")

	for _, refused := range []struct{ arguments, want string }{
		{"postgres://me:hush@127.0.0.1/x", "the URL holds a password"},
		{"postgres://me@127.0.0.1/x?password=hush", "the URL holds a password"},
		{"mysql://me@127.0.0.1/x", "not the URL of a PostgreSQL database"},
		{address + " --schema nowhere", `there is no schema "nowhere"`},
		{address + " --password-env HUSH", "begins with LEHR_"},
	} {
		output, code := runLehr(t, bin, nil, append([]string{"import", "postgres", "--to", filepath.Join(t.TempDir(), "x")}, strings.Fields(refused.arguments)...)...)
		if code != 1 || strings.Contains(output, "hush") {
			t.Errorf("%s ended with %d:\n%s", refused.arguments, code, output)
		}
		says(t, output, refused.want)
	}
}

// TestImportSQLite: the same of a file, which is not written to.
func TestImportSQLite(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	path := filepath.Join(t.TempDir(), "Shop 1.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(`CREATE TABLE plays (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL UNIQUE, year INT CHECK (year > 1500)) STRICT;
		CREATE TABLE "in" (play INTEGER REFERENCES plays, PRIMARY KEY (play)) WITHOUT ROWID;
		CREATE INDEX by_year ON plays (year) WHERE year IS NOT NULL;
		CREATE VIEW old AS SELECT * FROM plays WHERE year < 1600; CREATE VIEW a AS SELECT * FROM old;
		CREATE TRIGGER t AFTER INSERT ON plays BEGIN UPDATE plays SET year = 1600 WHERE year IS NULL; SELECT 1; END;
		CREATE VIRTUAL TABLE texts USING fts5(body);
		INSERT INTO plays (title) VALUES ('a secret play')`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bin, folder := programs(t, "sqlschema"), filepath.Join(t.TempDir(), "shop")
	output, code := runLehr(t, bin, nil, "import", "sqlite", path, "--to", folder)
	if code != 0 {
		t.Fatal(output)
	}
	says(t, output, "tables: 2", "indexes: 1", "views: 2", "triggers: 1", "table texts: virtual tables are not managed")
	output, code = runLehr(t, bin, nil, "plan", filepath.Join(folder, "lehr.yaml"))
	if code != 0 {
		t.Errorf("plan ended with %d:\n%s", code, output)
	}
	says(t, output, "0 to change, 1 the same, 0 unknown")
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file changed: %v", err)
	}
	output, code = runLehr(t, bin, nil, "import", "sqlite", folder+"/none.db", "--to", folder+"2")
	if code != 1 {
		t.Errorf("of no file it ended with %d", code)
	}
	says(t, output, "there is no SQLite file")
}

// TestImportProcesses: what runs is taken over as it is, and plan says honestly
// that it is no task yet.
func TestImportProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	sleeper := exec.Command("/bin/sleep", "3079")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	})
	bin, folder := programs(t, "process"), filepath.Join(t.TempDir(), "night")
	output, code := runLehr(t, bin, nil, "import", "processes", strconv.Itoa(sleeper.Process.Pid), "--to", folder)
	if code != 0 {
		t.Fatal(output)
	}
	says(t, output, "job sleep: ", "not started as a task", "lehr plan "+folder+"/lehr.yaml")
	output, code = runLehr(t, bin, nil, "plan", filepath.Join(folder, "lehr.yaml"))
	if code != 2 {
		t.Errorf("plan ended with %d", code)
	}
	says(t, output, "job/sleep (Job)", "a push would create it", "3079", "1 to change, 0 the same, 0 unknown")
	if err := sleeper.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the process: %v", err)
	}
}
