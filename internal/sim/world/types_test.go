package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/virtual"
)

const shopTypes = `edition = "2023";
package shop.v1;
message Queue {
  string name = 1;
  string owner = 2;
  Limits limits = 3;
  map<string, Limits> topics = 4;
  map<uint32, string> shards = 5;
  repeated Limits stages = 6;
  bytes blob = 7;
  Mode mode = 8;
  oneof where { string cell = 9; int64 zone = 10; }
  string token = 11 [debug_redact = true];
  double weight = 12;
  bool open = 13;%s
  message Limits { uint32 most = 1; string key = 2 [debug_redact = true]; }
  enum Mode { MODE_UNSPECIFIED = 0; MODE_A = 1; MODE_B = 2; }
}`

const queue = `name: "q" owner: "o" limits {most: 3 key: "hunter2"} topics {key: "a" value {most: 1 key: "hunter2"}} topics {key: "b"}
shards {key: 7 value: "x"} stages {most: 1} stages {most: 2} blob: "b" mode: MODE_A zone: 4 token: "hunter2" weight: 1.5 open: true`

// typed is a bench whose types are a tenant's own, of an incarnation each.
func typed(t *testing.T, seed uint64, class plugin.Guarantee, more ...string) *bench {
	t.Helper()
	b := &bench{t: t, sim: virtual.New(seed, dawn), bodies: map[intent.IncarnationID]map[intent.AssetID][]byte{}, permit: func() error { return nil }}
	sets := map[intent.IncarnationID]*schema.Set{}
	for i, fields := range more {
		compiled, findings := schema.Compile(t.Context(), []schema.SourceFile{{Path: "shop.proto", Text: fmt.Appendf(nil, shopTypes, fields)}}, nil)
		if len(findings) > 0 {
			t.Fatal(findings)
		}
		sets[at(intent.Sequence(i+1))] = compiled.Set
	}
	b.world = New(Options{
		Process: b.sim.World("world"), Random: rand.New(rand.NewPCG(seed, 1)), Contents: b,
		Schemas: func(_ context.Context, id intent.IncarnationID) (*schema.Set, error) { return sets[id], nil },
		Served:  func([]string) []plugin.Served { return []plugin.Served{{Type: "shop.v1.Queue", Guarantee: class}} },
	})
	b.world.OnEffect = func(e Effect) { b.effects = append(b.effects, e) }
	for id, set := range sets {
		b.bodies[id] = map[intent.AssetID][]byte{"q": b.text(set, queue)}
	}
	b.start("replica")
	return b
}

// text encodes an asset whose payload is written as text.
func (b *bench) text(set *schema.Set, payload string) []byte {
	b.t.Helper()
	message, err := set.New("shop.v1.Queue")
	if err == nil {
		err = prototext.Unmarshal([]byte(payload), message)
	}
	packed, packing := set.Pack(message)
	content, _, encoding := set.Encode(intent.Asset{ID: "q", Payload: packed})
	if err != nil || packing != nil || encoding != nil {
		b.t.Fatal(err, packing, encoding)
	}
	return content
}

func TestTenantsTypes(t *testing.T) {
	paths := map[string]bool{}
	seeds := uint64(60)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		b := typed(t, 1, plugin.CompareAndSet, "")
		d := b.diff(1, "q")
		if d.ResourceKey != "sim:Queue/q" || strings.Contains(fmt.Sprintf("%+v %s", d, d.Current), "hunter2") {
			t.Fatalf("%+v", d)
		}
		b.enforce(1, "q")
		b.world.Drift("sim:Queue/q", seed)
		d = b.diff(1, "q")
		if len(d.Plan.Changes) == 0 || strings.Contains(fmt.Sprintf("%+v %s", d, d.Current), "hunter2") {
			t.Fatalf("%+v", d)
		}
		paths[d.Plan.Changes[0].Path] = true
		if change := d.Plan.Changes[0]; change.Path == "token" && change.Target != redactedValue {
			t.Errorf("%+v", change)
		}
		b.enforce(1, "q")
	}
	for _, path := range []string{"owner", "limits", `topics["a"]`, "shards[7]", "stages", "blob", "mode", "zone", "token", "weight", "open"} {
		if !paths[path] && !testing.Short() {
			t.Errorf("%s never drifted: %v", path, paths)
		}
	}
}

