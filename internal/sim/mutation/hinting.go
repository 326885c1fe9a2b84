package mutation

// hinted are what hints may and may not do.
var hinted = []Mutant{
	{
		Name: "hint-believed", Of: Hinting, File: "internal/annealing/enforcer/hints.go",
		Old:    `e.queue.Add(a, due, loop.Hint)`,
		New:    "if mutant.On(\"hint-believed\") {\n\t\te.again(a, now)\n\t\treturn\n\t}\n\te.queue.Add(a, due, loop.Hint)",
		Breaks: "L4 L1",
		Why:    "A hint is taken for an answer: no look follows it.",
	},
	{
		Name: "hint-ends-quarantine", Of: Hinting, File: "internal/annealing/enforcer/hints.go",
		Old:    `s.hints.looks[a] = hintedLook{due: due}`,
		New:    "if mutant.On(\"hint-ends-quarantine\") && a.trouble != nil {\n\t\ta.trouble.apart = time.Time{}\n\t}\n\ts.hints.looks[a] = hintedLook{due: due}",
		Breaks: "L2",
		Why:    "A hint has looked at what is kept apart, for it breaks its plugin.",
	},
	{
		Name: "hint-flood-unbounded", Of: Hinting, File: "internal/annealing/enforcer/hints.go",
		Old:    "if a.isBusy() {\n\t\tdue = now.Add(hintGap)\n\t}",
		New:    "if a.isBusy() {\n\t\tdue = now.Add(hintGap)\n\t}\n\tif mutant.On(\"hint-flood-unbounded\") {\n\t\tdue = now\n\t}",
		Breaks: "L10",
		Why:    "Each hint has its asset looked at, however many there are.",
	},
	{
		Name: "lost-hints-are-trusted", Of: Hinting, File: "internal/annealing/enforcer/hints.go",
		Old:    `s.hints.reliable = hints.Reliable`,
		New:    `s.hints.reliable = hints.Reliable || s.hints.reliable && mutant.On("lost-hints-are-trusted")`,
		Breaks: "L4 L1",
		Why:    "Assets rest for the cadence though nobody hints what changes.",
	},
	{
		Name: "what-was-not-hinted-is-not-looked-for", Of: Hinting, File: "internal/annealing/enforcer/hints.go",
		Old:    `if lost {`,
		New:    `if lost && !mutant.On("what-was-not-hinted-is-not-looked-for") {`,
		Breaks: "L4 L1",
		Why:    "What changed while hints were lost is seen after a cadence.",
	},
}
