package prodspec_test

import (
	"slices"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/store"
)

// ask sets the rules of the store's common policy.
func (w *world) ask(rules string) {
	w.t.Helper()
	common, findings := definition.ParseCommon("/etc/lehr-policy.yaml", []byte("lehr: v1\nrules:\n"+rules), schema.Builtin())
	if len(findings) > 0 {
		w.t.Fatal(findings)
	}
	body, digest, err := commonpolicy.Encode(common.Policy)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.store.SetCommonPolicy(w.t.Context(), store.CommonPolicy{Body: body, Digest: digest, Place: "/etc/lehr-policy.yaml"}, person); err != nil {
		w.t.Fatal(err)
	}
}

func hasFinding(findings []intent.Finding, severity intent.Severity, words ...string) bool {
	return slices.ContainsFunc(findings, func(f intent.Finding) bool {
		return f.Severity == severity && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(f.Message, word) })
	})
}

// policy that an incarnation of the partition was published with.
func (w *world) policy(sequence intent.Sequence) *intentpb.Policy {
	w.t.Helper()
	_, body, err := w.store.Content(w.t.Context(), intent.IncarnationID{Partition: "shop", Sequence: sequence}, intent.PolicyAsset)
	if err != nil {
		w.t.Fatal(err)
	}
	asset, err := schema.Decode(body)
	if err != nil {
		w.t.Fatal(err)
	}
	policy := &intentpb.Policy{}
	if err := schema.Payload(asset, policy); err != nil {
		w.t.Fatal(err)
	}
	return policy
}

const plentyRule = `  many:
    owner: platform
    mode: MODE
    for: all
    validate: {rules: [{id: plenty, where: type == "Job", must: payload.replicas >= 1000}]}
`

// TestACommonRuleIsObservedAndThenRequired: observed, it is told of what is served and of
// what is new; required, nothing new that breaks it is served. Both name rule, owner, file and
// line.
func TestACommonRuleIsObservedAndThenRequired(t *testing.T) {
	w := newWorld(t, "web")
	w.start()
	w.served(1)
	w.ask(strings.ReplaceAll(plentyRule, "MODE", "observe"))
	place := []string{"common rule many of platform, lehr-policy.yaml:7", "observed only"}
	w.wait("a warning of what is served", func(s prodspec.Status) bool {
		return s.State == prodspec.Serving && hasFinding(s.Findings, intent.Warning, append(place, "what is served")...)
	})
	w.replace("service.yaml", `version: "1.1"`, `version: "1.2"`)
	w.wait("the change, with a warning", func(s prodspec.Status) bool {
		return s.State == prodspec.Serving && s.Head.Sequence == 2 && hasFinding(s.Findings, intent.Warning, place...)
	})
	w.ask(strings.ReplaceAll(plentyRule, "MODE", "require"))
	w.wait("a warning of what is served", func(s prodspec.Status) bool {
		return s.Head.Sequence == 2 && hasFinding(s.Findings, intent.Warning, "what is served", place[0]) && !hasFinding(s.Findings, intent.Warning, "observed only")
	})
	w.replace("service.yaml", `version: "1.2"`, `version: "1.3"`)
	status := w.wait("a rejection", func(s prodspec.Status) bool { return s.State == prodspec.Rejected })
	if status.Head.Sequence != 2 || !hasFinding(status.Findings, intent.Error, place[0]) {
		t.Errorf("status %+v", status)
	}
	w.ask("  other: {owner: platform, for: all}\n")
	w.wait("the change, once the rule is gone", func(s prodspec.Status) bool { return s.State == prodspec.Serving && s.Head.Sequence == 3 })
}

// TestCommonDefaultsAndLists: a default is for who does not say; what is not allowed is refused
// by line, also where only the policy changed.
func TestCommonDefaultsAndLists(t *testing.T) {
	w := newWorld(t, "web")
	w.ask("  d: {owner: platform, mode: require, for: all, defaults: {checks: {turndown: {in_flight: 7}}}}\n")
	w.start()
	status := w.served(1)
	if !slices.ContainsFunc(status.Sources, func(r intent.SourceRevision) bool { return r.Source == definition.CommonSource }) {
		t.Errorf("sources %v", status.Sources)
	}
	if policy := w.policy(1); policy.Turndowns != 7 {
		t.Errorf("policy %v", policy)
	}
	w.ask("  p: {owner: platform, mode: require, for: all, allow: {plugins: [other-plugin]}}\n")
	status = w.wait("a rejection", func(s prodspec.Status) bool { return s.State == prodspec.Rejected })
	if f := status.Findings[0]; !hasFinding(status.Findings, intent.Error, "is not allowed", "common rule p of platform") || f.File != "lehr.yaml" || f.Line < 2 || status.Head.Sequence != 1 {
		t.Errorf("status %+v", status)
	}
	w.ask("  p: {owner: platform, for: all, allow: {plugins: [other-plugin]}}\n")
	w.wait("a warning", func(s prodspec.Status) bool {
		return s.State == prodspec.Serving && hasFinding(s.Findings, intent.Warning, "is not allowed", "observed only")
	})
}

// TestNoOwnerLeavesACommonRule: a definition that changes its owner is refused until the operator
// names the new one.
func TestNoOwnerLeavesACommonRule(t *testing.T) {
	w := newWorld(t, "web")
	w.replace("lehr.yaml", "owner: shop-sre@example.com", "owner: payments")
	w.ask("  r: {owner: platform, mode: require, for: {owner: payments}, checks: {young: {min_age: 1h}}}\n")
	w.start()
	w.served(1)
	w.replace("lehr.yaml", "owner: payments", "owner: others")
	status := w.wait("a rejection", func(s prodspec.Status) bool { return s.State == prodspec.Rejected })
	if f := status.Findings[0]; f.Field != "owner" || !hasFinding(status.Findings, intent.Error, "would not be under the common rule r of platform") {
		t.Errorf("status %+v", status)
	}
}
