package prodspec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
)

// TestLayersOfAModel: mappings are merged in the order of from, lists are
// replaced, null takes away, and a mapping over a list of named things is merged
// with those that it names.
func TestLayersOfAModel(t *testing.T) {
	built := newWorld(t, "model").build()
	for field, want := range map[string]map[string]string{
		"replicas":  {"job/front/a": "2", "job/front/b": "7"},
		"version":   {"job/front/a": "v2", "job/front/b": "v2"},
		"binary":    {"job/front/a": "/opt/front/v2", "job/front/b": "/opt/front/v2"},
		"args":      {"job/front/a": "[--three]", "job/front/b": "[--three]"},
		"env":       {"job/front/a": "map[LEVEL:info REGION:eu]", "job/front/b": "map[LEVEL:info REGION:eu]"},
		"base_port": {"job/front/a": "20100", "job/front/b": "20200"},
	} {
		got := payloads(t, built, field)
		for id := range got {
			if !strings.HasPrefix(id, "job/front/") {
				delete(got, id)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
	places := map[intent.AssetID]string{}
	for _, asset := range built.Assets {
		places[asset.ID] = asset.File
	}
	if places["job/front/b"] != "service.yaml" || places["job/mail/a"] != "services/mail.yaml" {
		t.Errorf("made at %v", places)
	}
}

// TestAddonsOfAModel: edges, scopes, versions and what production owns.
func TestAddonsOfAModel(t *testing.T) {
	built := newWorld(t, "model").build()
	const scope, capacity, version = `{"scopes":{"cluster":"a"}}`, `{"dimensions":{"tasks":"payload.replicas"}}`, `{"expression":"payload.version"}`
	for id, want := range map[intent.AssetID]map[string]string{
		"job/mail/a": {
			"ImpactedScope": scope, "Capacity": capacity, "Version": version, "Group": `{"instance":"a","service":"mail"}`,
			"Dependencies": `{"dependencies":[{"at_least":"v1","on":"job/front/a","rule":"RULE_VERSION"}]}`,
		},
		"job/print/a": {
			"ImpactedScope": scope, "Capacity": capacity, "Version": version, "Group": `{"instance":"a","service":"print"}`,
			"Unmanaged": `{"fields":[{"path":"replicas","reason":"the autoscaler's"}]}`,
		},
		"job/print/b": {
			"ImpactedScope": `{"scopes":{"cluster":"b"}}`, "Capacity": capacity, "Version": version, "Group": `{"instance":"b","service":"print"}`,
			"Turndown": `{"reason":"the manifest of print turns cluster b down"}`,
		},
	} {
		if diff := cmp.Diff(want, addons(t, built, id)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}

// TestModelsAreRefused: what is wrong is said at its place in the layer that says
// it.
func TestModelsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		in, old, by          string
		file                 string
		line                 int
		field, message, hint string
	}{
		"a field of the base":   {"service.yaml", "binary:", "binery:", "service.yaml", 2, "binery", "unknown field", "did you mean binary?"},
		"a field of a layer":    {"prod/knobs.yaml", "{replicas: 7}", "{replicaz: 7}", "prod/knobs.yaml", 5, "clusters[1].replicaz", "unknown field", "did you mean replicas?"},
		"a rule, in a layer":    {"prod/knobs.yaml", "{replicas: 7}", "{replicas: 700}", "prod/knobs.yaml", 5, "clusters[1].replicas", "less than or equal to 100", ""},
		"a kind, in a layer":    {"prod/knobs.yaml", "version: v2", "version: [v2]", "prod/knobs.yaml", 1, "version", "must be a text", ""},
		"a name, in a layer":    {"prod/knobs.yaml", "  b:", "  bb:", "prod/knobs.yaml", 5, "clusters.bb", "no element", "did you mean b?"},
		"YAML, in a layer":      {"prod/knobs.yaml", "args: [--three]", "args: [--three", "prod/knobs.yaml", 2, "", "not valid YAML", ""},
		"an empty layer":        {"prod/knobs.yaml", "version: v2\nenv: {DEBUG: null, REGION: eu}\nargs: [--three]\nclusters:\n  b: {replicas: 7}\n", "# later\n", "prod/knobs.yaml", 1, "", "is empty", ""},
		"the model":             {"lehr.yaml", "model: worker", "model: wroker", "lehr.yaml", 10, "generate.others.model", `no model "wroker"`, "did you mean worker?"},
		"two programs":          {"lehr.yaml", "model: worker,", "model: worker, starlark: a.star,", "lehr.yaml", 10, "generate.others.model", "two programs", ""},
		"arguments":             {"lehr.yaml", "model: worker,", "model: worker, args: [a],", "lehr.yaml", 10, "generate.others.args", "for modules", ""},
		"a need that is nobody": {"services/mail.yaml", "job/front/a", "job/front/z", "services/mail.yaml", 4, "lehr.intent.v1.Dependencies.dependencies[0].on", "job/front/z", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "model")
			w.replace(c.in, c.old, c.by)
			built := w.build()
			if built.OK() {
				t.Fatal("it was accepted")
			}
			f := built.Findings[0]
			if f.File != c.file || f.Line != c.line || f.Field != c.field || !strings.Contains(f.Message, c.message) || !strings.Contains(f.Hint, c.hint) {
				t.Errorf("%s:%d %s: %s (%s)", f.File, f.Line, f.Field, f.Message, f.Hint)
			}
		})
	}
}

// TestModelsAreCached: a run is repeated when one of its layers changes, and the
// order of the layers is one of its inputs.
func TestModelsAreCached(t *testing.T) {
	w := newWorld(t, "model")
	w.start()
	runs := w.served(1).Executions
	if runs != 3 {
		t.Errorf("%d runs at first, want 3", runs)
	}
	if b := w.blame(1, "job/front/a", "payload.version"); b.Line == nil || b.Line.File != "prod/knobs.yaml" || b.Line.Line != 1 || b.Line.Source != "knobs" {
		t.Errorf("the version is blamed on %+v", b.Line)
	}
	w.replace("services/mail.yaml", "replicas: 2", "replicas: 4")
	if s := w.served(2); s.Executions != runs+1 {
		t.Errorf("%d runs for one file of two", s.Executions-runs)
	}
	w.replace("prod/knobs.yaml", "replicas: 7", "replicas: 8")
	if s := w.served(3); s.Executions != runs+2 {
		t.Errorf("%d runs for one layer", s.Executions-runs-1)
	}
	w.replace("lehr.yaml", "from: [service, knobs]", "from: [knobs, service]")
	w.replace("prod/knobs.yaml", "  b: {replicas: 8}", "  - {name: c, replicas: 1}")
	s := w.wait("the other order", func(s prodspec.Status) bool { return s.Head.Sequence > 3 })
	if len(s.Findings) > 0 {
		t.Errorf("findings %+v", s.Findings)
	}
	b := w.blame(s.Head.Sequence, "job/front/a", "payload.version")
	if b.Value != `"v1"` || b.Line == nil || b.Line.File != "service.yaml" || b.Line.Line != 5 || b.Origin.Made.File != "service.yaml" {
		t.Errorf("blame %+v", b)
	}
}

// TestModelsAreTheSameInChildren as in one process.
func TestModelsAreTheSameInChildren(t *testing.T) {
	w := newWorld(t, "model")
	w.start()
	w.served(1)
	for _, asset := range w.build().Assets {
		member, err := w.store.Member(t.Context(), intent.IncarnationID{Partition: "shop", Sequence: 1}, asset.ID)
		if err != nil || member.Digest != asset.Digest {
			t.Errorf("%s: %v, and another digest", asset.ID, err)
		}
		if !json.Valid(asset.Asset) {
			t.Errorf("%s is no JSON", asset.ID)
		}
	}
}
