package definition_test

import (
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

const commonFile = `lehr: v1
partitions:
  "pay-*": {owner: payments, labels: {tier: front}}
rules:
  year-end:
    owner: platform
    reason: nobody is there
    mode: require
    for: {labels: {tier: front}}
    checks:
      freeze: {zone: Europe/London, freezes: [{from: "2026-12-20 00:00", until: "2027-01-04 08:00", reason: holidays}]}
      budget: {scope: cluster, in_flight: 1}
    overridable: [freeze]
    validate:
      shrink: {max: 5%}
      rules:
        - {id: two, where: type == "Job", must: payload.replicas >= 2}
    defaults: {mode: enforce, checks: {approval: {quorum: 2}}}
    allow: {plugins: [lehr-process]}
  watched:
    owner: sre
    for: all
    checks:
      young: {min_age: 30m}
register: [services/*/lehr.yaml]
`

func TestACommonPolicyIsRead(t *testing.T) {
	common, findings := definition.ParseCommon("/etc/lehr-policy.yaml", []byte(commonFile), schema.Builtin())
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	rules := common.Policy.Rules
	if len(rules) != 2 || rules[1].Mode != intentpb.CommonRule_MODE_OBSERVE || rules[0].Mode != intentpb.CommonRule_MODE_REQUIRE {
		t.Fatalf("rules %v", rules)
	}
	first := rules[0]
	if len(first.Policy.Checks) != 1 || first.Policy.Checks[0].Name != "common.year-end.freeze" || first.Overridable[0] != "common.year-end.freeze" {
		t.Errorf("checks %v, overridable %v", first.Policy.Checks, first.Overridable)
	}
	if first.Lines["checks.freeze"] != 11 || first.Lines["rules.two"] != 17 || first.Line != 5 {
		t.Errorf("lines %v, %d", first.Lines, first.Line)
	}
	if first.Policy.Rules[0].Id != "common.year-end.two" || first.Policy.Shrink.MaxRemovedPercent != 5 || len(first.Policy.Budgets) != 1 {
		t.Errorf("policy %v", first.Policy)
	}
	if rules[1].Policy.Shrink != nil || rules[1].Defaults != "" {
		t.Errorf("a rule asks for what it does not say: %v", rules[1])
	}
	if len(common.Policy.Register) != 1 || common.Policy.Register[0].Line != 25 {
		t.Errorf("register %v", common.Policy.Register)
	}
}

// TestBadCommonPoliciesAreToldByLine: of each defect, where it is and what it is.
func TestBadCommonPoliciesAreToldByLine(t *testing.T) {
	for name, test := range map[string]struct {
		text, want string
		line       int
	}{
		"not YAML":       {"lehr: v1\nrules: [", "not valid YAML", 2},
		"empty":          {"", "no common policy", 1},
		"misspelt":       {"lehr: v1\nrules:\n  a: {owner: x, for: all, chekcs: {}}\n", "unknown field rules.a.chekcs", 3},
		"no owner":       {"lehr: v1\nrules:\n  a: {for: all}\n", "rules.a.owner is missing", 3},
		"for nobody":     {"lehr: v1\nrules:\n  a: {owner: x}\n", "rules.a.for is missing", 3},
		"empty selector": {"lehr: v1\nrules:\n  a: {owner: x, for: {}}\n", "rules.a.for is empty", 3},
		"holds everybody": {"lehr: v1\nrules:\n  a:\n    owner: x\n    for: all\n    checks:\n      no: {deny: [{version: \"*\", reason: r}]}\n",
			"would hold everything in every partition for ever", 7},
		"defaults contradict": {"lehr: v1\nrules:\n  a: {owner: x, for: all, defaults: {mode: enforce}}\n  b: {owner: y, for: {owner: z}, defaults: {mode: observe}}\n",
			"rules.b contradicts rules.a: the default of mode", 4},
		"lists contradict": {"lehr: v1\nrules:\n  a: {owner: x, for: all, allow: {plugins: [one]}}\n  b: {owner: y, for: all, allow: {plugins: [two]}}\n",
			"no plugin is allowed by it and by the rule a", 4},
		"bad default":         {"lehr: v1\nrules:\n  a: {owner: x, for: all, defaults: {mode: sideways}}\n", "is not a mode", 3},
		"partition's section": {"lehr: v1\nrules:\n  a: {owner: x, for: all, defaults: {sources: {}}}\n", "unknown field defaults.sources", 3},
		"loosening":           {"lehr: v1\nrules:\n  a: {owner: x, for: all, checks: {overrides: {allow: [order]}}}\n", "allows no overrides", 3},
		"unknown check":       {"lehr: v1\nrules:\n  a: {owner: x, for: all, overridable: [b]}\n", "has no check \"b\"", 3},
		"no resolver":         {"lehr: v1\nrules:\n  a:\n    owner: x\n    for: all\n    defaults:\n      generate: {g: {starlark: a.star, from: [s]}}\n", "defaults.generate.g is no resolver", 7},
		"bad resolver":        {"lehr: v1\nrules:\n  a:\n    owner: x\n    for: all\n    defaults:\n      generate: {g: {resolve: Job, set: {payload.replicas: \"3\"}}}\n", "generate.g.reason is missing", 7},
		"resolvers contradict": {"lehr: v1\nrules:\n  a: {owner: x, for: all, defaults: {generate: {g: {resolve: Job, set: {payload.replicas: \"3\"}, reason: r}}}}\n  b: {owner: y, for: all, defaults: {generate: {g: {resolve: Job, set: {payload.replicas: \"4\"}, reason: r}}}}\n",
			"the default of generate.g.", 4},
		"unknown program":     {"lehr: v1\nrules:\n  a:\n    owner: x\n    for: all\n    validate: {programs: {p: {check: prometheus}}}\n", "there is no checking program for \"prometheus\"", 6},
		"program's option":    {"lehr: v1\nrules:\n  a:\n    owner: x\n    for: all\n    validate: {programs: {p: {check: sql-syntax, severty: hold}}}\n", "unknown field validate.programs.p.severty", 6},
		"partition's program": {"lehr: v1\nrules:\n  a:\n    owner: x\n    for: all\n    validate: {programs: {p: {command: [./mine]}}}\n", "a program of a partition's folder", 6},
		"partition's source":  {"lehr: v1\nrules:\n  a:\n    owner: x\n    for: all\n    validate: {programs: {p: {check: sql-syntax, from: [service]}}}\n", "\"service\" is known in one partition only", 6},
		"partition's type":    {"lehr: v1\nrules:\n  a:\n    owner: x\n    for: all\n    validate: {programs: {p: {check: sql-syntax, types: [Shop]}}}\n", "Shop", 6},
		"no program":          {"lehr: v1\nrules:\n  a:\n    owner: x\n    for: all\n    validate: {programs: {p: {}}}\n", "validate.programs.p.check is missing", 6},
		"pattern":             {"lehr: v1\nregister: [\"services/*\"]\n", "names no definitions", 2},
	} {
		_, findings := definition.ParseCommon("lehr-policy.yaml", []byte(test.text), schema.Builtin())
		ok := false
		for _, f := range findings {
			ok = ok || strings.Contains(f.Message, test.want) && f.Line == test.line && f.Severity == intent.Error
		}
		if !ok {
			t.Errorf("%s: want %q in line %d, got %+v", name, test.want, test.line, findings)
		}
	}
}

// TestRulesForDifferentPartitionsDoNotContradict: they can never be about one.
func TestRulesForDifferentPartitionsDoNotContradict(t *testing.T) {
	for _, selectors := range [][2]string{{"{owner: a}", "{owner: b}"}, {"{labels: {tier: front}}", "{labels: {tier: back}}"}, {"{partition: a-x}", "{partition: \"b-*\"}"}} {
		text := "lehr: v1\nrules:\n  a: {owner: x, for: " + selectors[0] + ", defaults: {mode: enforce}}\n  b: {owner: y, for: " + selectors[1] + ", defaults: {mode: observe}}\n"
		if _, findings := definition.ParseCommon("f", []byte(text), schema.Builtin()); len(findings) > 0 {
			t.Errorf("%v: %v", selectors, findings)
		}
	}
}

// TestDefaultsGiveWay: what a definition says itself stays.
func TestDefaultsGiveWay(t *testing.T) {
	own := "lehr: v1\npartition: p\nsources: {s: {files: a}}\ngenerate: {}\nchecks:\n  approval: {quorum: 3}\n"
	defaults := []string{`{"mode":"enforce","checks":{"approval":{"quorum":2},"turndown":{"in_flight":4}}}`, `{"mode":"off"}`}
	d, findings := definition.ParseWithDefaults("lehr.yaml", []byte(own), schema.Builtin(), defaults, nil)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	p := d.Policy
	if p.Mode != intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE || p.Approval.Quorum != 3 || p.Turndowns != 4 {
		t.Errorf("policy %v", p)
	}
}
