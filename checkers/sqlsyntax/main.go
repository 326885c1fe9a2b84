// Command lehr-sql-syntax is the checking program sql-syntax: PostgreSQL's own grammar reads each
// statement of what is for PostgreSQL, and SQLite itself runs, in memory, what is for SQLite. It
// gives findings and asks no database. Lehr starts it in a sandbox.
package main

import (
	"fmt"
	"path"
	"strings"

	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/sdk/generator"
)

func main() { generator.Main(check) }

// wrong is a statement that an engine refuses, at a line from 1.
type wrong struct {
	line    int
	message string
}

// dialects by the names that with: has for them.
var dialects = map[string]func(string) ([]wrong, error){"postgresql": readPostgreSQL, "sqlite": readSQLite}

// mostWrong statements of one text are told.
const mostWrong = 20

// check reads the schemas among the assets, and the files that end with .sql.
func check(in *generator.Input, out *generator.Output) error {
	options, err := in.Options("dialect", "if_none")
	if err != nil {
		return err
	}
	dialect, err := options.One("dialect", "")
	if err != nil {
		return err
	}
	if _, ok := dialects[dialect]; !ok && dialect != "" {
		return fmt.Errorf("with: {dialect: %s}: write postgresql or sqlite", dialect)
	}
	passesNone, err := options.PassesNone()
	if err != nil {
		return err
	}
	files, err := checkFiles(in, out, dialect)
	if err != nil {
		return err
	}
	assets, err := checkAssets(in, out)
	if err != nil {
		return err
	}
	if files+assets == 0 && !passesNone {
		out.Error("let from name what has files that end with .sql or gives assets of the type Schema, or remove the check", "nothing that it was given is SQL")
	}
	return nil
}

func checkFiles(in *generator.Input, out *generator.Output, dialect string) (count int, err error) {
	files, err := in.Files()
	if err != nil {
		return 0, err
	}
	for _, name := range files {
		if path.Ext(name) != ".sql" {
			continue
		}
		if count++; dialect == "" {
			return 0, fmt.Errorf("%s is SQL of an unknown dialect: write with: {dialect: postgresql} or {dialect: sqlite}", name)
		}
		text, err := in.Read(name)
		if err != nil {
			return 0, err
		}
		found, err := dialects[dialect](string(text))
		if err != nil {
			return 0, err
		}
		tell(found, dialect, func(line int) *generator.Output { return out.At(name, line) })
	}
	return count, nil
}

func checkAssets(in *generator.Input, out *generator.Output) (count int, err error) {
	assets, err := in.Assets()
	if err != nil {
		return 0, err
	}
	typeName := string((&sqlschemapb.Schema{}).ProtoReflect().Descriptor().FullName())
	for _, asset := range assets {
		if asset.Type != typeName {
			continue
		}
		count++
		schema := &sqlschemapb.Schema{}
		if err := in.Open(asset, schema); err != nil {
			return 0, err
		}
		dialect := "postgresql"
		if strings.HasPrefix(schema.Database, "sqlite:") {
			dialect = "sqlite"
		}
		found, err := dialects[dialect](schema.Sql)
		if err != nil {
			return 0, err
		}
		tell(found, dialect, func(line int) *generator.Output { return out.About(asset.ID, "payload.sql", schema.Sql, line) })
	}
	return count, nil
}

// tell the findings of one text.
func tell(found []wrong, dialect string, at func(line int) *generator.Output) {
	engine := map[string]string{"postgresql": "PostgreSQL", "sqlite": "SQLite"}[dialect]
	for _, w := range found {
		at(w.line).Error("mend the statement", "%s cannot read the statement: %s", engine, w.message)
	}
}

// lineAt is the line of a byte of a text.
func lineAt(text string, at int) int {
	return 1 + strings.Count(text[:min(max(at, 0), len(text))], "\n")
}
