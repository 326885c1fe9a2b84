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
		Name: "rule-of-any-digest", Of: Overreaching, File: "internal/ground/generation/generation.go",
		Old:    `r.Digest.String() == removal.GetDigest() &&`,
		New:    `(r.Digest.String() == removal.GetDigest() || mutant.On("rule-of-any-digest")) &&`,
		Breaks: "S9",
		Why:    "A rule that was edited since approves what another one of its name had turned down.",
	},
	{
		Name: "rule-approves-turndowns-of-people", Of: Overreaching, File: "internal/annealing/enforcer/rule_approval.go",
		Old: "if _, err := schema.Addon(target, turndown); err != nil || turndown.GetGeneration() == nil && turndown.GetPreview() == nil {",
		New: "_, unread := schema.Addon(target, turndown)\n\tif mutant.On(\"rule-approves-turndowns-of-people\") && unread == nil && turndown.GetGeneration() == nil {\n" +
			"\t\tif policy, err := r.policy(ctx, g.head); err == nil {\n\t\t\tif rule, ok := generation.Find(policy.Policy, target.ID); ok {\n" +
			"\t\t\t\tturndown.Generation = &intentpb.GenerationRemoval{Rule: rule.GetName(), Digest: rule.Digest.String()}\n\t\t\t}\n\t\t}\n\t}\n" +
			"\tif err := unread; err != nil || turndown.GetGeneration() == nil && turndown.GetPreview() == nil {",
		Breaks: "S9",
		Why:    "A rule approves that people turn down what it names, not only what it turned down itself.",
	},
	{
		Name: "successor-that-is-to-go", Of: Overreaching, File: "internal/prodspec/generations.go",
		Old:    `return !isTurnedDown, nil`,
		New:    `return !isTurnedDown || mutant.On("successor-that-is-to-go"), nil`,
		Breaks: "S5",
		Why:    "A generation that people turn down counts as the one in whose place older ones may go.",
	},
	{
		Name: "generations-without-successor", Of: Generations, File: "internal/prodspec/generations.go",
		Old:    `if !isGiven {`,
		New:    `if !isGiven && !mutant.On("generations-without-successor") {`,
		Breaks: "S5",
		Why:    "When all of it has left the sources, older ones are removed though nothing is in their place: absence deletes.",
	},
}
