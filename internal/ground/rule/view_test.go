package rule_test

import (
	"math"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

func TestNeighboursAreSeen(t *testing.T) {
	environment := rule.New(schema.Builtin())
	of := asset(t, "a", &processpb.Job{Name: "a", Binary: "/b", Replicas: 3})
	others := []intent.Asset{
		asset(t, "b", &processpb.Job{Name: "b", Binary: "/b", Replicas: 1}, &intentpb.Labels{Labels: map[string]string{"tier": "front"}}),
		asset(t, "c", &intentpb.Owner{Owner: "x"}),
	}
	for text, want := range map[string]bool{
		`to.all(n, n.id != id)`:                                        true,
		`to.exists(n, n.type == "Job" && n.payload.replicas < 2)`:      true,
		`to.exists(n, "Owner" == n.type)`:                              true,
		`to.filter(n, n.type in ["Job"]).exists(m, m.type == "Owner")`: false,
		`to.all(n, n.type != "Job" || n.labels["tier"] == "front")`:    true,
		`size(from) == 0 && payload.replicas == 3`:                     true,
		`from.exists(n, true)`:                                         false,
		`to.map(n, n.id) == ["b", "c"]`:                                true,
	} {
		condition, err := environment.Condition(text, "lehr.process.v1.Job", rule.Among)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if holds, err := condition.Holds(of, rule.Added{To: others}); err != nil || holds != want {
			t.Errorf("%s: %v, %v", text, holds, err)
		}
	}
	for text, words := range map[string]string{
		`to.all(n, n.tpye == "Job")`:          "column 12: no field \"tpye\"",
		`to.all(n, n.type == "Jbo")`:          "Jbo",
		`payload.replcias > 1`:                "replcias",
		`answer.status == 200`:                "nothing is named \"answer\"",
		`to.size()`:                           "not a truth value",
		`to.all(to, true)`:                    "cannot name an element",
		`to.exists(n, n.type in ["No.Such"])`: "No.Such",
	} {
		if _, err := environment.Condition(text, "lehr.process.v1.Job", rule.Among); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAnswersAreSeen(t *testing.T) {
	environment := rule.New(schema.Builtin())
	of := asset(t, "a", &processpb.Job{Name: "a", Binary: "/b"})
	answer := rule.Answer{Status: 200, Text: `{"owner": "web", "hosts": ["a", "b"], "n": 3}`, Rows: []map[string]any{{"name": "a", "n": int64(2)}}}
	for text, want := range map[string]bool{
		`answer.status == 200 && answer.body.owner == "web"`:      true,
		`payload.name in answer.body.hosts && answer.body.n == 3`: true,
		`answer.rows.all(r, r.name == payload.name && r.n > 1)`:   true,
		`size(answer.rows) == 0 || answer.exit != 0`:              false,
	} {
		condition, err := environment.Condition(text, "", rule.Answered)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if holds, err := condition.Holds(of, rule.Added{Answer: answer}); err != nil || holds != want {
			t.Errorf("%s: %v, %v", text, holds, err)
		}
	}
	if _, err := environment.Condition(`answer.stauts == 200`, "", rule.Answered); err == nil || !strings.Contains(err.Error(), "stauts") {
		t.Errorf("a misspelt field: %v", err)
	}
	condition, err := environment.Condition(`answer.body.nothing == 1`, "", rule.Answered)
	if err != nil {
		t.Fatal(err)
	}
	if holds, err := condition.Holds(of, rule.Added{Answer: answer}); err == nil {
		t.Errorf("what the answer has not is %v", holds)
	}
}

func TestWholes(t *testing.T) {
	environment := rule.New(schema.Builtin())
	one := asset(t, "a", &processpb.Job{Name: "a", Binary: "/b", Replicas: 3}, &intentpb.ImpactedScope{Scopes: map[string]string{"cluster": "east"}})
	whole, err := environment.Whole(`count(type == "Job" && scope == key) >= 2 && sum(payload.replicas, type == "Job") < 10.0`)
	if err != nil {
		t.Fatal(err)
	}
	if !whole.Keyed || len(whole.Aggregates) != 2 || !whole.Aggregates[0].Grouped() || whole.Aggregates[1].Grouped() {
		t.Errorf("%+v", whole.Aggregates)
	}
	key, number, contributes, err := whole.Aggregates[0].Of(one)
	if key != "east" || number != 1 || !contributes || err != nil {
		t.Error(key, number, contributes, err)
	}
	if key, number, contributes, err = whole.Aggregates[1].Of(one); key != "" || number != 3 || !contributes || err != nil {
		t.Error(key, number, contributes, err)
	}
	for _, values := range [][]float64{{2, 9}, {1, 9}, {2, 10}} {
		if holds, err := whole.Holds("east", values); err != nil || holds != (values[0] >= 2 && values[1] < 10) {
			t.Error(values, holds, err)
		}
	}
	if _, err := whole.Holds("east", []float64{2, math.NaN()}); err == nil {
		t.Error("no value is a value")
	}
	for text, words := range map[string]string{
		`payload.replicas > 1`:                     "has no aggregate",
		`1 == 1`:                                   "no aggregate",
		`count(payload.replcias > 1) > 0`:          "replcias",
		`count(type == "Jbo") > 0`:                 "Jbo",
		`count(type == "Job") > 0 && id == "a"`:    "nothing is named \"id\"",
		`count(type == "Job")`:                     "not a truth value",
		`count() > 1`:                              "0 arguments",
		`count(scope == key || key == "a") > 1`:    "key stands for itself",
		`sum(payload.replcias, type == "Job") > 1`: "replcias",
		`count(true) > 1 && kye == "a"`:            "kye",
		`count(count(true) > 1) > 1`:               "count",
	} {
		if _, err := environment.Whole(text); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
