package mutation

// ages are what plugins that keep what they read may be relied on for (S11).
var ages = []Mutant{
	{
		Name: "pending-is-in-sync", Of: Caching, File: "internal/pluginhost/remote/claims.go",
		Old:    `problem = checkPending(outcome.Pending, d, requestTime)`,
		New:    "if problem = checkPending(outcome.Pending, d, requestTime); mutant.On(\"pending-is-in-sync\") {\n\t\t\td.Outcome = intent.InSync\n\t\t}",
		Breaks: "S11 S26",
		Why:    "A change that is under way counts as over.",
	},
	{
		Name: "age-is-not-counted", Of: Caching, File: "internal/pluginhost/remote/claims.go",
		Old:    `d.At = d.At.Add(-age)`,
		New:    "if !mutant.On(\"age-is-not-counted\") {\n\t\td.At = d.At.Add(-age)\n\t}",
		Breaks: "S1 S8 S26",
		Why:    "What a plugin read a while ago counts as read now.",
	},
	{
		Name: "old-answers-are-new", Of: Caching, File: "internal/annealing/enforcer/pending.go",
		Old:    `if g.old {`,
		New:    `if g.old && !mutant.On("old-answers-are-new") {`,
		Breaks: "S1 S26",
		Why:    "Neighbours rely on what a sweep was told of a while ago.",
	},
	{
		Name: "old-differences-are-pushed", Of: Caching, File: "internal/annealing/enforcer/observed.go",
		Old:    `case err == nil && g.old && (g.difference.Outcome == intent.Differs || g.records()):`,
		New:    `case err == nil && g.old && (g.difference.Outcome == intent.Differs && !mutant.On("old-differences-are-pushed") || g.records()):`,
		Breaks: "S1 S11",
		Why:    "A push rests on a difference that was seen a while ago.",
	},
	{
		Name: "old-answers-are-recorded", File: "internal/annealing/enforcer/observed.go",
		Old:    `return g.difference.Outcome == intent.InSync && g.asset.enforcedAs() != g.effective`,
		New:    `return g.difference.Outcome == intent.InSync && g.asset.enforcedAs() != g.effective && !mutant.On("old-answers-are-recorded")`,
		Breaks: "S26",
		Why:    "What was so a while ago is recorded as enforced, though a push may have come since.",
	},
	{
		Name: "neighbours-take-the-cadence", Of: Caching, File: "internal/annealing/enforcer/pending.go",
		Old:    `isQuiet := a.trouble == nil && !o.facts.wanted[a] &&`,
		New:    "if mutant.On(\"neighbours-take-the-cadence\") && a.trouble == nil && o.facts.wanted[a] {\n\t\treturn time.Time{}\n\t}\n\tisQuiet := a.trouble == nil && !o.facts.wanted[a] &&",
		Breaks: "L1 L10 S1",
		Why:    "A neighbour's question is answered by what the plugin has, which is never new enough.",
	},
	{
		Name: "pending-keeps-the-difference", Of: Caching, File: "internal/annealing/enforcer/pending.go",
		Old:    `t.share, t.broken, t.apart, t.difference, a.seenAt = 0, 0, time.Time{}, intent.Difference{}, 0`,
		New:    "if !mutant.On(\"pending-keeps-the-difference\") {\n\t\tt.difference = intent.Difference{}\n\t}\n\tt.share, t.broken, t.apart, a.seenAt = 0, 0, time.Time{}, 0",
		Breaks: "S11",
		Why:    "What differed before the change began is pushed while it is under way.",
	},
}
