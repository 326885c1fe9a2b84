package workflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// wide is a definition whose search is as large as a file can make it: many machines with many
// transitions that are enabled at once.
func wide(machines, transitions int) string {
	var b strings.Builder
	b.WriteString("workflow: v1\nname: wide\nsignals: [a, b, c, d, e, f, g, h]\nmachines:\n")
	for m := range machines {
		fmt.Fprintf(&b, "  m%d:\n    initial: a\n    states: {a: {action: {wait: {for: 1m}}}, b: {action: {wait: {for: 1m}}}, c: {end: success}}\n    transitions:\n", m)
		for t := range transitions {
			fmt.Fprintf(&b, "      - {from: [a, b], to: %c, on: done, when: 'signals.%c || signals.%c'}\n", "abc"[t%3], 'a'+t%8, 'a'+(t+m)%8)
		}
	}
	return b.String()
}

// A search that has no effort left says so, and ends soon.
func TestEffortBoundsASearch(t *testing.T) {
	d := must(t, wide(8, 6))
	began := time.Now()
	report := d.CheckWithin(Bounds{States: 5000, Effort: 20_000})
	if report.Complete || !slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Rule == RuleBound }) {
		t.Errorf("it is complete, or does not say that it is not: %+v", report)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	again := must(t, wide(8, 6)).CheckWithin(Bounds{States: 5000, Effort: 20_000})
	if again.States != report.States || len(again.Findings) != len(report.Findings) {
		t.Errorf("the same search came to %d states and then to %d", report.States, again.States)
	}
	if small := must(t, small).CheckWithin(Bounds{States: 5000, Effort: 20_000}); !small.Complete {
		t.Error("a small search met its bounds")
	}
}

// Files that take long to read are refused before they do.
func TestReadIsBounded(t *testing.T) {
	keys := "workflow: v1\nname: x\nmachines: {}\ninputs:\n"
	var names strings.Builder
	for i := range 300 {
		fmt.Fprintf(&names, "  n%d: string\n", i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"too large":      {strings.Repeat("#", MaxBytes+1), "at most 262144 are read"},
		"too many keys":  {keys + strings.Repeat("  a: b\n", 20_000), "more than 20000 keys and values"},
		"too many names": {strings.Replace(small, "name: small", "name: small\ninputs:\n"+names.String(), 1), "300 inputs"},
		"no UTF-8":       {"workflow: v1\nname: \xff\n", "not written in UTF-8"},
	} {
		if d, findings := Read("test.yaml", []byte(c.text)); d != nil || len(findings) != 1 || !strings.Contains(findings[0].Message, c.want) {
			t.Errorf("%s: %+v, want %s", name, findings, c.want)
		}
	}
}

func TestUses(t *testing.T) {
	text := `workflow: v1
name: uses
machines:
  m:
    initial: a
    states:
      a: {action: {edit: {document: knobs, field: /a, value: b}, runs: at-least-once, leaves: []}}
      b: {action: {task: {asset: t, document: sizes, field: /a, value: b}, runs: at-least-once, leaves: []}}
      c: {action: {tell: {url: "https://hooks.example.com:8443/x"}, runs: at-least-once, leaves: []}}
      d: {end: success}
    transitions: [{from: a, to: b, on: [done, failed]}, {from: b, to: c, on: [done, failed]}, {from: c, to: d, on: [done, failed]}]
`
	d := must(t, text)
	if got, want := d.Documents(), []Use{{"knobs", "/a", "m/a", 7}, {"sizes", "/a", "m/b", 8}}; !slices.Equal(got, want) {
		t.Errorf("documents are %+v, want %+v", got, want)
	}
	if got, want := d.Hosts(), []Use{{"hooks.example.com", "", "m/c", 9}}; !slices.Equal(got, want) {
		t.Errorf("hosts are %+v, want %+v", got, want)
	}
	if d.Line != 2 {
		t.Errorf("the name is in line %d", d.Line)
	}
}
