package schemas

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/statement"
	"lehr.dev/internal/ground/statement/dump"
	"lehr.dev/sdk/serve"
)

// pgDump writes the schema of a ground's database as PostgreSQL's own program does.
func (g *ground) pgDump(t *testing.T, arguments ...string) string {
	t.Helper()
	program, err := exec.LookPath("pg_dump")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("there is no pg_dump to test with (apt-get install postgresql-client)")
	}
	if !slices.Contains(arguments, "--section=data") {
		arguments = append(arguments, "-s")
	}
	command := exec.Command(program, append(arguments, g.url)...)
	command.Env = append(os.Environ(), "PGPASSWORD="+superPassword)
	var said strings.Builder
	command.Stderr = &said
	text, err := command.Output()
	if err != nil {
		t.Fatalf("pg_dump: %v\n%s", err, said.String())
	}
	return string(text)
}

func lines(line int) string { return fmt.Sprintf("line %d", line) }

// statements are those of SQL, one a line, in any order.
func statements(t *testing.T, sql string) []string {
	t.Helper()
	all, err := statement.Parse(statement.PostgreSQL, sql)
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	var texts []string
	for _, one := range all {
		texts = append(texts, strings.Join(strings.Fields(one.Text), " "))
	}
	slices.Sort(texts)
	return texts
}

// TestDumps: what pg_dump writes of a database is in sync with that database, makes
// the same in an empty one, and is dumped again as it was.
func TestDumps(t *testing.T) {
	files, err := filepath.Glob("testdata/dumps/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".sql"), func(t *testing.T) {
			made, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source, fresh := newDatabase(t), newDatabase(t)
			role := "reader_" + fmt.Sprint(databases.Add(1))
			source.exec(t, "create role "+role)
			source.exec(t, strings.ReplaceAll(string(made), "reader_ROLE", role))
			text := source.pgDump(t)
			d, err := dump.Read(text, "public")
			if err != nil {
				t.Fatal(err)
			}
			texts := d.Schemas()
			message, _ := d.LeftOut(lines)
			message = strings.ReplaceAll(message, role, "reader_ROLE")
			golden(t, strings.TrimSuffix(file, ".sql")+".out", message)
			for _, name := range slices.Sorted(maps.Keys(texts)) {
				source.inSchema = name
				schema := source.schema(texts[name])
				if schema.Version = ""; source.diff(t, schema).Outcome != serve.InSync {
					t.Errorf("schema %s differs from what it was dumped from:\n%s", name, changes(source.diff(t, schema)))
				}
			}
			prepare(t, fresh, text)
			left := slices.Sorted(maps.Keys(texts))
			for range texts { // one may need another
				for _, name := range slices.Clone(left) {
					fresh.inSchema = name
					d := kind.Diff(t.Context(), []serve.Intent{asIntent(t, "db", fresh.schema(texts[name]))})[0]
					if d.Outcome == serve.Unknown {
						t.Logf("schema %s: %s", name, d.Reason)
						continue
					}
					fresh.push(t, fresh.schema(texts[name]))
					left = slices.DeleteFunc(left, func(one string) bool { return one == name })
				}
			}
			if len(left) > 0 {
				t.Fatalf("not served: %v", left)
			}
			again, err := dump.Read(fresh.pgDump(t), "public")
			if err != nil {
				t.Fatal(err)
			}
			for name, was := range texts {
				is := statements(t, again.Schemas()[name])
				for _, one := range statements(t, was) {
					if !slices.Contains(is, one) {
						t.Errorf("schema %s has lost %s", name, one)
					}
				}
				if len(is) != len(statements(t, was)) {
					t.Errorf("schema %s has %d statements, and had %d", name, len(is), len(statements(t, was)))
				}
			}
			source.inSchema = "public"
			for _, options := range [][]string{{"--clean", "--if-exists", "--create"}, {"-O", "-x"}, {"-c"}} {
				other, err := dump.Read(source.pgDump(t, options...), "public")
				if err != nil {
					t.Fatal(err)
				}
				for name, was := range texts {
					has := statements(t, other.Schemas()[name])
					for _, one := range statements(t, was) {
						if !strings.HasPrefix(one, "GRANT") && !slices.Contains(has, one) {
							t.Errorf("with %v schema %s has lost %s", options, name, one)
						}
					}
				}
			}
		})
	}
}

// TestDumpsOfRows: rows are left out, however they are written.
func TestDumpsOfRows(t *testing.T) {
	g := newDatabase(t)
	g.exec(t, `create table t (id serial primary key, x text); insert into t (x) values ('a;b'), (E'\\\n\\.'), ('''')`)
	want, err := dump.Read(g.pgDump(t), "public")
	if err != nil {
		t.Fatal(err)
	}
	for _, options := range [][]string{nil, {"--inserts"}} {
		text := g.pgDump(t, append([]string{"--section=pre-data", "--section=data", "--section=post-data"}, options...)...)
		got, err := dump.Read(text, "public")
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if got, want := statements(t, got.Schemas()["public"]), statements(t, want.Schemas()["public"]); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestADumpedSchemaIsRemoved: what refers to each other, and sequences that defaults
// rest on.
func TestADumpedSchemaIsRemoved(t *testing.T) {
	made, err := os.ReadFile("testdata/dumps/ordinary.sql")
	if err != nil {
		t.Fatal(err)
	}
	g := newDatabase(t)
	g.exec(t, string(made))
	d, err := dump.Read(g.pgDump(t), "public")
	if err != nil {
		t.Fatal(err)
	}
	g.inSchema = "public"
	schema := g.schema(d.Schemas()["public"])
	g.push(t, schema)
	if outcome := g.turnDown(t, schema); outcome.Ending != serve.Pushed {
		t.Fatalf("the turndown ended as %+v", outcome)
	}
	if got := g.query(t, "select string_agg(relname, ' ') from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'v', 'S')"); got != "lehr_schema_versions" {
		t.Errorf("there still is %q", got)
	}
	g.push(t, schema)
}

// prepare makes what the plugin does not: schemas and extensions.
func prepare(t *testing.T, g *ground, text string) {
	t.Helper()
	tokens, err := statement.Scan(statement.PostgreSQL, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range statement.Split(tokens) {
		if len(part) > 1 && part[0].Is("create") && (part[1].Is("schema") || part[1].Is("extension")) {
			g.exec(t, text[part[0].Start:part[len(part)-1].End])
		}
	}
}

// golden compares a text with the one that is kept; LEHR_UPDATE writes it.
func golden(t *testing.T, file, text string) {
	t.Helper()
	text = strings.ReplaceAll(text, "; ", ";\n") + "\n"
	if os.Getenv("LEHR_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != text {
		t.Errorf("%v: it says\n%s\nand %s has\n%s", err, text, file, want)
	}
}
