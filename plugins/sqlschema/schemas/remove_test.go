package schemas

import (
	"strings"
	"testing"

	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/serve"
)

var turndown = intent.Message{Type: "lehr.intent.v1.Turndown"}

// turnDown looks, and removes what is there.
func (g *ground) turnDown(t *testing.T, schema *sqlschemapb.Schema) serve.Outcome {
	t.Helper()
	asset := asIntent(t, "db", schema, turndown)
	d := kind.Diff(t.Context(), []serve.Intent{asset})[0]
	if d.Outcome != serve.Differs || d.Plan.Action != serve.ActionDelete {
		t.Fatalf("the turndown's plan is %+v (%s)", d.Plan, d.Reason)
	}
	return kind.Push(t.Context(), serve.Push{ID: "turndown", Asset: asset, Plan: d.Plan.Digest(), Base: d.Base, Progress: func(string) {}}, allowed{})
}

func TestTurndownRemovesExactlyWhatIsDeclared(t *testing.T) {
	onBoth(t, func(t *testing.T, g *ground) {
		g.exec(t, "create table other (id integer primary key); insert into other (id) values (1)")
		g.push(t, g.schema(plays))
		if outcome := g.turnDown(t, g.schema(plays)); outcome.Ending != serve.Pushed {
			t.Fatalf("the turndown ended as %+v", outcome)
		}
		asset := asIntent(t, "db", g.schema(plays), turndown)
		if d := kind.Diff(t.Context(), []serve.Intent{asset})[0]; d.Outcome != serve.InSync {
			t.Errorf("after the turndown: %+v", d)
		}
		if got := g.query(t, "select id from other"); got != "1" {
			t.Errorf("the other table holds %q", got)
		}
		if got := g.query(t, "select count(*) from lehr_schema_versions"); got != "0" {
			t.Errorf("%s versions are remembered", got)
		}
		g.push(t, g.schema(plays))
	})
}

func TestTurndownLeavesWhatOthersRestOn(t *testing.T) {
	for name, foreign := range map[string]string{
		"a foreign view": "create view foreign_view as select title from plays",
		"a foreign key":  "create table foreign_table (play integer references plays (id))",
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, g *ground) {
				g.push(t, g.schema(plays))
				g.exec(t, foreign)
				outcome := g.turnDown(t, g.schema(plays))
				if outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "foreign_") {
					t.Fatalf("the turndown ended as %+v", outcome)
				}
				if d := g.diff(t, g.schema(plays)); d.Outcome != serve.InSync {
					t.Errorf("something was removed:\n%s", changes(d))
				}
			})
		})
	}
}

func TestTurndownOfFunctionsAndGrants(t *testing.T) {
	g := newPostgres(t)
	text := withRoles(t, g, accounts)
	g.push(t, g.schema(text))
	if outcome := g.turnDown(t, g.schema(text)); outcome.Ending != serve.Pushed {
		t.Fatalf("the turndown ended as %+v", outcome)
	}
	if got := g.query(t, "select count(*) from pg_proc where pronamespace = (select oid from pg_namespace where nspname = current_schema())"); got != "0" {
		t.Errorf("%s functions are left", got)
	}
}
