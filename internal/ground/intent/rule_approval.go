package intent

import "fmt"

// RuleApproval is a reviewed rule that is the approval of a push: of exactly what it names,
// in place of people's (S9).
type RuleApproval struct {
	// Rule is its name in the policy, and Digest covers all that it says.
	Rule   string
	Digest Digest
	// Preview that made the asset; empty: the rule is one of generations.
	Preview string
}

// String names the rule for people.
func (a RuleApproval) String() string {
	if a.Preview != "" {
		return fmt.Sprintf("rule %s of previews", a.Rule)
	}
	return fmt.Sprintf("rule %s of generations", a.Rule)
}
