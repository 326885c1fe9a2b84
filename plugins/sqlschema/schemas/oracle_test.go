package schemas

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"ariga.io/atlas/sql/migrate"
	"ariga.io/atlas/sql/postgres"
	"ariga.io/atlas/sql/schema"
	"ariga.io/atlas/sql/sqlite"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// inspect asks another program, Atlas, what the managed tables are.
func (g *ground) inspect(t *testing.T) (migrate.Driver, *schema.Schema) {
	t.Helper()
	var driver migrate.Driver
	var err error
	name := "main"
	if g.name == "postgres" {
		name = g.inSchema
		config, failed := pgx.ParseConfig(g.url)
		if failed != nil {
			t.Fatal(failed)
		}
		config.Password = superPassword
		db := stdlib.OpenDB(*config)
		t.Cleanup(func() { _ = db.Close() })
		driver, err = postgres.Open(db)
	} else {
		var db *sql.DB
		db = openLite(t, strings.TrimPrefix(g.url, "sqlite:"))
		driver, err = sqlite.Open(db)
	}
	if err != nil {
		t.Fatal(err)
	}
	found, err := driver.InspectSchema(t.Context(), name, &schema.InspectOptions{Mode: schema.InspectTables, Exclude: []string{"lehr_*"}})
	if err != nil {
		t.Fatal(err)
	}
	return driver, found
}

// TestAnotherProgramAgrees lets Atlas compare a database that was brought to a
// schema in steps with one that was created so: it finds no difference.
func TestAnotherProgramAgrees(t *testing.T) {
	onBoth(t, func(t *testing.T, stepwise *ground) {
		for _, step := range steps {
			t.Run(step.name, func(t *testing.T) {
				created := newLite
				if stepwise.name == "postgres" {
					created = newPostgres
				}
				at := created(t)
				at.push(t, at.schema(step.before))
				at.push(t, at.schema(step.after))
				fresh := created(t)
				fresh.exec(t, step.after)
				driver, reached := at.inspect(t)
				_, wanted := fresh.inspect(t)
				wanted.Name = reached.Name
				differences, err := driver.SchemaDiff(reached, wanted)
				if err != nil {
					t.Fatal(err)
				}
				for _, difference := range differences {
					t.Errorf("it finds %s", fmt.Sprintf("%T %+v", difference, difference))
				}
			})
		}
	})
}
