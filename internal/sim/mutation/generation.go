package mutation

// surplus are what rules of generations may and may not do.
var surplus = []Mutant{
	{
		Name: "newest-generations-go", Of: Generations, File: "internal/ground/generation/generation.go",
		Old:    `return sorted[keep:]`,
		New:    "if mutant.On(\"newest-generations-go\") {\n\t\treturn sorted[:len(sorted)-keep]\n\t}\n\treturn sorted[keep:]",
		Breaks: "S5",
		Why:    "The oldest ones are kept, and the newest go.",
	},
	{
		Name: "rule-keeps-one-fewer", Of: Generations, File: "internal/ground/generation/generation.go",
		Old:    `keep := max(1, int(r.GetKeep()))`,
		New:    "keep := max(1, int(r.GetKeep()))\n\tif mutant.On(\"rule-keeps-one-fewer\") {\n\t\tkeep--\n\t}",
		Breaks: "S5",
		Why:    "One fewer is kept than the rule says.",
	},
	{
		Name: "rule-in-force-at-once", Of: Generations, File: "internal/prodspec/generations.go",
		Old:    `func(s generation.Rule) bool { return s.Digest == r.Digest }`,
		New:    `func(s generation.Rule) bool { return s.Digest == r.Digest || mutant.On("rule-in-force-at-once") }`,
		Breaks: "S23",
		Why:    "A commit that brings a rule, or loosens it, removes by it at once, before anybody has seen it. It shows where head had another rule.",
	},
	{
		Name: "rule-approves-what-is-marked", Of: Generations, File: "internal/annealing/check/approval.go",
		Old:        `f.Rule == nil || f.Turndown == nil || f.Marked != "" ||`,
		New:        `f.Rule == nil || f.Turndown == nil || f.Marked != "" && !mutant.On("rule-approves-what-is-marked") ||`,
		Breaks:     "S9",
		Why:        "A rule is the approval of what people are to approve.",
		Equivalent: "no build turns down by a rule what is marked for approval",
	},
	{
		Name: "any-rule-approves", Of: Generations, File: "internal/annealing/enforcer/rule_approval.go",
		Old:        `if !ok {`,
		New:        "if mutant.On(\"any-rule-approves\") {\n\t\t\tapproval, ok = intent.RuleApproval{Rule: turndown.GetGeneration().GetRule()}, true\n\t\t}\n\t\tif !ok {",
		Breaks:     "S9",
		Why:        "A rule that its Turndown names is the approval, whether it is in force or not.",
		Equivalent: "admission asks head's policy again",
	},
	{
		Name: "rule-not-asked-again", Of: Generations, File: "internal/store/relational/rule_approval.go",
		Old:        `if a.Rule == nil {`,
		New:        `if a.Rule == nil || mutant.On("rule-not-asked-again") {`,
		Breaks:     "S9",
		Why:        "Admission takes the enforcer's word for it that a rule is the approval.",
		Equivalent: "the enforcer asked the policy of the same head, whose revision admission compares",
	},
	{
		Name: "rule-of-any-turndown", Of: Generations, File: "internal/annealing/enforcer/rule_approval.go",
		Old:        `err != nil || turndown.GetGeneration() == nil {`,
		New:        `err != nil || turndown.GetGeneration() == nil && !mutant.On("rule-of-any-turndown") {`,
		Breaks:     "S9",
		Why:        "What people turned down by hand counts as a rule's.",
		Equivalent: "the rule's name and digest are of the Turndown, which has none",
	},
	{
		Name: "generations-without-successor", Of: Generations, File: "internal/prodspec/generations.go",
		Old:    `len(surplus) == 0 || !b.givesGenerationOf(rule.Rule)`,
		New:    `len(surplus) == 0 || !mutant.On("generations-without-successor") && !b.givesGenerationOf(rule.Rule)`,
		Breaks: "S5",
		Why:    "When all of it has left the sources, older ones are removed though nothing is in their place: absence deletes.",
	},
	{
		Name: "surplus-stays", Of: Generations, File: "internal/prodspec/pipeline.go",
		Old:    `partition.Head != lastHead {`,
		New:    `partition.Head != lastHead && !mutant.On("surplus-stays") {`,
		Breaks: "L1",
		Why:    "What a new head leaves behind is turned down with the next change of a source only.",
	},
}