func TestTypesChange(t *testing.T) {
	b := typed(t, 1, plugin.Unguarded, "\n  string more = 20;", "", "\n  repeated uint32 more = 20;")
	b.bodies[at(1)]["q"] = b.text(mustSet(b, 1), queue+` more: "x"`)
	b.bodies[at(3)]["q"] = b.text(mustSet(b, 3), queue+` more: 4`)
	for _, sequence := range []intent.Sequence{1, 2, 3, 1, 3, 2, 1} {
		b.enforce(sequence, "q")
	}
}

func mustSet(b *bench, sequence intent.Sequence) *schema.Set {
	set, err := b.world.options.Schemas(context.Background(), at(sequence))
	if err != nil {
		b.t.Fatal(err)
	}
	return set
}

func TestWhatDestroys(t *testing.T) {
	less := `name: "q" limits {most: 3 key: "hunter2"} topics {key: "a" value {most: 1 key: "hunter2"}}
shards {key: 7 value: "y"} stages {most: 1} mode: MODE_A zone: 4 token: "hunter2" weight: 1.5`
	for _, class := range []plugin.Guarantee{plugin.CompareAndSet, plugin.Fenced, plugin.Unguarded} {
		b := typed(t, 1, class, "", "")
		b.enforce(1, "q")
		b.bodies[at(2)]["q"] = b.text(mustSet(b, 2), less)
		var destroyed []string
		d := b.diff(2, "q")
		b.push(d)
		if matches, why := b.world.Matches(t.Context(), at(2), "q"); !matches {
			t.Error(why)
		}
		for _, change := range d.Plan.Changes {
			if change.Destructive {
				destroyed = append(destroyed, change.Path)
			}
		}
		want := ""
		if class == plugin.CompareAndSet {
			want = `[blob owner stages topics["b"]]`
		} else {
			want = "[]"
		}
		if got := fmt.Sprint(destroyed); got != want {
			t.Errorf("%s: %s, want %s", class, got, want)
		}
	}
}

func TestASchemaLosesNothingUnasked(t *testing.T) {
	b := newBench(t, 1)
	b.intend(1, "shop/schema", &sqlschemapb.Schema{Database: "sqlite:/x", Sql: "create table a"})
	b.intend(2, "shop/schema", &sqlschemapb.Schema{Database: "sqlite:/x"})
	full, err := b.world.read(t.Context(), at(1), "shop/schema")
	if err != nil {
		t.Fatal(err)
	}
	less, err := b.world.read(t.Context(), at(2), "shop/schema")
	if err != nil {
		t.Fatal(err)
	}
	found, err := less.compare(snapshot{exists: true, payload: full.Payload.Bytes}, plugin.Served{Guarantee: plugin.Unguarded})
	if err != nil || len(found.changes) != 1 || !found.changes[0].Destructive || found.changes[0].Path != "sql" {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestManyEntriesAreOneChange(t *testing.T) {
	b := newBench(t, 1)
	big := frontend("1")
	for i := range 5000 {
		big.Env[fmt.Sprintf("E%d", i)] = strings.Repeat("x", 10)
	}
	b.intend(2, job, big)
	b.enforce(1, job)
	d := b.diff(2, job)
	if len(d.Plan.Changes) != 1 || d.Plan.Changes[0].Path != "env" || len(d.Plan.Changes[0].Target) > 1000 {
		t.Errorf("%d changes", len(d.Plan.Changes))
	}
	b.enforce(2, job)
}

func TestUnmanagedPaths(t *testing.T) {
	tests := []struct {
		pattern, path string
		covers        bool
	}{
		{"replicas", "replicas", true},
		{"replicas", "replicas2", false},
		{"env", `env["A"]`, true},
		{`env["A"]`, `env["A"]`, true},
		{`env["A"]`, `env["AB"]`, false},
		{"env[*]", `env["A"]`, true},
		{"health", "health.path", true},
		{"health.path", "health", false},
	}
	for _, test := range tests {
		if covers(test.pattern, test.path) != test.covers {
			t.Errorf("%s covers %s: %t", test.pattern, test.path, !test.covers)
		}
	}
}
