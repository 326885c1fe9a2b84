package generate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/test/detector"
)

const askFile = `workflow: v1
name: ask
inputs: {unused: string}
machines:
  m:
    initial: asking
    states:
      asking: {action: {ask: {url: "https://status.example.com/ready"}, runs: at-least-once}}
      setting: {action: {edit: {document: knobs, field: /a, value: b}, runs: at-least-once, leaves: []}}
      good: {end: success}
      bad: {end: failure}
    transitions:
      - {from: asking, to: setting, on: done}
      - {from: setting, to: good, on: done}
      - {from: [asking, setting], to: bad, on: failed}
`

// TestRunnersAgreeOnWorkflows: the form for the simulator explores as children do.
func TestRunnersAgreeOnWorkflows(t *testing.T) {
	here := generate.InProcess{Limits: generate.DefaultLimits()}
	for name, c := range map[string]struct {
		text     string
		severity intent.Severity
		want     string
	}{
		"good":        {askFile, intent.Warning, "no guard and no action uses input unused"},
		"cannot read": {strings.Replace(askFile, "initial", "intial", 1), intent.Error, "no key"},
		"is stuck":    {strings.Replace(askFile, "bad: {end: failure}", "bad:", 1), intent.Error, "can get stuck in m/bad"},
	} {
		one, found, err := here.Explore(t.Context(), "flows/ask.yaml", []byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		other, otherFound, err := process("true").Explore(t.Context(), "flows/ask.yaml", []byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(one, other) + cmp.Diff(found, otherFound); diff != "" {
			t.Errorf("%s: they differ: %s", name, diff)
		}
		if len(found) == 0 || found[0].Severity != c.severity || !strings.Contains(found[0].Message, c.want) || found[0].File != "flows/ask.yaml" || found[0].Line == 0 {
			t.Errorf("%s: found %+v, want %s", name, found, c.want)
		}
		if name == "good" && (one.Name != "ask" || one.Line != 2 || one.Digest == "" || len(one.Documents) != 1 || one.Documents[0].Name != "knobs" || len(one.Hosts) != 1 || one.Hosts[0].Name != "status.example.com") {
			t.Errorf("it says %+v", one)
		}
	}
}

// TestHostileWorkflowIsBounded: a search that would not end is bounded, and few of its findings
// are told; of a child that is lost nothing is concluded.
func TestHostileWorkflowIsBounded(t *testing.T) {
	detector.SkipSequential(t)
	var b strings.Builder
	b.WriteString("workflow: v1\nname: wide\nsignals: [a, b, c, d, e, f, g, h]\nmachines:\n")
	for m := range 60 {
		fmt.Fprintf(&b, "  m%d:\n    initial: a\n    states: {a: {action: {wait: {for: 1m}}}, b: {action: {wait: {for: 1m}}}, c: {end: success}}\n    transitions:\n", m)
		for k := range 12 {
			fmt.Fprintf(&b, "      - {from: [a, b], to: %c, on: done, when: 'signals.%c || signals.%c'}\n", "abc"[k%3], 'a'+k%8, 'a'+(k+m)%8)
		}
	}
	began := time.Now()
	_, found, err := process("true").Explore(t.Context(), "wide.yaml", []byte(b.String()))
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	if len(found) > 50 {
		t.Errorf("%d findings", len(found))
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	if _, found, err = process("half").Explore(t.Context(), "wide.yaml", []byte(b.String())); !fault.Is(err, fault.Unavailable) || len(found) > 0 {
		t.Errorf("a child that was lost found %+v, %v", found, err)
	}
}
