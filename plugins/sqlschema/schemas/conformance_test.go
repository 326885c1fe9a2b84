package schemas

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"lehr.dev/sdk/plugintest"
	"lehr.dev/test/building"
)

func TestConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts the plugin")
	}
	program := filepath.Join(t.TempDir(), "lehr-sqlschema")
	if err := (building.Program{Of: "..", Flags: []string{"-ldflags", "-s -w"}}).At(program); err != nil {
		t.Fatal(err)
	}
	onBoth(t, func(t *testing.T, g *ground) {
		first, second := g.schema(plays), g.schema("")
		second.Sql, second.Version = "CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, born INTEGER);"+plays[len("\nCREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"):], "v2"
		query := "SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2"
		if g.name == "postgres" {
			query = "select relname::text, xmin::text from pg_class where relnamespace = (select oid from pg_namespace where nspname = '" + g.inSchema + "') order by 1"
		}
		run, secret := []string{program}, (*plugintest.Secret)(nil)
		if g.name == "postgres" {
			password := filepath.Join(t.TempDir(), "password")
			if err := os.WriteFile(password, []byte(superPassword+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			list, err := listSecrets(filepath.Dir(password), "file: "+password)
			if err != nil {
				t.Fatal(err)
			}
			first.Password, second.Password = fileSecret(password), fileSecret(password)
			run, secret = append(run, "--secret-list="+list), &plugintest.Secret{File: password, OpensOnly: true}
		}
		plugintest.Run(t, plugintest.Target{
			Run: run, First: first, Second: second, Secret: secret,
			Production: func(context.Context) (string, error) { return g.query(t, query), nil },
		})
	})
}
