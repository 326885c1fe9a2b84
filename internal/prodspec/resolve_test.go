package prodspec_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
)

// resolving is the partition of testdata/resolve with these entries of generate
// beside what it has.
func resolving(t *testing.T, entries ...string) *world {
	w := newWorld(t, "resolve")
	w.replace("lehr.yaml", "plugins:", strings.Join(entries, "\n")+"\nplugins:")
	return w
}

// payloads of the jobs, as people see them.
func payloads(t *testing.T, built prodspec.Built, field string) map[string]string {
	t.Helper()
	if !built.OK() {
		t.Fatalf("findings %+v", built.Findings)
	}
	found := map[string]string{}
	for _, asset := range built.Assets {
		var content struct {
			Payload map[string]any `json:"payload"`
		}
		if err := json.Unmarshal(asset.Asset, &content); err != nil {
			t.Fatal(err)
		}
		if asset.ID != intent.PolicyAsset {
			found[string(asset.ID)] = fmt.Sprint(content.Payload[field])
		}
	}
	return found
}

const ample = `  ample: {resolve: Job, where: payload.replicas < 3, only: {environment: [prod]}, set: {payload.replicas: "3"}, reason: "two may be down at once"}`

// TestResolvers: what each kind of field takes, and what expressions see.
func TestResolvers(t *testing.T) {
	for name, c := range map[string]struct {
		entry, field string
		want         map[string]string
	}{
		"set a number": {ample, "replicas", map[string]string{"web/dev": "1", "web/prod": "3"}},
		"of all":       {`  all: {resolve: Job, set: {payload.replicas: payload.replicas + 1u}, reason: more}`, "replicas", map[string]string{"web/dev": "2", "web/prod": "3"}},
		"by a label":   {`  all: {resolve: Job, only: {tier: front}, set: {payload.version: '"2"'}, reason: new}`, "version", map[string]string{"web/dev": "1", "web/prod": "2"}},
		"an entry": {`  all: {resolve: Job, where: scope == "prod", set: {'payload.env["LEVEL"]': '"warn"'}, reason: quiet}`, "env",
			map[string]string{"web/dev": "<nil>", "web/prod": "map[LEVEL:warn]"}},
		"a list": {`  all: {resolve: Job, set: {payload.args: 'payload.args + ["--to=" + id]'}, reason: quiet}`, "args",
			map[string]string{"web/dev": "[--one --to=web/dev]", "web/prod": "[--one --to=web/prod]"}},
		"within": {`  all: {resolve: Job, only: {environment: [prod]}, set: {payload.update.stop_grace: 'duration("20s")'}, reason: slow}`, "update",
			map[string]string{"web/dev": "<nil>", "web/prod": "map[stop_grace:20s]"}},
		"fill what is unset": {`  all: {resolve: Job, fill: {payload.base_port: "20000", payload.version: '"9"'}, reason: usual}`, "base_port",
			map[string]string{"web/dev": "20000", "web/prod": "20000"}},
		"fill leaves what is set": {`  all: {resolve: Job, fill: {payload.version: '"9"'}, reason: usual}`, "version", map[string]string{"web/dev": "1", "web/prod": "1"}},
		"fill of nothing":         {`  all: {resolve: Job, fill: {payload.health.path: 'payload.env.size() > 0 ? "/" : ""'}, reason: usual}`, "health", map[string]string{"web/dev": "<nil>", "web/prod": "<nil>"}},
		"in the order of the file": {`  one: {resolve: Job, set: {payload.replicas: "5"}, reason: a}
  two: {resolve: Job, where: payload.replicas == 5, set: {payload.version: '"five"'}, reason: b}`, "version", map[string]string{"web/dev": "five", "web/prod": "five"}},
		"fills come first": {`  one: {resolve: Job, where: payload.base_port == 20000, set: {payload.version: '"filled"'}, reason: a}
  two: {resolve: Job, fill: {payload.base_port: "20000"}, reason: b}`, "version", map[string]string{"web/dev": "filled", "web/prod": "filled"}},
		"agreed": {`  one: {resolve: Job, set: {payload.replicas: "5"}, reason: a}
  two: {resolve: Job, set: {payload.replicas: "4 + 1"}, reason: b}`, "replicas", map[string]string{"web/dev": "5", "web/prod": "5"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, payloads(t, resolving(t, c.entry).build(), c.field)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDerivedOfResolved: labels and scopes are derived before opinions, and
// edges after.
func TestDerivedOfResolved(t *testing.T) {
	w := resolving(t, ample, `  order: {derive: Dependencies, where: type == "Job" && payload.replicas == 3, edges: [{rule: order, on: '"web/dev"'}]}`)
	built := w.build()
	if got := addons(t, built, "web/prod")["Dependencies"]; !strings.Contains(got, "web/dev") {
		t.Errorf("edges %s", got)
	}
	if got := addons(t, built, "web/dev")["Dependencies"]; got != "" {
		t.Errorf("edges %s", got)
	}
	for _, asset := range built.Assets {
		want := []prodspec.Resolved(nil)
		if asset.ID == "web/prod" {
			want = []prodspec.Resolved{{Resolver: "ample", Field: "payload.replicas", Was: "2", Reason: "two may be down at once"}}
		}
		if diff := cmp.Diff(want, asset.Resolved); diff != "" {
			t.Errorf("%s (-want +got):\n%s", asset.ID, diff)
		}
	}
}

// TestResolversAreRefused: what is wrong is said before anything is generated,
// with its place and what may be meant.
func TestResolversAreRefused(t *testing.T) {
	const conflict = `  one: {resolve: Job, set: {payload.replicas: "5"}, reason: a}
  two: {resolve: Job, where: id == "web/prod", set: {payload.replicas: "6"}, reason: b}`
	for name, c := range map[string]struct{ entry, field, message, hint string }{
		"field":         {`  r: {resolve: Job, set: {payload.replicaz: "3"}, reason: a}`, "generate.r.set.payload.replicaz", `no field "replicaz"`, "did you mean replicas?"},
		"nested":        {`  r: {resolve: Job, set: {payload.health.pat: '"/"'}, reason: a}`, "generate.r.set.payload.health.pat", `no field "pat"`, "did you mean path?"},
		"of an addon":   {`  r: {resolve: Job, set: {addons.Owner.owner: '"a"'}, reason: a}`, "generate.r.set.addons.Owner.owner", "not a field of the payload", "payload."},
		"kind":          {`  r: {resolve: Job, set: {payload.replicas: '"3"'}, reason: a}`, "generate.r.set.payload.replicas", "a text, and payload.replicas is a uint32", ""},
		"list":          {`  r: {resolve: Job, set: {payload.args: "[1]"}, reason: a}`, "generate.r.set.payload.args", "list of a texts", ""},
		"key":           {`  r: {resolve: Job, set: {'payload.env[KEY]': '"a"'}, reason: a}`, "generate.r.set.payload.env[KEY]", "not a text in quotes", `payload.env["KEY"]`},
		"expression":    {`  r: {resolve: Job, set: {payload.replicas: payload.replica}, reason: a}`, "generate.r.set.payload.replicas", "replica", "did you mean replicas?"},
		"condition":     {`  r: {resolve: Job, where: payload.replica < 3, set: {payload.replicas: "3"}, reason: a}`, "generate.r.where", "replica", "did you mean replicas?"},
		"no truth":      {`  r: {resolve: Job, where: payload.replicas, set: {payload.replicas: "3"}, reason: a}`, "generate.r.where", "not a truth value", ""},
		"type":          {`  r: {resolve: Jub, set: {payload.replicas: "3"}, reason: a}`, "generate.r.resolve", "Jub", "Job"},
		"policy":        {`  r: {resolve: lehr.intent.v1.Policy, set: {payload.owner: '"me"'}, reason: a}`, "generate.r.resolve", "no resolver changes it", "lehr.yaml"},
		"no reason":     {`  r: {resolve: Job, set: {payload.replicas: "3"}}`, "generate.r.reason", "missing", "lehr blame"},
		"nothing":       {`  r: {resolve: Job, reason: a}`, "generate.r.set", "missing", "fill"},
		"both":          {`  r: {resolve: Job, set: {payload.version: '"3"'}, fill: {payload.replicas: "2"}, reason: a}`, "generate.r.fill", "set and fill", "two"},
		"unknown key":   {`  r: {resolve: Job, sets: {payload.replicas: "3"}, reason: a}`, "generate.r.sets", "unknown field", "did you mean set?"},
		"too large":     {`  r: {resolve: Job, where: scope == "prod", set: {payload.replicas: "3 - 4"}, reason: a}`, "generate.r.set.payload.replicas", "gives -1, and the field is a uint32", ""},
		"disagreement":  {conflict, "generate.two.set.payload.replicas", "generate.two and generate.one (line 10) set payload.replicas of asset web/prod to different values", "only"},
		"by the whole":  {`  one: {resolve: Job, set: {'payload.env["A"]': '"5"'}, reason: a}` + "\n" + `  two: {resolve: Job, set: {payload.env: '{"B": "6"}'}, reason: b}`, "generate.two.set.payload.env", "different values", ""},
		"a broken rule": {`  r: {resolve: Job, set: {payload.replicas: "2000"}, reason: a}`, "lehr.process.v1.Job.replicas", "(set by generate.r)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			built := resolving(t, c.entry).build()
			if built.OK() {
				t.Fatal("it was accepted")
			}
			f := built.Findings[0]
			if f.File != "lehr.yaml" || f.Line < 10 || f.Field != c.field || !strings.Contains(f.Message, c.message) || !strings.Contains(f.Hint, c.hint) {
				t.Errorf("%s:%d %s: %s (%s)", f.File, f.Line, f.Field, f.Message, f.Hint)
			}
		})
	}
}

// TestBlameOfResolvers names the resolver, its line and reason, and what the
// value was; an opinion is switched on environment by environment.
func TestBlameOfResolvers(t *testing.T) {
	w := resolving(t, strings.Replace(ample, "[prod]", "[dev]", 1))
	w.start()
	w.served(1)
	w.replace("lehr.yaml", "environment: [dev]", "environment: [dev, prod]")
	w.served(2)
	for id, since := range map[intent.AssetID]intent.Sequence{"web/dev": 1, "web/prod": 2} {
		b := w.blame(2, id, "payload.replicas")
		if b.Value != "3" || b.Since.Sequence != since || len(b.Origin.Derived) != 1 || b.Line != nil {
			t.Fatalf("%s: %+v", id, b)
		}
		was := map[intent.AssetID]string{"web/dev": "1", "web/prod": "2"}[id]
		if d := b.Origin.Derived[0]; d.Derivation != "ample" || d.Reason != "two may be down at once" || d.Was != was || d.Place.Line != 10 || d.Place.File != "lehr.yaml" {
			t.Errorf("%s: %+v", id, d)
		}
		if b := w.blame(2, id, "payload.version"); len(b.Origin.Derived) != 0 {
			t.Errorf("%s: the version is blamed on %+v", id, b.Origin.Derived)
		}
	}
	changes, err := w.store.Changes(t.Context(), intent.IncarnationID{Partition: "shop", Sequence: 1}, intent.IncarnationID{Partition: "shop", Sequence: 2}, "", 100)
	if err != nil || len(changes) != 1 || changes[0].Asset != "web/prod" {
		t.Errorf("changes %+v, %v", changes, err)
	}
	// A reason is for people: nothing runs again for it.
	before := w.pipeline.Status()
	w.replace("lehr.yaml", "two may be down at once", "three may")
	after := w.wait("the new reason", func(s prodspec.Status) bool {
		return len(s.Findings) == 0 && !cmp.Equal(s.Sources, before.Sources)
	})
	if after.Executions != before.Executions {
		t.Errorf("%d runs for a new reason", after.Executions-before.Executions)
	}
}

// TestLintOfResolvers: what changes nothing, and environments that are not there.
func TestLintOfResolvers(t *testing.T) {
	w := resolving(t, strings.Replace(ample, "[prod]", "[prod, sandbox, prd]", 1),
		`  idle: {resolve: Job, where: payload.replicas > 100, set: {payload.replicas: "100"}, reason: a}`)
	program := prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: generate.InProcess{Limits: generate.DefaultLimits()}}
	built, err := prodspec.Lint(t.Context(), program, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, f := range built.Findings {
		if strings.Contains(f.Message, "resolver") {
			said = append(said, fmt.Sprintf("%d %s (%s)", f.Line, f.Message, f.Hint))
		}
	}
	want := []string{
		"10 the resolver ample is on for environment sandbox, which no asset has (there are dev, prod)",
		"10 the resolver ample is on for environment prd, which no asset has (did you mean prod? there are dev, prod)",
		"11 the resolver idle changes no asset (its where matches none, or each has what it would set already)",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
