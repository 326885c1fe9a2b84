package definition_test

import (
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

const generatedHead = "lehr: v1\npartition: shop\nsources:\n  jobs: {dir: jobs, files: [\"*.yaml\"]}\ngenerate:\n  web: {render: assets, from: [jobs]}\ngenerations:\n"

// TestGenerationRules: what a rule says becomes policy, with three kept where it does not say.
func TestGenerationRules(t *testing.T) {
	d, findings := definition.Parse("lehr.yaml", []byte(generatedHead+"  b: {assets: shop/web-*, generator: web, suffix: hash}\n  a: {assets: shop/job_*, generator: web, suffix: version, keep: 1}\n"), schema.Builtin())
	if len(findings) > 0 {
		t.Fatalf("%+v", findings)
	}
	rules := d.Policy.GetGenerations()
	if len(rules) != 2 || rules[0].GetName() != "a" || rules[0].GetPrefix() != "shop/job_" || rules[0].GetSuffix() != intentpb.GenerationRule_SUFFIX_VERSION || rules[0].GetKeep() != 1 {
		t.Errorf("%v", rules)
	}
	if rules[1].GetKeep() != 3 || rules[1].GetGenerator() != "web" || d.GenerationLines["b"] != 8 || d.GenerationLines["a"] != 9 {
		t.Errorf("%v, lines %v", rules[1], d.GenerationLines)
	}
}

// TestGenerationRulesThatAreTooBroad: each is refused by line, and says what to write.
func TestGenerationRulesThatAreTooBroad(t *testing.T) {
	for rule, want := range map[string]string{
		`{assets: "*", generator: web, suffix: hash}`:                                                                           "matches no id|too broad|does not end",
		`{assets: "shop/*", generator: web, suffix: hash}`:                                                                      "too broad",
		`{assets: "shop/web*", generator: web, suffix: hash}`:                                                                   "too broad",
		`{assets: "shop/-*", generator: web, suffix: hash}`:                                                                     "matches no id|too broad",
		`{assets: "shop/web-", generator: web, suffix: hash}`:                                                                   "does not end in *",
		`{assets: "*/web-*", generator: web, suffix: hash}`:                                                                     "no other wildcard",
		`{assets: "Shop/web-*", generator: web, suffix: hash}`:                                                                  "matches no id",
		`{assets: "kubernetes/eu/namespace/pr-*", generator: web, suffix: version}`:                                             "takes others along",
		`{assets: "shop/web-*", generator: wbe, suffix: hash}`:                                                                  `no generator "wbe"`,
		`{assets: "shop/web-*", generator: web, suffix: date}`:                                                                  "no kind of suffix",
		`{assets: "shop/web-*", generator: web, suffix: hash, keep: 0}`:                                                         "whole number from 1",
		`{assets: "shop/web-*", generator: web, suffix: hash, keep: 101}`:                                                       "more than 100",
		`{assets: "shop/web-*", generator: web}`:                                                                                "suffix is missing",
		"{assets: \"shop/web-*\", generator: web, suffix: hash}\n  h: {assets: \"shop/web-a-*\", generator: web, suffix: hash}": "match the same assets",
	} {
		_, findings := definition.Parse("lehr.yaml", []byte(generatedHead+"  g: "+rule+"\n"), schema.Builtin())
		found := false
		for _, f := range findings {
			for _, text := range strings.Split(want, "|") {
				found = found || strings.Contains(f.Message, text) && f.Line >= 8 && f.Hint != ""
			}
		}
		if !found {
			t.Errorf("%s: found %+v, want %q", rule, findings, want)
		}
	}
}
