package mutation

// delivered are what may become of which version belongs where.
var delivered = []Mutant{
	{
		Name: "stable-for-no-time", Of: Delivering, File: "internal/ground/promotion/verdict.go",
		Old:    "case stint.longest < stable:",
		New:    "case stint.longest < stable && !mutant.On(\"stable-for-no-time\"):",
		Breaks: "S19",
		Why:    "An environment that was well with a version for a moment was so for long enough.",
	},
	{
		Name: "verification-of-old-content", Of: Delivering, File: "internal/ground/promotion/marks.go",
		Old:    "if result == nil || result.Content != stay.Content {",
		New:    "if result == nil || result.Content != stay.Content && !mutant.On(\"verification-of-old-content\") {",
		Breaks: "S19",
		Why:    "Something else of the environment changed, and what was found before counts.",
	},
	{
		Name: "verdict-of-another-version", Of: Delivering, File: "internal/ground/promotion/marks.go",
		Old: "result := x.results[actKey{e.spec.GetName(), name, stay.Release}]",
		New: "result := x.results[actKey{e.spec.GetName(), name, stay.Release}]\n\tfor key, other := range x.results {\n\t\t" +
			"if mutant.On(\"verdict-of-another-version\") && other.Good && key.environment == e.spec.GetName() && key.constraint == name {\n\t\t\t" +
			"result = &Result{Content: stay.Content, Good: true, At: other.At}\n\t\t}\n\t}",
		Breaks: "S19",
		Why:    "A verification that was good once is good for whatever comes later.",
	},
	{
		Name: "promoted-beside-a-verification", Of: Delivering, File: "internal/ground/promotion/choice.go",
		Old:    "case c.facts.Verifying:",
		New:    "case c.facts.Verifying && !mutant.On(\"promoted-beside-a-verification\"):",
		Breaks: "S1",
		Why:    "The next version comes while the one before it is verified.",
	},
}
