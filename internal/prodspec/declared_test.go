package prodspec_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec"
)

// TestSQLThatCannotBeReadIsNotServed: it is an error of the build, at its place in the file
// that it comes from, or else in the program that made it.
func TestSQLThatCannotBeReadIsNotServed(t *testing.T) {
	const good = "-- plays\nCREATE TABLE plays (id INTEGER PRIMARY KEY, title TEXT NOT NULL);\nCREATE INDEX by_title ON plays (title);\n"
	for name, test := range map[string]struct{ lite, postgres, want string }{
		"all is well":             {good, good, ""},
		"SQLite stumbles":         {"CREATE TABLE a (id INTEGER,\n  title TEXT NOT NUL,\n  year INTEGER);\n", good, `lite.sql:2:18 near "NUL"`},
		"a column that is none":   {good + "CREATE INDEX other ON plays (year);\n", good, "lite.sql:4:1 no such column: year"},
		"no declaration":          {good + "  DELETE FROM plays;\n", good, "lite.sql:4:3 DELETE is not a declaration"},
		"a misspelt word":         {good, good + "CREAT TABLE b (id int);\n", `postgres.sql:4:1 a statement begins with "CREAT"`},
		"a string without end":    {good, good + "CREATE VIEW v AS SELECT 'x;\n", "postgres.sql:4:1 a string begins here"},
		"a bracket without end":   {good, "CREATE TABLE b (id int, c numeric(3);\n", "postgres.sql:1:16 this bracket is not closed"},
		"a bracket without begin": {good, "CREATE TABLE b (id int);\nCREATE VIEW v AS SELECT id) FROM b;\n", "postgres.sql:2:27 this bracket closes none"},
		"a comma too many":        {good, "CREATE TABLE b (id int,\n  c text,\n);\n", `postgres.sql:3:1 ")" comes where`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "web")
			w.write("lite.sql", test.lite)
			w.write("postgres.sql", test.postgres)
			w.write("db.star", "def generate(ctx):\n    return [asset(\"pg\", lehr.sqlschema.v1.Schema(database = \"postgres://lehr@db/shop\", sql = ctx.files[\"postgres.sql\"]))]\n")
			w.write("lehr.yaml", `lehr: v1
partition: shop
sources: {sqlite: {files: lite.sql}, postgres: {files: postgres.sql}}
generate:
  lite: {render: sql-schema, from: [sqlite], with: {database: "sqlite:/srv/shop.db"}}
  db: {starlark: db.star, from: [postgres]}
`)
			built, err := prodspec.Build(t.Context(), prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: w.runnerOf(false)}, loop.Real().Now())
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				if !built.OK() || len(built.Assets) != 3 {
					t.Errorf("%d assets, findings %+v", len(built.Assets), built.Findings)
				}
				return
			}
			var told []string
			for _, f := range built.Findings {
				told = append(told, fmt.Sprintf("%s:%d:%d %s", f.File, f.Line, f.Column, f.Message))
			}
			place, message, _ := strings.Cut(test.want, " ")
			if built.OK() || !slices.ContainsFunc(told, func(text string) bool { return strings.HasPrefix(text, place+" ") && strings.Contains(text, message) }) {
				t.Errorf("it told %q, want %q", told, test.want)
			}
		})
	}
}

// TestSQLThatAProgramWrote is placed in the program, with its line within the SQL.
func TestSQLThatAProgramWrote(t *testing.T) {
	w := newWorld(t, "web")
	w.write("db.star", "def generate(ctx):\n    return [asset(\"pg\", lehr.sqlschema.v1.Schema(database = \"postgres://lehr@db/shop\", sql = \"CREATE TABLE a (id int);\\nCREATE TABLE b (id int,);\"))]\n")
	w.write("lehr.yaml", "lehr: v1\npartition: shop\nsources: {in: {files: \"*.star\"}}\ngenerate:\n  db: {starlark: db.star, from: [in]}\n")
	built, err := prodspec.Build(t.Context(), prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: w.runnerOf(false)}, loop.Real().Now())
	if err != nil || len(built.Findings) != 1 {
		t.Fatal(err, built.Findings)
	}
	if f := built.Findings[0]; f.File != "db.star" || f.Line != 2 || f.Asset != "pg" || f.Field != "payload.sql" || !strings.HasPrefix(f.Message, "line 2, column 24 of the SQL: ") {
		t.Errorf("the finding is %+v", f)
	}
}
