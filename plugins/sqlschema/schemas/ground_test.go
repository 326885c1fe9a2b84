package schemas

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/serve"
	_ "modernc.org/sqlite"
)

// ground is a real database, and what a test asks of it behind the plugin's
// back.
type ground struct {
	name, url, password, inSchema string
	exec                          func(t *testing.T, sql string)
	// query writes the rows as "a b|a b".
	query func(t *testing.T, sql string) string
}

func newLite(t *testing.T) *ground {
	t.Helper()
	path := filepath.Join(t.TempDir(), "it is.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db := openLite(t, path)
	g := &ground{name: "sqlite", url: "sqlite:" + path}
	g.exec = func(t *testing.T, text string) {
		t.Helper()
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	g.query = func(t *testing.T, text string) string {
		t.Helper()
		rows, err := db.Query(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for rows.Next() {
			values, places := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				places[i] = &values[i]
			}
			if err := rows.Scan(places...); err != nil {
				t.Fatal(err)
			}
			all = append(all, strings.TrimSuffix(fmt.Sprintln(values...), "\n"))
		}
		return strings.Join(all, "|")
	}
	return g
}

func openLite(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+strings.ReplaceAll(path, " ", "%20")+"?_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// onBoth runs a test on both engines.
func onBoth(t *testing.T, test func(t *testing.T, g *ground)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, newPostgres(t)) })
}

// kind reads what the list of the tests names.
var kind serve.Kind

func (g *ground) schema(text string) *sqlschemapb.Schema {
	schema := &sqlschemapb.Schema{Database: g.url, Sql: text, Version: "v1", Schema: g.inSchema}
	if g.password != "" {
		schema.Password = envSecret(g.password)
	}
	return schema
}

func asIntent(t *testing.T, id string, schema *sqlschemapb.Schema, addons ...intent.Message) serve.Intent {
	t.Helper()
	bytes, err := proto.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	return serve.Intent{
		Asset:       intent.Asset{ID: intent.AssetID(id), Payload: intent.Message{Type: "lehr.sqlschema.v1.Schema", Bytes: bytes}, Addons: addons},
		Incarnation: intent.IncarnationID{Partition: "shop", Sequence: 1},
	}
}

// diff looks, and fails when nothing is known.
func (g *ground) diff(t *testing.T, schema *sqlschemapb.Schema) serve.Difference {
	t.Helper()
	d := kind.Diff(t.Context(), []serve.Intent{asIntent(t, "db", schema)})[0]
	if d.Outcome == serve.Unknown {
		t.Fatalf("the difference is unknown: %s", d.Reason)
	}
	return d
}

// refused returns the reason of an unknown difference.
func (g *ground) refused(t *testing.T, schema *sqlschemapb.Schema) string {
	t.Helper()
	d := kind.Diff(t.Context(), []serve.Intent{asIntent(t, "db", schema)})[0]
	if d.Outcome != serve.Unknown {
		t.Fatalf("it was not refused: %+v", d.Plan)
	}
	return d.Reason
}

var pushes atomic.Int64

// allowed permits every effect.
type allowed struct{}

func (allowed) Effect(context.Context) error        { return nil }
func (allowed) Cover(context.Context, string) error { return nil }

func (g *ground) try(t *testing.T, schema *sqlschemapb.Schema, d serve.Difference, permits serve.Permits) serve.Outcome {
	t.Helper()
	return kind.Push(t.Context(), serve.Push{
		ID: intent.PushID(fmt.Sprintf("push-%d", pushes.Add(1))), Asset: asIntent(t, "db", schema),
		Plan: d.Plan.Digest(), Base: d.Base, Progress: func(string) {},
	}, permits)
}

// push brings the database to the schema, and shows that it is.
func (g *ground) push(t *testing.T, schema *sqlschemapb.Schema) serve.Difference {
	t.Helper()
	d := g.diff(t, schema)
	if outcome := g.try(t, schema, d, allowed{}); outcome.Ending != serve.Pushed {
		t.Fatalf("the push ended as %s: %s\n%s", outcome.Ending, outcome.Reason, changes(d))
	}
	after := g.diff(t, schema)
	if after.Outcome != serve.InSync {
		t.Fatalf("after the push it still differs:\n%s", changes(after))
	}
	if after.Health.State != serve.Healthy || after.Health.ObservedVersion != schema.Version {
		t.Fatalf("after the push the health is %+v", after.Health)
	}
	return d
}

// changes writes a plan for comparing: a line a field, ! where it destroys.
func changes(d serve.Difference) string {
	var lines []string
	for _, change := range d.Plan.Changes {
		mark := ""
		if change.Destructive {
			mark = "! "
		}
		lines = append(lines, fmt.Sprintf("%s%s: %s → %s", mark, change.Path, change.Current, change.Target))
	}
	return strings.Join(lines, "\n")
}

// objects are the changes of objects alone.
func objects(d serve.Difference) string {
	var lines []string
	for line := range strings.SplitSeq(changes(d), "\n") {
		if strings.Contains(line, `objects["`) && !strings.Contains(line, "managed objects") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
