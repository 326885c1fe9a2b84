package intent

// RuleApproval is a reviewed rule that is the approval of a push: of exactly what it names,
// in place of people's (S9).
type RuleApproval struct {
	// Rule is its name in the policy, and Digest covers all that it says.
	Rule   string
	Digest Digest
}
