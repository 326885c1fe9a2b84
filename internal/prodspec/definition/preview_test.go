package definition_test

import (
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

const previewedHead = `lehr: v1
partition: shop
sources:
  shop: {git: "https://git.example.com/shop.git", branch: main, files: ["*.yaml"]}
  reviews: {document: previews-review}
  other: {document: previews-other}
generate:
  review: {starlark: review.star, from: [reviews, shop], for_each: key}
  second: {starlark: review.star, from: [other], for_each: key}
  all: {starlark: review.star, from: [shop]}
generations:
  web: {assets: "made/web-*", generator: all, suffix: hash}
previews:
`

// TestPreviewRules: what a rule says becomes policy, with what is usual where it does not say.
func TestPreviewRules(t *testing.T) {
	d, findings := definition.Parse("lehr.yaml", []byte(previewedHead+
		`  review: {branches: ["feature/*", "fix/**"], of: shop, assets: "preview/{preview}/*", generator: review, statuses: hub}
  other: {pull_requests: hub, assets: "web-{preview}", generator: second, expires: 2h, every: 5s, at_most: 3, link: "https://{preview}.example.com"}
`), schema.Builtin())
	if len(findings) > 0 {
		t.Fatalf("%+v", findings)
	}
	rules := d.Policy.GetPreviews()
	if len(rules) != 2 || rules[0].GetName() != "other" || rules[1].GetName() != "review" || d.PreviewLines["review"] != 14 {
		t.Fatalf("%v, %v", rules, d.PreviewLines)
	}
	r := rules[1]
	if r.GetBefore() != "preview/" || r.GetAfter() != "/" || r.GetWhole() || r.GetSource() != "shop" || len(r.GetBranches()) != 2 || r.GetHost() != "hub" ||
		r.GetAtMost() != 20 || r.GetExpires().AsDuration() != 72*time.Hour || r.GetEvery().AsDuration() != time.Minute {
		t.Errorf("%v", r)
	}
	r = rules[0]
	if r.GetBefore() != "web-" || r.GetAfter() != "" || !r.GetWhole() || r.GetSource() != "" || r.GetHost() != "hub" ||
		r.GetAtMost() != 3 || r.GetExpires().AsDuration() != 2*time.Hour || r.GetEvery().AsDuration() != 5*time.Second || r.GetLink() == "" {
		t.Errorf("%v", r)
	}
}

// TestPreviewRulesThatAreWrong: each is refused by line, and says what to write.
func TestPreviewRulesThatAreWrong(t *testing.T) {
	rule := func(changes ...string) string {
		text := `{branches: ["feature/*"], of: shop, assets: "preview/{preview}/*", generator: review}`
		return strings.NewReplacer(changes...).Replace(text)
	}
	const pattern = `"preview/{preview}/*"`
	for text, want := range map[string]string{
		rule(pattern, `"{preview}/*"`):                                                               "too broad",
		rule(pattern, `"preview{preview}/*"`):                                                        "too broad",
		rule(pattern, `"/-/{preview}/*"`):                                                            "too broad",
		rule(pattern, `"preview/*"`):                                                                 "has not {preview} once",
		rule(pattern, `"preview/{preview}/{preview}"`):                                               "has not {preview} once",
		rule(pattern, `"*/{preview}/*"`):                                                             "has not {preview} once",
		rule(pattern, `"preview/{preview}*"`):                                                        "where the preview's name ends",
		rule(pattern, `"preview/{preview}-web"`):                                                     "where the preview's name ends",
		rule(pattern, `"Preview/{preview}/*"`):                                                       "matches no id",
		rule(pattern, `"made/{preview}/*"`):                                                          "generations.web match the same assets",
		rule("generator: review", "generator: reviw"):                                                `no generator "reviw"`,
		rule("generator: review", "generator: all"):                                                  "does not have a run for each preview",
		rule("generator: review", "generator: second"):                                               "does not have a run for each preview",
		rule("of: shop", "of: shp"):                                                                  `no source "shp" in git`,
		rule("of: shop", "of: reviews"):                                                              `no source "reviews" in git`,
		rule(", of: shop", ""):                                                                       "of is missing",
		rule(`branches: ["feature/*"], `, ""):                                                        "branches is missing",
		rule(`of: shop`, "of: shop, pull_requests: hub"):                                             "lists branches and pull requests",
		rule(`"feature/*"`, `"feature/["`):                                                           "no pattern of branches",
		rule(`["feature/*"]`, `[]`):                                                                  "not empty",
		rule("of: shop", "of: shop, expires: 10s"):                                                   "shorter than 1m",
		rule("of: shop", "of: shop, expires: soon"):                                                  "not a length of time",
		rule("of: shop", "of: shop, every: 10ms"):                                                    "shorter than 1s",
		rule("of: shop", "of: shop, at_most: 0"):                                                     "whole number from 1",
		rule("of: shop", "of: shop, at_most: 201"):                                                   "more than 200",
		rule("of: shop", "of: shop, link: preview.example.com"):                                      "is no URL",
		rule("of: shop", "of: shop, expire: 1h"):                                                     "unknown field",
		rule(`branches: ["feature/*"], of: shop`, "pull_requests: 7"):                                "must be a text",
		`{pull_requests: hub, statuses: hub, assets: "preview/{preview}/*", generator: review}`:      "statuses of pull requests are posted",
		rule() + "\n  other: {pull_requests: hub, assets: \"preview/{preview}\", generator: second}": "match the same assets",
		rule(", generator: review", ""):                                                              "generator is missing",
	} {
		_, findings := definition.Parse("lehr.yaml", []byte(previewedHead+"  review: "+text+"\n"), schema.Builtin())
		found := false
		for _, f := range findings {
			found = found || strings.Contains(f.Message, want) && f.Line >= 14 && f.Hint != ""
		}
		if !found {
			t.Errorf("%s: found %+v, want %q", text, findings, want)
		}
	}
}
