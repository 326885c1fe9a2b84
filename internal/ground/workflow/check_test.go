package workflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
)

// expectFindings holds a check to its errors and warnings, as rule:line.
func expectFindings(t *testing.T, text string, want ...string) Report {
	t.Helper()
	report := must(t, text).Check(DefaultLimit)
	var got []string
	for _, f := range report.Findings {
		mark := ""
		if f.Severity == intent.Warning {
			mark = "?"
		}
		got = append(got, fmt.Sprintf("%s:%d%s", f.Rule, f.Line, mark))
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
		for _, f := range report.Findings {
			t.Logf("line %d: %s\n%v", f.Line, f.Message, f.Trace)
		}
	}
	return report
}

// twoMachines are first, which waits a minute, and second.
func twoMachines(states, transitions string) string {
	return `workflow: v1
name: two
inputs: {size: int, place: string, eager: bool}
facts: {quiet: {asset: web, when: 'report.state == "in-sync"'}}
signals: [go_on]
machines:
  first: {initial: w, states: {w: {action: {wait: {for: 1m}}}, o: {end: success}}, transitions: [{from: w, to: o, on: done}]}
  second:
    initial: a
    states:
` + states + "    transitions:\n" + transitions +
		"  user: {initial: x, states: {x: {end: neutral, action: {tell: {url: 'https://x/${inputs.size}${inputs.place}${inputs.eager}'}, runs: at-least-once, leaves: []}}, y: {end: neutral}}, transitions: [{from: x, to: y, on: [done, failed], when: 'facts.quiet || !facts.quiet || signals.go_on'}]}\n"
}

