package validate_test

import (
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/validate"
)

// checkedWorld judges one asset and what a check found of it.
func checkedWorld(t *testing.T, head, candidate *intentpb.Policy, acknowledged bool, checked ...validate.Checked) validate.Judgement {
	t.Helper()
	w := newWorld(t)
	if head != nil {
		w.publish(head, nil, plain(t, "note/a", "a"))
	}
	w.checked = checked
	return w.judge(candidate, acknowledged, plain(t, "note/a", "b"))
}

func severityOf(judgement validate.Judgement, rule string) (severities []intent.Severity) {
	for _, f := range judgement.Findings {
		if f.Rule == rule {
			severities = append(severities, f.Severity)
		}
	}
	return severities
}

// TestCheckingPrograms: what an error weighs is what the policy says, and a required check that
// could not be carried out is held.
func TestCheckingPrograms(t *testing.T) {
	broken := intent.Finding{Severity: intent.Error, Message: "it is broken", Asset: "note/a", File: "a.yaml", Line: 3}
	odd := intent.Finding{Severity: intent.Warning, Message: "it is odd", File: "b.yaml", Line: 4}
	lost := intent.Finding{Rule: "generate", Severity: intent.Error, Message: "the run of notes ended", File: "lehr.yaml", Line: 5}
	const (
		warning = intentpb.ValidationRule_SEVERITY_WARNING
		hold    = intentpb.ValidationRule_SEVERITY_HOLD
		failure = intentpb.ValidationRule_SEVERITY_ERROR
	)
	for name, test := range map[string]struct {
		severity       intentpb.ValidationRule_Severity
		found, failed  []intent.Finding
		acknowledged   bool
		rejected, held bool
	}{
		"nothing":                       {severity: failure},
		"a warning":                     {severity: failure, found: []intent.Finding{odd}},
		"an error":                      {severity: failure, found: []intent.Finding{odd, broken}, rejected: true},
		"an error that holds":           {severity: hold, found: []intent.Finding{broken}, held: true},
		"an error that a person let by": {severity: hold, found: []intent.Finding{broken}, acknowledged: true},
		"an error that warns":           {severity: warning, found: []intent.Finding{broken}},
		"no answer":                     {severity: failure, failed: []intent.Finding{lost}, held: true},
		"no answer that a person let by": {
			severity: failure, failed: []intent.Finding{lost}, acknowledged: true,
		},
		"no answer that warns": {severity: warning, failed: []intent.Finding{lost}},
	} {
		policy := &intentpb.Policy{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE}
		judgement := checkedWorld(t, nil, policy, test.acknowledged, validate.Checked{Name: "notes", Severity: test.severity, Found: test.found, Failed: test.failed})
		if judgement.Rejected != test.rejected || judgement.Held != test.held {
			t.Errorf("%s: rejected %v, held %v", name, judgement.Rejected, judgement.Held)
		}
		if got := len(severityOf(judgement, "programs.notes")); got != len(test.found) {
			t.Errorf("%s: %d findings of the check, want %d", name, got, len(test.found))
		}
		if got := len(severityOf(judgement, validate.NotChecked)); got != len(test.failed) {
			t.Errorf("%s: %d findings of what was not checked, want %d", name, got, len(test.failed))
		}
	}
}

// TestLoosenedChecks: a candidate that asks less of a required check is held, whatever it holds.
func TestLoosenedChecks(t *testing.T) {
	policy := func(change func(*intentpb.CheckingProgram)) *intentpb.Policy {
		program := &intentpb.CheckingProgram{
			Name: "notes", Program: "prometheus-rules", Arguments: []string{"--a=b"}, From: []string{"rules", "web"}, Types: []string{"x.A", "x.B"},
			Severity: intentpb.ValidationRule_SEVERITY_HOLD,
		}
		p := &intentpb.Policy{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE, CheckingPrograms: []*intentpb.CheckingProgram{program}}
		if change(program); program.Name == "" {
			p.CheckingPrograms = nil
		}
		return p
	}
	for name, test := range map[string]struct {
		change func(*intentpb.CheckingProgram)
		reason string
	}{
		"the same":           {func(*intentpb.CheckingProgram) {}, ""},
		"stricter":           {func(p *intentpb.CheckingProgram) { p.Severity = intentpb.ValidationRule_SEVERITY_ERROR }, ""},
		"of more":            {func(p *intentpb.CheckingProgram) { p.From, p.Types = append(p.From, "more"), nil }, ""},
		"gone":               {func(p *intentpb.CheckingProgram) { p.Name = "" }, "it has no such check"},
		"only warning":       {func(p *intentpb.CheckingProgram) { p.Severity = intentpb.ValidationRule_SEVERITY_WARNING }, "weighs less"},
		"another program":    {func(p *intentpb.CheckingProgram) { p.Program = "sql-syntax" }, "asks another program"},
		"other options":      {func(p *intentpb.CheckingProgram) { p.Arguments = nil }, "asks another program"},
		"of one source less": {func(p *intentpb.CheckingProgram) { p.From = []string{"web"} }, "does not read rules"},
		"of one type less":   {func(p *intentpb.CheckingProgram) { p.Types = []string{"x.A"} }, "does not read x.B"},
	} {
		judgement := checkedWorld(t, policy(func(*intentpb.CheckingProgram) {}), policy(test.change), false)
		if judgement.Held != (test.reason != "") {
			t.Errorf("%s: held %v: %+v", name, judgement.Held, judgement.Findings)
		}
		if test.reason != "" && !strings.Contains(finding(t, judgement, "programs.notes", "loosens it").Message, test.reason) {
			t.Errorf("%s: the reason is none of %q: %+v", name, test.reason, judgement.Findings)
		}
	}
}
