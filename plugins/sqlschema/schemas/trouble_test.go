package schemas

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"lehr.dev/sdk/plugintest/testbed"
	"lehr.dev/sdk/serve"
)

// TestTroubleOnTheWayToPostgres puts a proxy before a real server: what cannot be read is
// unknown, a push fails and leaves no half of it, and when it is over nothing is left.
func TestTroubleOnTheWayToPostgres(t *testing.T) {
	for name, one := range map[string]testbed.Trouble{
		"refused":            {Refuse: true},
		"hung":               {Hang: true},
		"cut at once":        {Cut: true},
		"cut in the login":   {Cut: true, After: 100},
		"cut in the answers": {Cut: true, After: 900},
		"garbled":            {Garble: true},
		"garbled later":      {Garble: true, After: 900},
	} {
		t.Run(name, func(t *testing.T) {
			g := newPostgres(t)
			direct := fmt.Sprintf("127.0.0.1:%d", startCluster(t).port)
			proxy := testbed.NewProxy(t, direct)
			g.url = strings.Replace(g.url, direct, proxy.Address(), 1)
			first := g.schema("CREATE TABLE plays (id int PRIMARY KEY)")
			g.push(t, first)
			second := g.schema("CREATE TABLE plays (id int PRIMARY KEY, title text); CREATE TABLE authors (id int PRIMARY KEY)")
			planned := g.diff(t, second)

			proxy.Hurt(one)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if d := kind.Diff(ctx, []serve.Intent{asIntent(t, "db", first)})[0]; d.Outcome != serve.Unknown || d.Reason == "" || ctx.Err() != nil {
				t.Errorf("it is told as %v, %q", d.Outcome, d.Reason)
			}
			if outcome := g.try(t, second, planned, allowed{}); outcome.Ending == serve.Pushed {
				t.Errorf("a push ends %+v", outcome)
			}
			if got := g.query(t, tablesHere); got != "plays" {
				t.Errorf("there is %s", got)
			}
			proxy.Heal()
			g.push(t, second)
		})
	}
}

// TestAPushWhoseAnswerIsCutIsAllOrNothing cuts the way in the moment before the change.
func TestAPushWhoseAnswerIsCutIsAllOrNothing(t *testing.T) {
	g := newPostgres(t)
	direct := fmt.Sprintf("127.0.0.1:%d", startCluster(t).port)
	proxy := testbed.NewProxy(t, direct)
	g.url = strings.Replace(g.url, direct, proxy.Address(), 1)
	schema := g.schema("CREATE TABLE plays (id int PRIMARY KEY); CREATE TABLE authors (id int PRIMARY KEY)")
	planned := g.diff(t, schema)
	for _, after := range []int64{0, 30, 200} {
		cutting := before{func() { proxy.Hurt(testbed.Trouble{Cut: true, After: after}) }}
		outcome := g.try(t, schema, planned, cutting)
		proxy.Heal()
		got := g.query(t, tablesHere)
		if got != "" && got != "authors|plays" || outcome.Ending == serve.Pushed && got == "" {
			t.Errorf("cut after %d bytes it ends as %s, and there is %q", after, outcome.Ending, got)
		}
		if planned = g.diff(t, schema); planned.Outcome == serve.InSync {
			break
		}
	}
	if planned.Outcome != serve.InSync {
		g.push(t, schema)
	}
}

const tablesHere = `select relname::text from pg_class c join pg_namespace n on n.oid = relnamespace where relkind = 'r' and nspname = current_schema() and relname <> 'lehr_schema_versions' order by 1`

// before does something before each effect.
type before struct{ do func() }

func (b before) Effect(context.Context) error        { b.do(); return nil }
func (b before) Cover(context.Context, string) error { return nil }
