package prodspec_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
)

func (w *world) build() prodspec.Built {
	w.t.Helper()
	program := prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: generate.InProcess{Limits: generate.DefaultLimits()}}
	built, err := prodspec.Build(w.t.(*testing.T).Context(), program, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return built
}

// addons of an asset, as people see them.
func addons(t *testing.T, built prodspec.Built, id intent.AssetID) map[string]string {
	t.Helper()
	if !built.OK() {
		t.Fatalf("findings %+v", built.Findings)
	}
	for _, asset := range built.Assets {
		if asset.ID != id {
			continue
		}
		var content struct {
			Addons map[string]json.RawMessage `json:"addons"`
		}
		if err := json.Unmarshal(asset.Asset, &content); err != nil {
			t.Fatal(err)
		}
		list := map[string]string{}
		for name, text := range content.Addons {
			var compact any
			if err := json.Unmarshal(text, &compact); err != nil {
				t.Fatal(err)
			}
			encoded, err := json.Marshal(compact)
			if err != nil {
				t.Fatal(err)
			}
			list[strings.TrimPrefix(name, "lehr.intent.v1.")] = string(encoded)
		}
		return list
	}
	t.Fatalf("no asset %s", id)
	return nil
}

// TestDerivedAddons: each kind, what the generator gave wins, and edges,
// scopes and labels are merged.
func TestDerivedAddons(t *testing.T) {
	w := newWorld(t, "derive")
	built := w.build()
	for id, want := range map[intent.AssetID]map[string]string{
		"web/a": {
			"Dependencies": `{"dependencies":[{"expects":"upstreams","on":"balancer/a","rule":"RULE_CAPACITY","serves":"tasks"},` +
				`{"at_least":"2","on":"migrate/main","rule":"RULE_VERSION"}]}`,
			"ImpactedScope": `{"scopes":{"cluster":"a"}}`, "Capacity": `{"dimensions":{"tasks":"payload.replicas"}}`,
			"Version": `{"expression":"payload.version"}`, "Owner": `{"owner":"web@example.com"}`,
			"Labels": `{"labels":{"tier":"front","version":"1.2"}}`, "Group": `{"instance":"web/a","service":"web"}`,
		},
		"web/b": {
			"Dependencies":  `{"dependencies":[{"on":"web/a","rule":"RULE_ORDER"},{"on":"balancer/b","rule":"RULE_CAPACITY","serves":"tasks"}]}`,
			"ImpactedScope": `{"scopes":{"cluster":"b"}}`, "Capacity": `{"dimensions":{"tasks":"payload.replicas"}}`,
			"Version": `{"expression":"payload.version"}`, "Owner": `{"owner":"b@example.com"}`,
			"Labels": `{"labels":{"tier":"back","version":"1.2"}}`, "Group": `{"instance":"web/b","service":"web"}`,
		},
		"balancer/a":  {"Owner": `{"owner":"web@example.com"}`},
		"lehr/policy": {},
	} {
		if diff := cmp.Diff(want, addons(t, built, id)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}

// TestDerivationsAreRefused: each expression is checked against the types
// before anything is generated.
func TestDerivationsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		old, by       string
		line          int
		field         string
		message, hint string
	}{
		"unknown type":      {`where: type == "Job" && !id`, `where: type == "Jobb" && !id`, 10, "generate.order.where", "Jobb", "Job"},
		"unknown field":     {"dimensions: {tasks: payload.replicas}", "dimensions: {tasks: payload.replicaz}", 16, "generate.sizes.dimensions.tasks", "replicaz", "replicas"},
		"field of another":  {"expression: payload.version", "expression: payload.upstreams", 17, "generate.versions.expression", "upstreams", ""},
		"syntax":            {`owner: '"web@example.com"'`, `owner: '"web@'`, 18, "generate.owners.owner", "", ""},
		"text unquoted":     {`owner: '"web@example.com"'`, `owner: web@example.com`, 18, "generate.owners.owner", "not CEL", `'"web@example.com"'`},
		"unknown addon":     {"derive: Owner", "derive: Ownr", 18, "generate.owners.derive", "Ownr", "did you mean Owner?"},
		"no addon of these": {"derive: Owner, ", "derive: Policy, ", 18, "generate.owners.derive", "Policy", "the addons are"},
		"unknown key":       {"serves: tasks", "srves: tasks", 12, "generate.order.edges[0].srves", "unknown field", "serves"},
		"unknown rule":      {"rule: order", "rule: after", 14, "generate.order.edges[2].rule", "after", "order, capacity or version"},
		"no version":        {`at_least: 'payload.env["NEEDS"]', `, "", 13, "generate.order.edges[1].at_least", "missing", ""},
		"version of order":  {"rule: order,", "rule: order, at_least: '\"2\"',", 14, "generate.order.edges[2].at_least", "rule: version", ""},
		"serves of order":   {"rule: order,", "rule: order, serves: tasks,", 14, "generate.order.edges[2].serves", "rule: capacity", ""},
		"from a derivation": {"from: [jobs]", "from: [jobs, owners]", 7, "generate.web.from[1]", "gives no assets", ""},
		"with a program":    {"derive: Owner", "starlark: a.star, derive: Owner", 18, "generate.owners.starlark", "unknown field", ""},
		"no value":          {`service: payload.name, `, "", 20, "generate.groups.service", "missing", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "derive")
			w.replace("lehr.yaml", c.old, c.by)
			built := w.build()
			if len(built.Findings) == 0 {
				t.Fatal("it was accepted")
			}
			f := built.Findings[0]
			if f.File != "lehr.yaml" || f.Line != c.line || f.Field != c.field || !strings.Contains(f.Message, c.message) || !strings.Contains(f.Hint, c.hint) {
				t.Errorf("%s:%d %s: %s (%s)", f.File, f.Line, f.Field, f.Message, f.Hint)
			}
		})
	}
}

