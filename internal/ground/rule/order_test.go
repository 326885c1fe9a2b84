package rule_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// TestMapsAreWalkedInOrder: the same asset gives the same value, however often
// it is asked, or a rebuild would publish a change that nobody made.
func TestMapsAreWalkedInOrder(t *testing.T) {
	environment := rule.New(schema.Builtin())
	rapid.Check(t, func(r *rapid.T) {
		words := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,3}`), rapid.StringMatching(`[a-z]{0,3}`), 2, 12).Draw(r, "words")
		job := asset(t, "job", &processpb.Job{Name: "job", Env: words}, &intentpb.Labels{Labels: words}, &intentpb.Owner{Owner: "ann"},
			&intentpb.ImpactedScope{Scopes: map[string]string{"cell": "a", "region": "b", "zone": "c"}})
		inOrder := strings.Join(slices.Sorted(maps.Keys(words)), ",")
		for text, want := range map[string]string{
			`labels.map(k, k).join(",")`:                                                                   inOrder,
			`payload.env.map(k, k).join(",")`:                                                              inOrder,
			`labels.filter(k, true).join(",")`:                                                             inOrder,
			`dyn(payload.env).map(k, k).join(",")`:                                                         inOrder,
			`(owner == "ann" ? labels : scopes).map(k, k)[0]`:                                              strings.Split(inOrder, ",")[0],
			`[scopes, {"b": owner, "a": owner}].map(m, m.map(k, m[k]).join("")).join(" ")`:                 "abc annann",
			`{owner: 1, "b": 2, "c": 3, "a": 4, "d": 5}.map(k, k).join("")`:                                "aannbcd",
			`{"c": 3, "b": 2, "a": 4, "d": 5}.map(k, k).join("")`:                                          "abcd",
			`[{"x": {"c": owner, "b": owner, "a": owner}}][0].x.map(k, k).join("")`:                        "abc",
			`dyn({2: "", 10: "", -1: "", 3u: "", 20u: "", true: "", "a": ""}).map(k, string(k)).join(" ")`: "true -1 2 10 3 20 a",
			`addons.map(k, k).join(" ")`:                                                                   "ImpactedScope Labels Owner",
			`string(labels.exists(k, scopes.exists(s, s > k)))`:                                            fmt.Sprint(slices.Min(slices.Collect(maps.Keys(words))) < "zone"),
		} {
			expression := must(environment.Compile(text, ""))
			for range 20 {
				if got, err := expression.Text(job); err != nil || got != want {
					r.Fatalf("%s is %q, want %q (%v)", text, got, want, err)
				}
			}
		}
	})
}

// TestCostOfWalkingMaps: to put many keys in order costs something, each time.
func TestCostOfWalkingMaps(t *testing.T) {
	environment, many := rule.New(schema.Builtin()), map[string]string{}
	for i := range 10_000 {
		many[fmt.Sprint(i)] = ""
	}
	job := asset(t, "job", &processpb.Job{Name: "job", Env: many})
	if matched, err := must(environment.Filter(`payload.env.exists(k, k != "")`)).Match(job); err != nil || !matched {
		t.Errorf("the first key: %t, %v", matched, err)
	}
	_, err := must(environment.Filter(`payload.env.all(a, payload.env.exists(b, true))`)).Match(job)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "costs more than is allowed") {
		t.Errorf("again and again: %v", err)
	}
}

// TestKeysWithoutOrder: what is no key in CEL has no place among the others.
func TestKeysWithoutOrder(t *testing.T) {
	job := frontend(t)
	expression := must(rule.New(schema.Builtin()).Compile(`{dyn(1.5): "a", dyn(2.5): "b"}.map(k, string(k)).join("")`, ""))
	if got, err := expression.Text(job); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "double has no order") {
		t.Errorf("it is %q (%v)", got, err)
	}
}
