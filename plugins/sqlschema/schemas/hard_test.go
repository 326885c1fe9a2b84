package schemas

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/serve"
)

func TestOddNames(t *testing.T) {
	onBoth(t, func(t *testing.T, g *ground) {
		const table = `CREATE TABLE "Odd.na me" ("Co.l" integer PRIMARY KEY, "select" text, "quo""te" text, CONSTRAINT "it's" CHECK ("Co.l" > 0)); CREATE INDEX "in dex" ON "Odd.na me" ("select"); CREATE VIEW "Vi.ew" AS SELECT "Co.l" FROM "Odd.na me"`
		g.push(t, g.schema(table))
		g.exec(t, `insert into "Odd.na me" ("Co.l") values (1)`)
		d := g.push(t, g.schema(strings.NewReplacer(`"quo""te" text, `, "", `> 0`, `> -1`).Replace(table)))
		if !strings.Contains(changes(d), `! objects["column`) {
			t.Errorf("the dropped column is not destructive:\n%s", changes(d))
		}
		g.push(t, g.schema(table))
		if got := g.query(t, `select "Co.l" from "Vi.ew"`); got != "1" {
			t.Errorf("the view shows %q", got)
		}
	})
}

func TestTheSchemasOwnNamesAreRefused(t *testing.T) {
	g := newPostgres(t)
	quoted := `"` + g.inSchema + `"`
	g.push(t, g.schema("CREATE TABLE b (id int PRIMARY KEY); CREATE TABLE a (id int PRIMARY KEY, b int REFERENCES b (id))"))
	for name, test := range map[string]struct{ sql, want string }{
		"a later table":         {"CREATE TABLE a (id int PRIMARY KEY, b int REFERENCES b (id));\nCREATE TABLE b (id int PRIMARY KEY)", "declare b first"},
		"a view of a later one": {"CREATE VIEW v AS SELECT id FROM b; CREATE TABLE b (id int PRIMARY KEY)", "declare it before it is used"},
		"a view by the schema":  {"CREATE TABLE b (id int PRIMARY KEY); CREATE VIEW v AS SELECT id FROM " + quoted + ".b", "without the schema"},
	} {
		t.Run(name, func(t *testing.T) {
			if reason := g.refused(t, g.schema(test.sql)); !strings.Contains(reason, test.want) {
				t.Errorf("the answer is %q, want %q", reason, test.want)
			}
		})
	}
}

func TestAForeignViewKeepsItsColumns(t *testing.T) {
	g := newPostgres(t)
	g.push(t, g.schema("CREATE TABLE t (id int PRIMARY KEY, a text)"))
	g.exec(t, "create view foreign_view as select a from t")
	for _, sql := range []string{"CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE t (id int PRIMARY KEY, a varchar(9))"} {
		schema := g.schema(sql)
		d := g.diff(t, schema)
		outcome := g.try(t, schema, d, allowed{})
		if outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "foreign_view") {
			t.Errorf("%s ended as %+v", sql, outcome)
		}
		if after := g.diff(t, schema); changes(after) != changes(d) {
			t.Errorf("something was changed:\n%s", changes(after))
		}
	}
}

// TestAWithdrawnPermitStopsAStatement ends a push in the middle of a long
// statement: the server gives it up, with its locks.
func TestAWithdrawnPermitStopsAStatement(t *testing.T) {
	g := newPostgres(t)
	g.exec(t, "create function slow(int) returns int language plpgsql immutable as 'begin perform pg_sleep(300); return $1; end'")
	g.push(t, g.schema("CREATE TABLE t (id int PRIMARY KEY)"))
	g.exec(t, "insert into t values (1)")
	schema := g.schema("CREATE TABLE t (id int PRIMARY KEY); CREATE INDEX t_slow_" + strings.ToLower(g.inSchema[5:]) + " ON t (slow(id))")
	schema.StatementTimeout = durationpb.New(5 * time.Minute)
	d := g.diff(t, schema)
	running := func() string {
		return g.query(t, "select count(*) from pg_stat_activity where state = 'active' and query ilike 'create index t_slow_"+strings.ToLower(g.inSchema[5:])+"%'")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan serve.Outcome)
	go func() {
		ended <- kind.Push(ctx, serve.Push{ID: intent.PushID("slow"), Asset: asIntent(t, "db", schema), Plan: d.Plan.Digest(), Base: d.Base, Progress: func(string) {}}, allowed{})
	}()
	for running() != "1" {
		if t.Context().Err() != nil {
			t.Fatal("the statement never ran")
		}
	}
	cancel()
	if outcome := <-ended; outcome.Ending != serve.Stopped {
		t.Errorf("the push ended as %+v", outcome)
	}
	for running() != "0" {
		if t.Context().Err() != nil {
			t.Fatal("the statement goes on")
		}
	}
	g.exec(t, "set lock_timeout = '30s'; alter table t add column a text") // no lock is left
	if got := objects(g.diff(t, g.schema("CREATE TABLE t (id int PRIMARY KEY, a text)"))); got != "" {
		t.Errorf("it left\n%s", got)
	}
}

func TestAnotherFileInItsPlaceIsStale(t *testing.T) {
	g, other := newLite(t), newLite(t)
	g.push(t, g.schema("CREATE TABLE t (a INTEGER)"))
	other.exec(t, "CREATE TABLE t (a INTEGER)")
	schema := g.schema("CREATE TABLE t (a INTEGER, b INTEGER)")
	outcome := g.try(t, schema, g.diff(t, schema), &intruder{now: func() {
		if err := os.Rename(strings.TrimPrefix(other.url, "sqlite:"), strings.TrimPrefix(g.url, "sqlite:")); err != nil {
			t.Error(err)
		}
	}})
	if outcome.Ending != serve.Stale {
		t.Errorf("the push ended as %+v", outcome)
	}
}