// TestDerivationFails: what cannot be evaluated names derivation, asset,
// expression and place; head stays.
func TestDerivationFails(t *testing.T) {
	w := newWorld(t, "derive")
	w.start()
	w.served(1)
	w.replace("lehr.yaml", `, when: '"NEEDS" in payload.env'`, "")
	f := w.refused(prodspec.Rejected, 1)
	if f.Rule != "derive" || f.File != "lehr.yaml" || f.Line != 13 || f.Asset != "web/b" || f.Field != "generate.order.edges[1].at_least" ||
		!strings.Contains(f.Message, `payload.env["NEEDS"]`) || !strings.Contains(f.Message, "generate.order") {
		t.Errorf("finding %+v", f)
	}
	// The place follows the file, though nothing else changed.
	w.replace("lehr.yaml", "mode: enforce", "# A comment.\nmode: enforce")
	w.wait("the new place", func(s prodspec.Status) bool { return len(s.Findings) > 0 && s.Findings[0].Line == 14 })
}

// TestFindingsNameTheDerivation: the program that made the asset says nothing
// of the addon.
func TestFindingsNameTheDerivation(t *testing.T) {
	w := newWorld(t, "derive")
	w.replace("lehr.yaml", `'"balancer/" + scope'`, `'"lb/" + scope'`)
	w.replace("web.star", `on = "web/a"`, `on = "web/c"`)
	built := w.build()
	places := map[string]string{}
	for _, f := range built.Findings {
		places[f.Message] = f.File
	}
	want := map[string]string{
		"asset web/a depends on lb/a in lehr.intent.v1.Dependencies.dependencies[0].on, which does not exist (derived by generate.order)": "lehr.yaml",
		"asset web/b depends on lb/b in lehr.intent.v1.Dependencies.dependencies[2].on, which does not exist (derived by generate.order)": "lehr.yaml",
		"asset web/b depends on web/c in lehr.intent.v1.Dependencies.dependencies[0].on, which does not exist":                            "web.star",
	}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDerivationsChange: what is derived follows the definition, also for
// generators that read other generators' assets.
func TestDerivationsChange(t *testing.T) {
	w := newWorld(t, "derive")
	w.start()
	first := w.served(1).Head
	w.replace("lehr.yaml", `owner: '"web@example.com"'`, `owner: '"new@example.com"'`)
	second := w.served(2).Head
	changes, err := w.store.Changes(t.Context(), first, second, "", 100)
	if err != nil || len(changes) != 4 {
		t.Errorf("%d changes, %v: want all but the policy and the asset with its own owner", len(changes), err)
	}
	if got := w.found(second, "lehr.intent.v1.Owner.owner", "new@example.com"); got != "balancer/a balancer/b migrate/main web/a" {
		t.Errorf("found %q", got)
	}
}
