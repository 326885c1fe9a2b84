package rule_test

import (
	"strings"
	"testing"

	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// TestHealthRules: what expressions of Health addons say of the state that is there.
func TestHealthRules(t *testing.T) {
	environment := rule.New(schema.Builtin())
	for _, c := range []struct{ text, problem, wrong string }{
		{text: `payload.version == "v1.2"`},
		{text: `payload.version == "v2.0"`, problem: `payload.version == "v2.0" is false`},
		{text: `payload.version == "v2.0" ? "" : "it runs " + payload.version`, problem: "it runs v1.2"},
		{text: `payload.version == "v1.2" ? "" : "it runs " + payload.version`},
		{text: `parseJSON("{\"status\": {\"ready\": 3, \"big\": 9007199254740993}}").status.big == 9007199254740993`},
		{text: `parseJSON("{\"a\": [1.5, null]}").a[0] > 1`},
		{text: `parseJSON("{\"a\": 1} 2").a == 1`, wrong: "more than one value"},
		{text: `parseJSON("{").a == 1`, wrong: "no JSON"},
		{text: `"a\nb"`, problem: `a\nb`},
		{text: `payload.env["MISSING"] == "x"`, wrong: "has no value"},
	} {
		compiled, err := environment.HealthRule(c.text, jobType)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		problem, err := compiled.Problem(frontend(t))
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s gives %q, %v; want an error that says %q", c.text, problem, err, c.wrong)
			}
			continue
		}
		if err != nil || problem != c.problem {
			t.Errorf("%s gives %q, %v; want %q", c.text, problem, err, c.problem)
		}
	}
	for text, wrong := range map[string]string{
		`payload.`:            "it is not CEL",
		`payload.versin == 1`: "version",
		`1 + 1`:               "neither a truth value nor a text",
	} {
		if _, err := environment.HealthRule(text, jobType); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want one that says %q", text, err, wrong)
		}
	}
}
