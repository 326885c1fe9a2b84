package kindhealth

import (
	"strings"
	"testing"

	"lehr.dev/sdk/serve"
)

func TestJudging(t *testing.T) {
	object := map[string]any{"status": map[string]any{"phase": "Failed", "message": "no room", "ships": []any{map[string]any{"docked": true}, map[string]any{"docked": false}}}}
	for text, want := range map[string]serve.Health{
		`object.status.phase == "Ready"`:                                  {State: serve.Unhealthy, Reason: "the expression for its kind says that it is not healthy"},
		`object.status.phase == "Failed"`:                                 {State: serve.Healthy},
		`object.status.phase == "Ready" ? "" : object.status.message`:     {State: serve.Unhealthy, Reason: "no room"},
		`object.status.ships.exists(s, !s.docked) ? "a ship is out" : ""`: {State: serve.Unhealthy, Reason: "a ship is out"},
		`object.?status.?conditions.orValue([]).size() == 0 ? "" : "has"`: {State: serve.Healthy},
		`object.status.other == "Ready"`:                                  {State: serve.HealthUnknown, Reason: "no such key: other"},
		`object.status.ships`:                                             {State: serve.HealthUnknown, Reason: "neither a truth value nor a text"},
		`[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a + b + c + d + e > 0)))))`: {State: serve.HealthUnknown, Reason: "cost"},
	} {
		rule, err := Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := rule.Judge(object); got.State != want.State || !strings.Contains(got.Reason, want.Reason) || want.Reason == "" && got.Reason != "" {
			t.Errorf("%s gives %+v, want %+v", text, got, want)
		}
	}
	for text, want := range map[string]string{`object.`: "Syntax error", `other.x == 1`: "undeclared reference", `1 + 1`: "it gives a int", strings.Repeat("(", 5000): "more than 4096"} {
		if _, err := Compile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s is read with %v, want …%s…", text, err, want)
		}
	}
}
