package schemas

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/serve"
)

// crashVariable makes this test binary a program that begins a push and kills
// itself before one of its effects.
const crashVariable = "LEHR_TEST_CRASH"

type crashOrder struct {
	Schema json.RawMessage
	// Effect is the one before which it dies, from 1.
	Effect int
}

// mortal kills its own process.
type mortal struct {
	allowed
	effects int
}

func (m *mortal) Effect(context.Context) error {
	if m.effects--; m.effects == 0 {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return nil
}

// crash exits with 0 when the push ended before the effect came.
func crash(text string) int {
	var order crashOrder
	schema := &sqlschemapb.Schema{}
	if json.Unmarshal([]byte(text), &order) != nil || protojson.Unmarshal(order.Schema, schema) != nil {
		return 3
	}
	bytes, err := proto.Marshal(schema)
	if err != nil {
		return 3
	}
	asset := serve.Intent{
		Asset:       intent.Asset{ID: "db", Payload: intent.Message{Type: "lehr.sqlschema.v1.Schema", Bytes: bytes}},
		Incarnation: intent.IncarnationID{Partition: "shop", Sequence: 1},
	}
	kind := newKind(os.Getenv("LEHR_SECRET_LIST"))
	d := kind.Diff(context.Background(), []serve.Intent{asset})[0]
	outcome := kind.Push(context.Background(), serve.Push{ID: "crash", Asset: asset, Plan: d.Plan.Digest(), Base: d.Base, Progress: func(string) {}}, &mortal{effects: order.Effect})
	if outcome.Ending != serve.Pushed {
		fmt.Fprintln(os.Stderr, outcome.Ending, outcome.Reason, d.Reason)
		return 4
	}
	return 0
}

// TestAKilledPushIsWholeOrNotAtAll kills a push before each of its effects.
func TestAKilledPushIsWholeOrNotAtAll(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	onBoth(t, func(t *testing.T, g *ground) {
		before := g.schema("CREATE TABLE t (id integer PRIMARY KEY, a text, b text); CREATE INDEX t_a ON t (a)")
		after := g.schema("CREATE TABLE t (id integer PRIMARY KEY, a text NOT NULL, c text); CREATE INDEX t_c ON t (c); CREATE VIEW v AS SELECT c FROM t; CREATE TABLE u (id integer PRIMARY KEY)")
		g.push(t, before)
		g.exec(t, "insert into t (id, a, b) values (1, 'x', 'y')")
		plan := changes(g.diff(t, after))
		schema, err := protojson.Marshal(after)
		if err != nil {
			t.Fatal(err)
		}
		for effect := 1; ; effect++ {
			order, err := json.Marshal(crashOrder{Schema: schema, Effect: effect})
			if err != nil {
				t.Fatal(err)
			}
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), crashVariable+"="+string(order))
			out, err := child.CombinedOutput()
			if err == nil {
				if effect < 5 {
					t.Errorf("the push has only %d effects", effect-1)
				}
				break
			}
			if status, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
				t.Fatalf("before effect %d: %v\n%s", effect, err, out)
			}
			if got := changes(g.diff(t, after)); got != plan {
				t.Fatalf("killed before effect %d it left\n%s\nwant\n%s", effect, got, plan)
			}
		}
		if d := g.diff(t, after); d.Outcome != serve.InSync {
			t.Errorf("the whole push left\n%s", changes(d))
		}
		if got := g.query(t, "select a from t"); got != "x" {
			t.Errorf("the rows are %q", got)
		}
	})
}
