package schemas

import (
	"strings"
	"testing"

	"lehr.dev/sdk/serve"
)

// TestTypesAndSequences: what of them can be changed in place is, and what cannot
// changes nothing and is named.
func TestTypesAndSequences(t *testing.T) {
	g := newPostgres(t)
	const before = `CREATE TYPE mood AS ENUM ('ok'); CREATE DOMAIN size AS int CHECK (VALUE > 0); CREATE SEQUENCE s;
		CREATE TABLE t (id bigint, m mood, n size); ALTER SEQUENCE s OWNED BY t.id; ALTER TABLE t ALTER COLUMN id SET DEFAULT nextval('s');
		ALTER TABLE ONLY t ADD CONSTRAINT t_pkey PRIMARY KEY (id)`
	g.push(t, g.schema(before))
	g.exec(t, "insert into t (m, n) values ('ok', 1)")
	for name, step := range map[string]struct{ from, to string }{
		"labels":       {"('ok')", "('sad', 'ok', 'good', 'best')"},
		"a sequence":   {"CREATE SEQUENCE s", "CREATE SEQUENCE s INCREMENT 5 CACHE 3"},
		"not owned":    {"ALTER SEQUENCE s OWNED BY t.id;", ""},
		"a constraint": {"PRIMARY KEY (id)", "PRIMARY KEY (id, m)"},
		"a default":    {"nextval('s')", "nextval('s') + 1"},
		"a column":     {"m mood", "m mood, o mood DEFAULT 'ok'"},
		"a new one":    {"CREATE TABLE", "CREATE TYPE other AS ENUM ('a', 'b'); CREATE TABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newPostgres(t)
			g.push(t, g.schema(before))
			g.exec(t, "insert into t (m, n) values ('ok', 1)")
			g.push(t, g.schema(strings.Replace(before, step.from, step.to, 1)))
			if got := g.query(t, "select m, n from t"); got != "ok 1" {
				t.Errorf("the rows are %q", got)
			}
		})
	}
	for name, step := range map[string]struct{ from, to, want string }{
		"a label that goes": {"('ok')", "('good')", "enum mood"},
		"a domain":          {"VALUE > 0", "VALUE > 1", "domain size"},
	} {
		t.Run(name, func(t *testing.T) {
			schema := g.schema(strings.Replace(before, step.from, step.to, 1))
			d := g.diff(t, schema)
			if got := objects(d); !strings.Contains(got, step.want) {
				t.Errorf("the plan says\n%s", got)
			}
			if outcome := g.try(t, schema, d, allowed{}); outcome.Ending == serve.Pushed || !strings.Contains(outcome.Reason, step.want) {
				t.Errorf("the push ended as %s: %s", outcome.Ending, outcome.Reason)
			}
			if d := g.diff(t, g.schema(before)); d.Outcome != serve.InSync {
				t.Errorf("something was changed:\n%s", changes(d))
			}
		})
	}
	t.Run("by hand", func(t *testing.T) {
		g.exec(t, "alter sequence s increment 7")
		if got := objects(g.diff(t, g.schema(before))); !strings.Contains(got, "sequence s") {
			t.Errorf("the drift is\n%s", got)
		}
		g.push(t, g.schema(before))
	})
}
