package validate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

func job(name string) *processpb.Job { return &processpb.Job{Name: name, Binary: "/bin/true"} }

func TestRules(t *testing.T) {
	commands := &intentpb.PluginBinding{Type: "lehr.command.v1.Command", Run: []string{"lehr-command"}}
	bound := &intentpb.Policy{Plugins: []*intentpb.PluginBinding{commands}}
	tests := []struct {
		name   string
		head   []store.Entry
		before *intentpb.Policy
		policy *intentpb.Policy
		delta  []store.Entry
		// want is the one finding; its place is filled in. Empty rule: none.
		want intent.Finding
	}{
		{
			name:  "a good asset",
			delta: []store.Entry{plain(t, "a", ""), entry(t, "b", job("b"), dependsOn("a"))},
		},
		{
			name:  "protovalidate on the payload",
			delta: []store.Entry{entry(t, "a", &processpb.Job{Name: "a", Replicas: 1001, Binary: "/b"})},
			want: intent.Finding{Rule: "content", Severity: intent.Error, Asset: "a", Field: "lehr.process.v1.Job.replicas",
				Message: "asset a: replicas: must be less than or equal to 1000"},
		},
		{
			name:  "protovalidate on an addon",
			delta: []store.Entry{entry(t, "a", job("a"), &intentpb.Unmanaged{Fields: []*intentpb.UnmanagedField{{Path: "replicas"}}})},
			want: intent.Finding{Rule: "content", Severity: intent.Error, Asset: "a", Field: "lehr.intent.v1.Unmanaged.fields[0].reason",
				Message: "asset a: fields[0].reason: must be at least 1 characters"},
		},
		{
			name:  "a reference to nothing",
			delta: []store.Entry{entry(t, "a", job("a"), dependsOn("b"))},
			want: intent.Finding{Rule: "reference", Severity: intent.Error, Asset: "a", Field: "lehr.intent.v1.Dependencies.dependencies[0].on",
				Message: "asset a depends on b in lehr.intent.v1.Dependencies.dependencies[0].on, which does not exist", Hint: "add the asset to this partition, or correct the reference"},
		},
		{
			name:  "a reference to what the candidate removes",
			head:  []store.Entry{plain(t, "b", ""), plain(t, "c", "")},
			delta: []store.Entry{entry(t, "a", job("a"), dependsOn("b")), removed("b")},
			want: intent.Finding{Rule: "reference", Severity: intent.Error, Asset: "a", Field: "lehr.intent.v1.Dependencies.dependencies[0].on",
				Message: "asset a refers to b in lehr.intent.v1.Dependencies.dependencies[0].on, which this candidate removes", Hint: "keep the asset, or remove the reference"},
		},
		{
			name:  "removal of what an untouched asset refers to",
			head:  []store.Entry{plain(t, "b", ""), entry(t, "c", job("c"), dependsOn("b"))},
			delta: []store.Entry{removed("b")},
			want: intent.Finding{Rule: "reference", Severity: intent.Error, Asset: "c", Field: "lehr.intent.v1.Dependencies.dependencies[0].on",
				Message: "asset c refers to b in lehr.intent.v1.Dependencies.dependencies[0].on, which this candidate removes", Hint: "keep the asset, or remove the reference"},
		},
		{
			name:  "removal together with the reference",
			head:  []store.Entry{plain(t, "b", ""), entry(t, "c", job("c"), dependsOn("b"))},
			delta: []store.Entry{removed("b"), entry(t, "c", job("c"))},
		},
		{
			name:  "removal together with who refers",
			head:  []store.Entry{plain(t, "a", ""), plain(t, "b", ""), entry(t, "c", job("c"), dependsOn("b"))},
			delta: []store.Entry{removed("b"), removed("c")},
		},
		{
			name:  "a reference of a type that is not allowed",
			delta: []store.Entry{restricted(t, "a", "b"), plain(t, "b", "")},
			want: intent.Finding{Rule: "reference", Severity: intent.Error, Asset: "a", Field: "f",
				Message: "asset a refers to b in f, which is a lehr.command.v1.Command; allowed: lehr.process.v1.Job, x.Y", Hint: "name an asset of an allowed type"},
		},
		{
			name:  "a reference that is no id",
			delta: []store.Entry{entry(t, "a", job("a"), dependsOn("Not An Id"))},
			want: intent.Finding{Rule: "reference", Severity: intent.Error, Asset: "a", Field: "lehr.intent.v1.Dependencies.dependencies[0].on",
				Message: `asset a: lehr.intent.v1.Dependencies.dependencies[0].on does not name an asset: asset id "Not An Id": segment "Not An Id" is not of the form [a-z0-9][a-z0-9._-]*`},
		},
		{
			name:  "an asset that depends on itself",
			delta: []store.Entry{entry(t, "a", job("a"), dependsOn("a"))},
			want: intent.Finding{Rule: "cycle", Severity: intent.Error, Asset: "a", Field: "lehr.intent.v1.Dependencies",
				Message: "asset a depends on itself", Hint: "remove one of the dependencies"},
		},
		{
			name:  "a cycle closed through the base",
			head:  []store.Entry{entry(t, "b", job("b"), dependsOn("c")), entry(t, "c", job("c"), dependsOn("d")), plain(t, "d", "")},
			delta: []store.Entry{entry(t, "d", &commandpb.Command{Diff: []string{"d"}, Push: []string{"p"}}, dependsOn("b"))},
			want: intent.Finding{Rule: "cycle", Severity: intent.Error, Asset: "b", Field: "lehr.intent.v1.Dependencies",
				Message: "3 assets depend on each other in a circle: b → c → d → b", Hint: "remove one of the dependencies"},
		},
		{
			name:  "an id that changes its type",
			head:  []store.Entry{plain(t, "a", "")},
			delta: []store.Entry{entry(t, "a", job("a"))},
			want: intent.Finding{Rule: "identity", Severity: intent.Error, Asset: "a",
				Message: "asset a is a lehr.command.v1.Command in shop@1 and a lehr.process.v1.Job in this candidate; an id keeps its type", Hint: "give the new asset another id"},
		},
		{
			name:  "a policy under another id",
			delta: []store.Entry{entry(t, "a", &intentpb.Policy{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OFF})},
			want: intent.Finding{Rule: "policy", Severity: intent.Error, Asset: "a",
				Message: "asset a is a lehr.intent.v1.Policy; a partition's policy is the asset lehr/policy of type lehr.intent.v1.Policy, and no other is", Hint: "choose another id or type"},
		},
		{
			name:   "a plugin for an unknown type",
			policy: &intentpb.Policy{Plugins: []*intentpb.PluginBinding{commands, {Type: "lehr.process.v1.Jop", Run: []string{"x"}}}},
			delta:  []store.Entry{plain(t, "a", "")},
			want: intent.Finding{Rule: "plugin", Severity: intent.Error, Asset: intent.PolicyAsset, Field: "lehr.intent.v1.Policy.plugins[1].type",
				Message: `a plugin is bound to "lehr.process.v1.Jop", which is no known message type`, Hint: "did you mean lehr.process.v1.Job?"},
		},
		{
			name:   "two plugins for a type",
			policy: &intentpb.Policy{Plugins: []*intentpb.PluginBinding{commands, commands}},
			delta:  []store.Entry{plain(t, "a", "")},
			want: intent.Finding{Rule: "plugin", Severity: intent.Error, Asset: intent.PolicyAsset, Field: "lehr.intent.v1.Policy.plugins[1].type",
				Message: "two plugins are bound to lehr.command.v1.Command", Hint: "remove one binding"},
		},
		{
			name:   "a plugin for the policy itself",
			policy: &intentpb.Policy{Plugins: []*intentpb.PluginBinding{{Type: "lehr.intent.v1.Policy", Run: []string{"x"}}}},
			want: intent.Finding{Rule: "plugin", Severity: intent.Error, Asset: intent.PolicyAsset, Field: "lehr.intent.v1.Policy.plugins[0].type",
				Message: "a plugin is bound to lehr.intent.v1.Policy, which says how assets are enforced and is none itself", Hint: "remove the binding"},
		},
		{
			name:   "a mode for an unknown type",
			policy: &intentpb.Policy{TypeModes: map[string]intentpb.EnforcementMode{"x.Y": 1}},
			want: intent.Finding{Rule: "plugin", Severity: intent.Error, Asset: intent.PolicyAsset, Field: `lehr.intent.v1.Policy.type_modes["x.Y"]`,
				Message: `a mode is set for "x.Y", which is no known message type`, Hint: "write the full name of a type, for example lehr.process.v1.Job"},
		},
		{
			name:   "a served type without a plugin",
			policy: bound,
			head:   []store.Entry{entry(t, "a", job("a"))},
			delta:  []store.Entry{plain(t, "b", "")},
			want: intent.Finding{Rule: "plugin", Severity: intent.Warning, Asset: "a", Field: "plugins",
				Message: "no plugin is bound to lehr.process.v1.Job, so asset a and others of this type are not looked at and will never be enforced",
				Hint:    "bind one in lehr.yaml: plugins: {lehr.process.v1.Job: {run: lehr-process}}; or say that they are only to be read: models: [lehr.process.v1.Job]"},
		},
		{
			name:   "a type that is declared a model",
			policy: &intentpb.Policy{Models: []string{"lehr.process.v1.Job"}},
			delta:  []store.Entry{entry(t, "a", job("a"))},
		},
		{
			name:   "a type that nobody's plugin is known of",
			policy: bound,
			delta:  []store.Entry{entry(t, "a", &structpb.Struct{})},
			want: intent.Finding{Rule: "plugin", Severity: intent.Warning, Asset: "a", Field: "plugins",
				Message: "no plugin is bound to google.protobuf.Struct, so asset a and others of this type are not looked at and will never be enforced",
				Hint:    "bind one in lehr.yaml: plugins: {google.protobuf.Struct: {run: PROGRAM}}; or say that they are only to be read: models: [google.protobuf.Struct]"},
		},
		{
			name:   "a type whose plugin is built apart",
			policy: bound,
			delta:  []store.Entry{entry(t, "a", &kubernetespb.Object{ApiVersion: "v1", Kind: "ConfigMap", Name: "a", Cluster: "c", Json: "{}"})},
			want: intent.Finding{Rule: "plugin", Severity: intent.Warning, Asset: "a", Field: "plugins",
				Message: "no plugin is bound to lehr.kubernetes.v1.Object, so asset a and others of this type are not looked at and will never be enforced",
				Hint:    "bind one in lehr.yaml: plugins: {lehr.kubernetes.v1.Object: {run: [lehr-kubernetes, --clusters, FILE]}}; or say that they are only to be read: models: [lehr.kubernetes.v1.Object]"},
		},
		{
			name:   "a model that a plugin is bound to",
			policy: &intentpb.Policy{Models: []string{"lehr.process.v1.Job"}, Plugins: []*intentpb.PluginBinding{{Type: "lehr.process.v1.Job", Run: []string{"own"}}}},
			want: intent.Finding{Rule: "plugin", Severity: intent.Error, Asset: "lehr/policy", Field: "lehr.intent.v1.Policy.models[0]",
				Message: "the type lehr.process.v1.Job is a model, and a plugin is bound to it", Hint: "remove one of the two"},
		},
		{
			name:   "a served type that is no more",
			policy: bound,
			head:   []store.Entry{entry(t, "a", job("a")), plain(t, "b", "")},
			delta:  []store.Entry{removed("a")},
		},
		{
			name:   "a plugin that is taken away",
			before: &intentpb.Policy{Plugins: []*intentpb.PluginBinding{{Type: "lehr.intent.v1.Owner", Run: []string{"own"}}}},
			policy: bound,
			head:   []store.Entry{entry(t, "a", &intentpb.Owner{Owner: "o"})},
			want: intent.Finding{Rule: "plugin", Severity: intent.Warning, Asset: "a", Field: "plugins",
				Message: "no plugin is bound to lehr.intent.v1.Owner, so asset a and others of this type are not looked at and will never be enforced",
				Hint:    "bind one in lehr.yaml: plugins: {lehr.intent.v1.Owner: {run: own}}; or say that they are only to be read: models: [lehr.intent.v1.Owner]"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			if test.head != nil {
				w.publish(test.before, nil, test.head...)
			}
			got := w.judge(test.policy, false, test.delta...)
			if test.want.Rule == "" {
				if len(got.Findings) > 0 || got.Rejected || got.Held {
					t.Errorf("unwanted: %+v", got)
				}
				return
			}
			test.want.File, test.want.Line = "web.star", len(test.want.Asset)
			if diff := cmp.Diff([]intent.Finding{test.want}, got.Findings); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if wrong := test.want.Severity == intent.Error; got.Rejected != wrong || got.Held {
				t.Errorf("rejected %v, held %v", got.Rejected, got.Held)
			}
		})
	}
}

