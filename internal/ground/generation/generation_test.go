package generation_test

import (
	"fmt"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
)

func ruleOf(prefix string, suffix intentpb.GenerationRule_Suffix, keep uint32) *intentpb.GenerationRule {
	return &intentpb.GenerationRule{Name: "web", Prefix: prefix, Suffix: suffix, Generator: "kustomize", Keep: keep}
}

// TestNames: a rule names what ends in a hash or a version, and nothing that people write.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		suffix intentpb.GenerationRule_Suffix
		rest   string
		named  bool
	}{
		{intentpb.GenerationRule_SUFFIX_HASH, "7h9k2mb64c", true},
		{intentpb.GenerationRule_SUFFIX_HASH, "bfkmgtcdhk", true},
		{intentpb.GenerationRule_SUFFIX_HASH, "0123abcd", true},
		{intentpb.GenerationRule_SUFFIX_HASH, "7h9k2m", false},
		{intentpb.GenerationRule_SUFFIX_HASH, "tls", false},
		{intentpb.GenerationRule_SUFFIX_HASH, "production", false},
		{intentpb.GenerationRule_SUFFIX_HASH, "7h9k2mb64c-tls", false},
		{intentpb.GenerationRule_SUFFIX_HASH, "", false},
		{intentpb.GenerationRule_SUFFIX_VERSION, "1-8-2", true},
		{intentpb.GenerationRule_SUFFIX_VERSION, "v1.8.2", true},
		{intentpb.GenerationRule_SUFFIX_VERSION, "2026-11-26", true},
		{intentpb.GenerationRule_SUFFIX_VERSION, "2", true},
		{intentpb.GenerationRule_SUFFIX_VERSION, "2a", false},
		{intentpb.GenerationRule_SUFFIX_VERSION, "tool-1", false},
		{intentpb.GenerationRule_SUFFIX_VERSION, "1/2", false},
		{intentpb.GenerationRule_SUFFIX_UNSPECIFIED, "1", false},
	} {
		r := generation.Rules(&intentpb.Policy{Generations: []*intentpb.GenerationRule{ruleOf("shop/web-", c.suffix, 3)}})[0]
		if got := r.Names(intent.AssetID("shop/web-" + c.rest)); got != c.named {
			t.Errorf("%s %q: named %t", c.suffix, c.rest, got)
		}
		if r.Names(intent.AssetID("shop/other-" + c.rest)) {
			t.Errorf("%s %q of another name is named", c.suffix, c.rest)
		}
	}
}

// TestApprovalIsOfTheVeryRule: any change of a rule makes it another one, which is no approval
// of what the one before asked for.
func TestApprovalIsOfTheVeryRule(t *testing.T) {
	first := ruleOf("shop/web-", intentpb.GenerationRule_SUFFIX_VERSION, 3)
	policy := &intentpb.Policy{Generations: []*intentpb.GenerationRule{first}}
	removal := &intentpb.GenerationRemoval{Rule: "web", Digest: generation.Rules(policy)[0].Digest.String()}
	if approval, ok := generation.Approval(policy, "shop/web-1", removal); !ok || approval.Rule != "web" || approval.Digest.String() != removal.Digest {
		t.Errorf("%+v, %t", approval, ok)
	}
	for name, id := range map[string]intent.AssetID{"another asset": "shop/api-1", "what people named": "shop/web-old"} {
		if _, ok := generation.Approval(policy, id, removal); ok {
			t.Errorf("it approves %s", name)
		}
	}
	if _, ok := generation.Approval(policy, "shop/web-1", nil); ok {
		t.Error("it approves what no rule asked for")
	}
	for name, change := range map[string]func(*intentpb.GenerationRule){
		"keep":      func(r *intentpb.GenerationRule) { r.Keep = 2 },
		"suffix":    func(r *intentpb.GenerationRule) { r.Suffix = intentpb.GenerationRule_SUFFIX_HASH },
		"generator": func(r *intentpb.GenerationRule) { r.Generator = "helm" },
		"prefix":    func(r *intentpb.GenerationRule) { r.Prefix = "shop/we" },
		"name":      func(r *intentpb.GenerationRule) { r.Name = "other" },
	} {
		changed := ruleOf("shop/web-", intentpb.GenerationRule_SUFFIX_VERSION, 3)
		change(changed)
		if _, ok := generation.Approval(&intentpb.Policy{Generations: []*intentpb.GenerationRule{changed}}, "shop/web-1", removal); ok {
			t.Errorf("with another %s it still approves", name)
		}
	}
}

// TestOnlyItself: a rule approves no plan that takes others along, or does not remove.
func TestOnlyItself(t *testing.T) {
	own := intent.FieldChange{Path: "metadata.name", Destructive: true}
	for _, c := range []struct {
		plan intent.Plan
		only bool
	}{
		{intent.Plan{Action: intent.ActionDelete, Changes: []intent.FieldChange{own}}, true},
		{intent.Plan{Action: intent.ActionDelete}, true},
		{intent.Plan{Action: intent.ActionReplace, Changes: []intent.FieldChange{own}}, false},
		{intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{own}}, false},
		{intent.Plan{Action: intent.ActionDelete, Changes: []intent.FieldChange{own, {Path: `holds["Secret shop/tls"]`, Destructive: true}}}, false},
	} {
		if got := generation.RemovesOnlyItself(c.plan); got != c.only {
			t.Errorf("%+v: only itself %t", c.plan, got)
		}
	}
}

// TestSurplus: the newest are kept, by the incarnation and then by the time.
func TestSurplus(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	older := []generation.Older{{"a", 1, noon}, {"c", 3, noon}, {"b", 2, noon}, {"d", 3, noon.Add(time.Second)}}
	for keep, want := range map[uint32]string{0: "[c b a]", 1: "[c b a]", 2: "[b a]", 4: "[]", 9: "[]"} {
		got := []intent.AssetID{}
		for _, o := range (generation.Rule{GenerationRule: ruleOf("x-", 1, keep)}).Surplus(older) {
			got = append(got, o.Asset)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("of four, with keep %d, %v go, want %s", keep, got, want)
		}
	}
}

// TestHoldersAreRefused: with what these rules are about others are removed.
func TestHoldersAreRefused(t *testing.T) {
	for prefix, holds := range map[string]bool{
		"kubernetes/live/namespace/preview-": true, "kubernetes/live/shop/persistentvolumeclaim/data-": true,
		"kubernetes/live/shop/configmap/namespace-": false, "kubernetes/live/shop/job.batch/migrate-": false,
	} {
		if got := (generation.Rule{GenerationRule: ruleOf(prefix, 1, 3)}).HoldsOthers(); got != holds {
			t.Errorf("%s: holds others %t", prefix, got)
		}
	}
}