const end = "      z: {end: success}\n"

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		states, transitions string
		want                []string
	}{
		"nothing": {"      a:\n" + end, `      - {from: a, to: z, when: 'machines.first == "o"'}` + "\n", nil},
		"a state that is never reached": {"      a: {end: neutral}\n      b: {end: failure}\n" + end, `      - {from: a, to: z, when: 'machines.first == "o"'}` + "\n",
			[]string{"unreachable:12"}},
		"a guard that never holds": {"      a:\n" + end, `      - {from: a, to: z, when: 'machines.first == "o"'}` + "\n" + `      - {from: a, to: z, when: 'machines.first == "o" && machines.second == "z"'}` + "\n",
			[]string{"never-holds:15"}},
		"a contradiction of data": {"      a: {end: neutral}\n" + end, `      - {from: a, to: z, when: 'machines.first == "o"'}` + "\n" + `      - {from: a, to: z, when: 'inputs.place == "x" && inputs.place in ["y", "z"]'}` + "\n",
			[]string{"never-holds:15"}},
		"numbers": {"      a: {end: neutral}\n" + end, `      - {from: a, to: z, when: 'inputs.size > 3'}` + "\n" + `      - {from: a, to: z, when: 'inputs.size < 3 && inputs.size >= 3'}` + "\n",
			[]string{"never-holds:15"}},
		"opaque data are tried both ways": {"      a: {end: neutral}\n" + end, `      - {from: a, to: z, when: 'inputs.place.matches("^a+$") && size(inputs.place) == 7'}` + "\n", nil},
		"a race": {"      a: {end: neutral}\n      b: {end: failure}\n" + end, `      - {from: a, to: z, when: 'inputs.size > 3'}` + "\n" + `      - {from: a, to: b, when: 'inputs.size > 5'}` + "\n",
			[]string{"unreachable:12", "race:16"}},
		"no race": {"      a:\n      b: {end: failure}\n" + end, `      - {from: a, to: z, when: 'inputs.size > 3'}` + "\n" + `      - {from: a, to: b, when: 'inputs.size <= 3'}` + "\n", nil},
		"a race of what is opaque": {"      a: {end: neutral}\n      b: {end: failure}\n" + end, `      - {from: a, to: z, when: 'inputs.place.startsWith("x")'}` + "\n" + `      - {from: a, to: b, when: 'inputs.place.startsWith("y")'}` + "\n",
			[]string{"race:16?"}},
		"a cycle": {"      a: {end: neutral}\n      b: {end: neutral}\n", `      - {from: a, to: b, when: 'machines.first == "o"'}` + "\n      - {from: b, to: a}\n",
			[]string{"cycle:15"}},
		"a cycle that attempts end": {"      a: {end: neutral}\n      b: {end: neutral}\n", `      - {from: a, to: b, when: 'attempts < 4'}` + "\n      - {from: b, to: a}\n", nil},
		"a retry for ever": {"      a: {action: {ask: {url: 'https://x/y'}, runs: at-least-once}}\n" + end, "      - {from: a, to: a, on: failed}\n      - {from: a, to: z, on: done}\n",
			[]string{"cycle:14?"}},
		"a retry with a count": {"      a: {action: {ask: {url: 'https://x/y'}, runs: at-least-once}}\n      b: {end: failure}\n" + end,
			"      - {from: a, to: a, on: failed, when: attempts < 3}\n      - {from: a, to: b, on: failed, when: attempts >= 3}\n      - {from: a, to: z, on: done}\n", nil},
		"a retry with a pause": {"      a: {action: {ask: {url: 'https://x/y'}, runs: at-least-once}}\n      b: {action: {wait: {for: 1m}}}\n" + end,
			"      - {from: a, to: b, on: failed}\n      - {from: b, to: a, on: done}\n      - {from: a, to: z, on: done}\n", nil},
		"an outcome without a way": {"      a: {action: {ask: {url: 'https://x/y'}, runs: at-most-once}}\n" + end, "      - {from: a, to: z, on: [done, failed]}\n",
			[]string{"stuck:11"}},
		"a state that is no end": {"      a: {action: {wait: {for: 1m}}}\n      z:\n", "      - {from: a, to: z, on: done}\n", []string{"stuck:12"}},
		"no end":                 {"      a: {end: neutral, action: {wait: {for: 1m}}}\n", "      - {from: a, to: a, on: done}\n", []string{"never-ends:1"}},
		"no end from here": {"      a: {action: {person: {question: Really, roles: [approver]}}}\n      b: {action: {wait: {for: 1m}}}\n" + end, "      - {from: a, to: z, on: approved}\n      - {from: a, to: b, on: refused}\n      - {from: b, to: b, on: done}\n",
			[]string{"never-ends:1"}},
		"a signal is awaited": {"      a:\n" + end, "      - {from: a, to: z, when: signals.go_on}\n", nil},
		"a fact is awaited":   {"      a:\n" + end, "      - {from: a, to: z, when: facts.quiet}\n", nil},
		"what is left": {"      a: {action: {edit: {document: d, field: /f, value: v}, runs: at-least-once, leaves: thing}}\n      b: {end: failure}\n" + end,
			"      - {from: a, to: z, on: done}\n      - {from: a, to: b, on: failed}\n", []string{"compensation:11"}},
		"what is accepted": {"      a: {retreat: true, action: {edit: {document: d, field: /f, value: v}, runs: at-least-once, leaves: thing}}\n      b: {end: failure, accepts: thing}\n" + end,
			"      - {from: a, to: z, on: done}\n      - {from: a, to: b, on: failed}\n", []string{"compensation:11"}}, // Cancelled in z while first waits.
		"what nobody leaves": {"      a: {action: {edit: {document: d, field: /f, value: v}, runs: at-least-once, undoes: thing}}\n" + end, "      - {from: a, to: z, on: [done, failed]}\n",
			[]string{"compensation:11"}},
		"what is not said": {"      a: {action: {edit: {document: d, field: /f, value: v}, runs: at-least-once}}\n" + end, "      - {from: a, to: z, on: [done, failed]}\n",
			[]string{"compensation:11?"}},
		"an output that is not known": {"      a: {action: {ask: {url: 'https://x/y'}, runs: at-least-once, outputs: {n: string}}}\n      b: {action: {ask: {url: 'https://x/${outputs.second.n}'}, runs: at-least-once}}\n" + end,
			"      - {from: a, to: b, on: [done, failed]}\n      - {from: b, to: z, on: [done, failed]}\n", []string{"unknown-output:12"}},
	} {
		t.Run(name, func(t *testing.T) { expectFindings(t, twoMachines(c.states, c.transitions), c.want...) })
	}
}

// TestTraces: a finding shows the shortest way to it.
func TestTraces(t *testing.T) {
	report := expectFindings(t, strings.Replace(readText(t, "testdata/promote.yaml"), "      - {from: deploying, to: undoing, when: cancelled}\n", "", 1), "compensation:45")
	var trace []string
	for _, move := range report.Findings[0].Trace {
		trace = append(trace, move.Event)
	}
	want := []string{"start, inputs.urgent is true, facts.quiet is true", "build/building done", "cancel"}
	if !slices.Equal(trace, want) {
		t.Errorf("the trace is %q, want %q", trace, want)
	}
}

// TestBound: a search that ends early says so, and calls nothing impossible.
func TestBound(t *testing.T) {
	d := must(t, twoMachines("      a: {end: neutral}\n      b: {end: failure}\n"+end, `      - {from: a, to: z, when: 'machines.first == "o"'}`+"\n"))
	report := d.Check(3)
	if rules := severe(report.Findings, intent.Warning); report.Complete || report.States != 3 || !slices.Equal(rules, []string{RuleBound}) || len(severe(report.Findings, intent.Error)) > 0 {
		t.Errorf("complete %t, found %v", report.Complete, report.Findings)
	}
}