// restricted is an asset with a reference that allows some types only.
func restricted(t testing.TB, id, to intent.AssetID) store.Entry {
	e := entry(t, id, job(string(id)))
	e.References = []intent.Reference{{Field: "f", To: to, Types: []intent.TypeName{"lehr.process.v1.Job", "x.Y"}}}
	return e
}

func TestOversizedAsset(t *testing.T) {
	w := newWorld(t)
	e := plain(t, "a", strings.Repeat("x", 149_000))
	if got := w.judge(nil, false, e); got.Rejected {
		t.Fatalf("a large asset is refused: %+v", got)
	}
	large := entryOf(e, strings.Repeat("x", 151_000))
	finding(t, w.judge(nil, false, large), "size", "canonical bytes, at most 150000")
}

func TestDuplicateNamesBothPlaces(t *testing.T) {
	two := validate.Duplicate("a", []validate.Origin{
		{Generator: "web", File: "web.star", Line: 3, Inputs: []string{"service.yaml"}},
		{Generator: "db", File: "db.star", Line: 9},
	})
	if want := `asset a is emitted 2 times by the generators "web" and "db": generator "web" at web.star:3 from service.yaml; generator "db" at db.star:9`; two.Message != want {
		t.Errorf("got  %s\nwant %s", two.Message, want)
	}
	if two.Severity != intent.Error || two.File != "db.star" || two.Line != 9 || two.Rule != "identity" {
		t.Errorf("finding %+v", two)
	}
	one := validate.Duplicate("a", []validate.Origin{{Generator: "web"}, {Generator: "web"}})
	if want := `asset a is emitted 2 times by the generator "web": generator "web"; generator "web"`; one.Message != want {
		t.Errorf("got  %s\nwant %s", one.Message, want)
	}
}

