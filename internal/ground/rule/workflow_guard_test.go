package rule_test

import (
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/rule"
)

var conditionVariables = map[string]rule.Scalar{
	"machines.build": rule.ScalarString, "inputs.count": rule.ScalarInt, "inputs.share": rule.ScalarNumber, "inputs.eager": rule.ScalarBool,
	"outputs.build.image": rule.ScalarString, "facts.quiet": rule.ScalarBool, "cancelled": rule.ScalarBool,
}

func newConditions(t *testing.T) *rule.Guards {
	t.Helper()
	guards, err := rule.NewGuards(conditionVariables)
	if err != nil {
		t.Fatal(err)
	}
	return guards
}

// TestConditions: a guard has the same value by CEL and by its formula, and what is open
// leaves it undecided only where it matters.
func TestConditions(t *testing.T) {
	guards := newConditions(t)
	values := map[string]any{"machines.build": "built", "inputs.count": int64(3), "inputs.share": 0.5, "inputs.eager": true, "facts.quiet": false, "cancelled": false}
	open := []string{"facts.quiet", "outputs.build.image"}
	for text, want := range map[string]struct{ closed, open rule.Verdict }{
		`machines.build == "built"`:                              {rule.Holds, rule.Holds},
		`machines.build != "built"`:                              {rule.Fails, rule.Fails},
		`machines.build in ["idle", "built"]`:                    {rule.Holds, rule.Holds},
		`inputs.count > 3`:                                       {rule.Fails, rule.Fails},
		`3 <= inputs.count && inputs.count < 4`:                  {rule.Holds, rule.Holds},
		`inputs.share > 0.4`:                                     {rule.Holds, rule.Holds},
		`inputs.eager ? facts.quiet : cancelled`:                 {rule.Fails, rule.Undecided},
		`facts.quiet`:                                            {rule.Fails, rule.Undecided},
		`facts.quiet || machines.build == "built"`:               {rule.Holds, rule.Holds},
		`!facts.quiet && cancelled`:                              {rule.Fails, rule.Fails},
		`outputs.build.image.startsWith("a") && inputs.eager`:    {rule.Fails, rule.Undecided},
		`outputs.build.image == "a"`:                             {rule.Fails, rule.Undecided},
		`outputs.build.image != "a"`:                             {rule.Fails, rule.Undecided},
		`outputs.build.image.matches("a+") || inputs.count == 3`: {rule.Holds, rule.Holds},
		`outputs.build.image + "x" == "ax"`:                      {rule.Fails, rule.Undecided},
		`outputs.build.image in ["a", "b"]`:                      {rule.Fails, rule.Undecided},
		`cancelled == false && true`:                             {rule.Holds, rule.Holds},
		`["a", "b"].exists(x, x == machines.build) || cancelled`: {rule.Fails, rule.Fails},
	} {
		guard, err := guards.Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, _ := guard.Evaluate(values, nil); got != want.closed {
			t.Errorf("%s: %d, want %d", text, got, want.closed)
		}
		if got, err := guard.Evaluate(values, open); got != want.open {
			t.Errorf("%s with %v open: %d, want %d (%v)", text, open, got, want.open, err)
		}
	}
}

func TestConditionsThatAreNone(t *testing.T) {
	guards := newConditions(t)
	for text, want := range map[string]string{
		`machines.biuld == "built"`: "is machines.build meant?", `machines.build`: "not a truth value", `machines.build == 3`: "no guard",
		`nothing`: "no guard", `inputs.count >`: "no guard", `has(inputs.conut)`: "is inputs.count meant?",
		strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200): "no guard",
	} {
		_, err := guards.Compile(text)
		if cause, ok := err.(*fault.Error); !ok || cause.Kind != fault.Invalid || !strings.Contains(cause.Message+cause.Hint, want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

// TestFormulas: contraries have one leaf, so that a search never takes both.
func TestFormulas(t *testing.T) {
	guards := newConditions(t)
	leaf := func(text string) string {
		guard, err := guards.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		guard.Formula().Leaves(func(f rule.Formula) {
			found = append(found, strings.Join(append([]string{f.Name, f.Literal, f.Text, string(rune('0' + f.Bound))}, f.Reads...), "|"))
		})
		return strings.Join(found, " ")
	}
	for one, other := range map[string]string{
		`inputs.count > 3`: `inputs.count <= 3`, `inputs.count >= 3`: `3 > inputs.count`, `inputs.share > 0.5`: `inputs.share<=0.5`,
		`machines.build == "a"`: `"a" != machines.build`, `inputs.eager`: `!inputs.eager`, `inputs.eager == false`: `inputs.eager == true`,
		`outputs.build.image == machines.build`: `machines.build != outputs.build.image`,
	} {
		if leaf(one) != leaf(other) {
			t.Errorf("%s has the leaf %s, %s %s", one, leaf(one), other, leaf(other))
		}
		for _, value := range []rule.Verdict{rule.Holds, rule.Fails} {
			first, _ := guards.Compile(one)
			second, _ := guards.Compile(other)
			truth := func(rule.Formula) rule.Verdict { return value }
			if first.Formula().Evaluate(truth) == second.Formula().Evaluate(truth) {
				t.Errorf("%s and %s are both %d", one, other, value)
			}
		}
	}
}
