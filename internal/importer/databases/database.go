// Package databases reads the schema of a running PostgreSQL database, or of an
// SQLite file, as the SQL that lehr-sqlschema serves. It reads catalogs, in a
// transaction that can only read, and never rows. cmd/lehr lists its kinds.
package databases

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/importer"
)

// What one asset holds: see docs/use/sqlschema.md. An asset has at most 150 kB.
const (
	maxBytes      = 140_000
	maxStatements = 1000
)

// reserved begins the names of lehr-sqlschema's own tables.
const reserved = "lehr_"

// Postgres imports a schema of a PostgreSQL database.
func Postgres() importer.Kind {
	kind := importer.Kind{
		Name: "postgres", Arguments: "URL", Short: "A schema of a running PostgreSQL database, as SQL",
		Long: `Read the tables, indexes, views, functions, triggers, enums, domains and sequences of one
schema of a running PostgreSQL database, and write them as SQL for lehr-sqlschema. Catalogs are read, in
a transaction that can only read; rows are not looked at. A password is named, never
given: --password-env or --password-file.`,
	}
	kind.Args.Least, kind.Args.Most = 1, 1
	kind.Bind = func(flags *pflag.FlagSet) importer.Reader {
		var p postgres
		flags.StringVar(&p.schema, "schema", "public", "the schema")
		flags.StringVar(&p.secret.env, "password-env", "", "the variable that holds the password; Lehr hands those on that begin with LEHR_")
		flags.StringVar(&p.secret.file, "password-file", "", "the file that holds the password")
		return p.read
	}
	return kind
}

// SQLite imports the schema of a file.
func SQLite() importer.Kind {
	kind := importer.Kind{
		Name: "sqlite", Arguments: "FILE", Short: "The schema of an SQLite file, as SQL",
		Long: `Read the tables, indexes, views and triggers of an SQLite file, and write them as SQL
for lehr-sqlschema. The file is opened for reading only; rows are not looked at.`,
	}
	kind.Args.Least, kind.Args.Most = 1, 1
	kind.Bind = func(*pflag.FlagSet) importer.Reader { return readSQLite }
	return kind
}

// secret says where the password is.
type secret struct{ env, file string }

func (s secret) password() (string, error) {
	switch {
	case s.env != "" && s.file != "":
		return "", fault.New(fault.Invalid, "a password has one place").WithHint("give --password-env or --password-file")
	case s.env != "" && !strings.HasPrefix(s.env, "LEHR_"):
		return "", fault.New(fault.Invalid, "the variable %q is not handed on to plugins", s.env).WithHint("choose one that begins with LEHR_")
	case s.env != "":
		password, ok := os.LookupEnv(s.env)
		if !ok {
			return "", fault.New(fault.Invalid, "the variable %s is not set", s.env).WithHint("set it to the password, or leave --password-env out")
		}
		return password, nil
	case s.file != "":
		content, err := files.Read(s.file, files.MostGiven)
		if err != nil {
			return "", fault.New(fault.Invalid, "reading the password: %w", err).WithHint("name a file that holds it")
		}
		return strings.TrimRight(string(content), " \t\r\n"), nil
	}
	return "", nil
}

// statement is a declaration.
type statement struct{ kind, name, text string }

// contents is what a schema has.
type contents struct {
	statements []statement
	leftOut    []importer.LeftOut
}

func (f *contents) leave(subject, reason string, arguments ...any) {
	f.leftOut = append(f.leftOut, importer.LeftOut{What: subject, Why: fmt.Sprintf(reason, arguments...)})
}

// write makes a partition of one asset.
func (f contents) write(source, asset, fields string) (importer.Import, error) {
	var sql strings.Builder
	counts := map[string]int{}
	for _, one := range f.statements {
		fmt.Fprintf(&sql, "%s;\n\n", strings.TrimRight(strings.TrimSpace(one.text), "; \n"))
		counts[one.kind]++
	}
	switch {
	case len(f.statements) == 0:
		return importer.Import{}, fault.New(fault.NotFound, "%s has nothing that lehr-sqlschema manages", source).
			WithHint("it manages tables, indexes, views, functions and triggers; is it the right schema?")
	case sql.Len() > maxBytes || len(f.statements) > maxStatements:
		return importer.Import{}, fault.New(fault.Invalid, "%s has %d statements, %d bytes in all: an asset holds %d and %d", source, len(f.statements), sql.Len(), maxStatements, maxBytes).
			WithHint("write the tables of a part of it into an asset by hand: what an asset does not name is left alone")
	}
	var read []string
	for _, kind := range []string{"type", "domain", "sequence", "table", "index", "view", "function", "trigger"} {
		if n := counts[kind]; n > 0 {
			read = append(read, fmt.Sprintf("%s: %d", plural(kind), n))
		}
	}
	return importer.Import{
		Definition: `sources:
  sql: {dir: ., files: [schema.sql]}

generate:
  schema: {starlark: schema.star, from: [sql]}

plugins:
  Schema: {run: lehr-sqlschema}
`,
		Files: map[string][]byte{
			"schema.sql": []byte(strings.TrimSuffix(sql.String(), "\n")),
			"schema.star": fmt.Appendf(nil, `"""The schema of schema.sql in its database."""

def generate(ctx):
    return [asset(%s, lehr.sqlschema.v1.Schema(
%s        sql = ctx.files["schema.sql"],
    ))]
`, strconv.Quote(asset), fields),
		},
		Read: append([]string{source}, read...), LeftOut: f.leftOut,
	}, nil
}

func plural(kind string) string {
	if kind == "index" {
		return "indexes"
	}
	return kind + "s"
}

// field of the asset, as Starlark.
func field(name, value string) string {
	return fmt.Sprintf("        %s = %s,\n", name, strconv.Quote(value))
}

// canceled is what an error is when nobody waits any more.
func canceled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
