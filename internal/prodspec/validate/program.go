package validate

import (
	"context"
	"fmt"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// Checked is what a checking program found of a candidate.
type Checked struct {
	Name string
	// Severity of the errors that it finds.
	Severity intentpb.ValidationRule_Severity
	// Found has errors and warnings, each with its place.
	Found []intent.Finding
	// Failed says why it gave no answer about some of what it was given; empty: it did.
	Failed []intent.Finding
}

// NotChecked is the rule of findings that tell of a check that could not be carried out.
const NotChecked = "not-checked"

// programs judges by what checking programs found. What a required one could not check is held:
// it is neither right nor wrong. So is a candidate whose policy asks less of them than head's.
func (j *judging) programs(context.Context) error {
	for _, checked := range j.Checked {
		required := checked.Severity != intentpb.ValidationRule_SEVERITY_WARNING
		for _, f := range checked.Failed {
			f = NotCarriedOut(checked.Name, f)
			if required {
				j.hold(f)
			} else {
				j.add(f)
			}
		}
		for _, f := range checked.Found {
			f = found(checked.Name, f)
			switch {
			case f.Severity != intent.Error || !required:
				f.Severity = intent.Warning
				j.add(f)
			case checked.Severity == intentpb.ValidationRule_SEVERITY_HOLD:
				j.hold(f)
			default:
				j.add(f)
			}
		}
	}
	j.loosenedPrograms()
	return nil
}

// ProgramRule is the rule of what a checking program finds.
func ProgramRule(name string) string { return "programs." + name }

// found names the program of a finding.
func found(name string, f intent.Finding) intent.Finding {
	f.Rule = ProgramRule(name)
	f.Message += fmt.Sprintf(" (check %s)", name)
	return f
}

// NotCarriedOut is the warning about a run that gave no answer.
func NotCarriedOut(name string, f intent.Finding) intent.Finding {
	f.Rule, f.Severity = NotChecked, intent.Warning
	f.Message = fmt.Sprintf("the check %s could not be carried out, so nobody knows what it would find: %s", name, f.Message)
	return f
}

// FoundOfServed are warnings of what is served already: no candidate is there to be held.
func FoundOfServed(checked []Checked) (list []intent.Finding) {
	for _, c := range checked {
		for _, f := range c.Failed {
			list = append(list, NotCarriedOut(c.Name, f))
		}
		for _, f := range c.Found {
			f = found(c.Name, f)
			f.Severity = intent.Warning
			list = append(list, f)
		}
	}
	return intent.GroupFindings(list)
}

// loosenedPrograms holds a candidate whose policy asks less of a required check than head's, or
// something else: what that check would say of the candidate nobody asked (S23).
func (j *judging) loosenedPrograms() {
	for _, head := range j.HeadPolicy.GetCheckingPrograms() {
		if head.GetSeverity() == intentpb.ValidationRule_SEVERITY_WARNING {
			continue
		}
		at := slices.IndexFunc(j.CandidatePolicy.GetCheckingPrograms(), func(c *intentpb.CheckingProgram) bool { return c.GetName() == head.GetName() })
		reason := "it has no such check"
		if at >= 0 {
			reason = loosenedProgram(head, j.CandidatePolicy.GetCheckingPrograms()[at])
		}
		if reason == "" {
			continue
		}
		j.hold(intent.Finding{
			Rule: "programs." + head.GetName(), Asset: intent.PolicyAsset, Field: string(policyType) + ".checking_programs",
			Message: fmt.Sprintf("%s requires the check %s, and this candidate loosens it: %s", j.Base, head.GetName(), reason),
		})
	}
}

// loosenedProgram says what a check asks less than before, or otherwise; empty: nothing.
func loosenedProgram(head, candidate *intentpb.CheckingProgram) string {
	lacks := func(old, now []string) string {
		for _, name := range old {
			if !slices.Contains(now, name) {
				return name
			}
		}
		return ""
	}
	severe := []intentpb.ValidationRule_Severity{intentpb.ValidationRule_SEVERITY_WARNING, intentpb.ValidationRule_SEVERITY_HOLD, intentpb.ValidationRule_SEVERITY_ERROR}
	if slices.Index(severe, candidate.GetSeverity()) < slices.Index(severe, head.GetSeverity()) {
		return "what it finds weighs less"
	}
	if candidate.GetProgram() != head.GetProgram() || !slices.Equal(candidate.GetArguments(), head.GetArguments()) {
		return "it asks another program, or with other options"
	}
	if name := lacks(head.GetFrom(), candidate.GetFrom()); name != "" {
		return "it does not read " + name
	}
	if len(candidate.GetTypes()) == 0 {
		return ""
	}
	if len(head.GetTypes()) == 0 {
		return "it reads assets of some types only"
	}
	if name := lacks(head.GetTypes(), candidate.GetTypes()); name != "" {
		return "it does not read " + name
	}
	return ""
}
