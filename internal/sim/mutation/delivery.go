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
}