func TestManyFindingsAreCounted(t *testing.T) {
	w := newWorld(t)
	var delta []store.Entry
	for i := range 1500 {
		delta = append(delta, entry(t, intent.AssetID(fmt.Sprintf("a%04d", i)), job("a"), dependsOn("nothing")))
	}
	got := w.judge(nil, false, delta...)
	if len(got.Findings) != 1 || got.Findings[0].Alike != 1499 || !got.Rejected {
		t.Fatalf("%d findings, rejected %v: %+v", len(got.Findings), got.Rejected, got.Findings)
	}
	if want := "and 1499 more like this, such as a0001, a0002, a0003"; got.Findings[0].OthersText() != want {
		t.Errorf("got %q, want %q", got.Findings[0].OthersText(), want)
	}
}

// What cannot be read is an error, never a pass (S11).
func TestUnreadableBaseIsNoPass(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, nil, plain(t, "a", ""))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := w.validator.Run(ctx, validate.Input{Base: w.head().ID, Delta: []store.Entry{plain(t, "a", "b")}, Snapshots: w, History: w, Now: w.now})
	if err == nil {
		t.Error("a cancelled judgement passes")
	}
}

func TestLongChainsAndCycles(t *testing.T) {
	const length = 100_000
	id := func(i int) string { return fmt.Sprintf("n%06d", i%length) }
	template := entry(t, "x", job("x"))
	chain := make([]store.Entry, length)
	for i := range chain {
		chain[i] = template
		chain[i].Asset = intent.AssetID(id(i))
		if i > 0 {
			chain[i].References = []intent.Reference{{Field: "lehr.intent.v1.Dependencies.dependencies[0].on", To: intent.AssetID(id(i - 1))}}
		}
	}
	chain[length-1] = entry(t, intent.AssetID(id(length-1)), job("x"), dependsOn(id(length-2)))
	w := newWorld(t)
	w.publish(nil, nil, chain...)

	// A change that adds no edge walks nowhere.
	w.reads = 0
	same := entry(t, intent.AssetID(id(length-1)), job("new"), dependsOn(id(length-2)))
	if got := w.judge(nil, false, same); got.Rejected {
		t.Fatalf("%+v", got)
	}
	if w.reads > 20 {
		t.Errorf("one asset changed, %d reads", w.reads)
	}
	// A new edge at the end walks the chain and finds nothing.
	longer := entry(t, "longer", job("l"), dependsOn(id(length-1)))
	if got := w.judge(nil, false, longer); got.Rejected {
		t.Fatalf("%+v", got)
	}
	closing := entry(t, intent.AssetID(id(0)), job("x"), dependsOn(id(length-1)))
	got := finding(t, w.judge(nil, false, closing), "cycle", "100000 assets depend on each other in a circle: n000000 → n099999 → ", "(99950 more) → n000000")
	if got.Asset != intent.AssetID(id(0)) {
		t.Errorf("finding %+v", got)
	}
}

