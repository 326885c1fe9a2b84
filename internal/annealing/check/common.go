package check

import (
	"fmt"

	"lehr.dev/internal/ground/intent"
)

// Common says which rule of the server's common policy asks for a check.
type Common struct {
	Rule, Owner string
	// Place says all of it to people, with the file and the line.
	Place string
	// Observed: what it would hold is told, and not held.
	Observed bool
	// Overridable: the rule lets people override it. No policy of a partition does.
	Overridable bool
}

// common is the verdict of a check that a common rule asks for: it names the rule, and holds
// nothing while the rule is only observed.
func (c Required) common(v intent.Verdict) intent.Verdict {
	if v.Answer == intent.Pass {
		return v
	}
	v.Waiting.Reason += fmt.Sprintf(" (%s)", c.Common.Place)
	if v.Waiting.Owner == "" {
		v.Waiting.Owner = c.Common.Owner
	}
	if !c.Common.Observed {
		return v
	}
	observed := v.Waiting
	return intent.Verdict{Check: c.Name, Answer: intent.Pass, Observed: &observed, Fact: "would wait, were its common rule in force: " + observed.Reason}
}

// Observed lists what would hold the push if the common rules were in force that only observe.
func (d Decision) Observed() []intent.WaitingOn {
	var list []intent.WaitingOn
	for _, v := range d.Verdicts {
		if v.Observed != nil {
			list = append(list, *v.Observed)
		}
	}
	return list
}