// A lattice has 2^60 paths and is walked once.
func TestDiamonds(t *testing.T) {
	w := newWorld(t)
	var delta []store.Entry
	for layer := range 60 {
		for side := range 2 {
			var on []string
			if layer > 0 {
				on = []string{fmt.Sprintf("l%d-0", layer-1), fmt.Sprintf("l%d-1", layer-1)}
			}
			delta = append(delta, entry(t, intent.AssetID(fmt.Sprintf("l%d-%d", layer, side)), job("x"), dependsOn(on...)))
		}
	}
	if got := w.judge(nil, false, delta...); got.Rejected {
		t.Errorf("%+v", got)
	}
	closing := slices.IndexFunc(delta, func(e store.Entry) bool { return e.Asset == "l0-0" })
	delta[closing] = entry(t, "l0-0", job("x"), dependsOn("l59-1"))
	finding(t, w.judge(nil, false, delta...), "cycle", "60 assets")
}

func TestAnIDComesBackWithAnotherType(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, nil, plain(t, "a", ""), plain(t, "b", ""))
	w.enforced["a"] = true
	w.publish(nil, nil, removed("a"), removed("b"))
	for _, acknowledged := range []bool{false, true} {
		judgement := w.judge(nil, acknowledged, entry(t, "a", job("a")))
		if judgement.Held == acknowledged || judgement.Rejected {
			t.Errorf("acknowledged %t: %+v", acknowledged, judgement)
		}
		finding(t, judgement, "identity", "comes back as a lehr.process.v1.Job", "shop@1 is a lehr.command.v1.Command")
	}
	for _, back := range []store.Entry{plain(t, "a", "other"), entry(t, "b", job("b"))} {
		if judgement := w.judge(nil, false, back); judgement.Held || judgement.Rejected {
			t.Errorf("%s as before, or never enforced: %+v", back.Asset, judgement)
		}
	}
}
