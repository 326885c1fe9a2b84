package mutation

// hours are when pushes may begin (S1).
var hours = []Mutant{
	{
		Name: "calendar-closed-passes", Of: Hours, File: "internal/annealing/check/calendar.go",
		Old:    `case answer.Open:`,
		New:    `case answer.Open || mutant.On("calendar-closed-passes"):`,
		Breaks: "S1",
		Why:    "A calendar that is closed lets everything pass.",
	},
	{
		Name: "calendar-without-zone", Of: Hours, File: "internal/ground/calendar/calendar.go",
		Old:    `c := &Calendar{zone: zone,`,
		New:    "if mutant.On(\"calendar-without-zone\") {\n\t\tzone = time.UTC\n\t}\n\tc := &Calendar{zone: zone,",
		Breaks: "S1",
		Why:    "The hours are taken for those of UTC.",
	},
	{
		Name: "calendar-keeps-its-answer", Of: Hours, File: "internal/ground/calendar/calendar.go",
		Old:    `|| !now.Before(c.last.Until) {`,
		New:    `|| !now.Before(c.last.Until) && !mutant.On("calendar-keeps-its-answer") {`,
		Breaks: "S1 L1",
		Why:    "What was answered once is answered for ever.",
	},
	{
		Name: "calendar-of-yesterday", Of: Hours, File: "internal/ground/calendar/calendar.go",
		Old:    `range []time.Duration{-24 * time.Hour, 24 * time.Hour} {`,
		New:    `range []time.Duration{-24 * time.Hour, 24 * time.Hour}[:map[bool]int{true: 1, false: 2}[mutant.On("calendar-of-yesterday")]] {`,
		Breaks: "S1 L1",
		Why:    "On the day on which clocks are put forward or back, the hours are those of the day before.",
	},
	{
		Name: "calendar-dropped-at-once", Of: Hours, File: "internal/annealing/enforcer/checks.go",
		Old:    `collected.policies = append(collected.policies, policy)`,
		New:    "if collected.former && mutant.On(\"calendar-dropped-at-once\") {\n\t\treturn nil\n\t}\n\tcollected.policies = append(collected.policies, policy)",
		Breaks: "S23",
		Why:    "A commit that edits a check and changes an asset disarms the check for its own change.",
	},
}

// trains are rollouts that come after each other (S19).
var trains = []Mutant{
	{
		Name: "after-is-forgotten", Of: Trains, File: "internal/annealing/strategist/view.go",
		Old:    `for _, name := range c.Spec().GetAfter() {`,
		New:    "for _, name := range c.Spec().GetAfter() {\n\t\tif mutant.On(\"after-is-forgotten\") {\n\t\t\tbreak\n\t\t}",
		Breaks: "S19",
		Why:    "What comes after another rollout goes on beside it.",
	},
	{
		Name: "after-any-run", Of: Trains, File: "internal/annealing/strategist/view.go",
		Old:    `return r.State == intent.RolloutDone })`,
		New:    `return r.State == intent.RolloutDone || mutant.On("after-any-run") })`,
		Breaks: "S19",
		Why:    "A run that was ended, or went back, counts as one that went through.",
	},
	{
		Name: "after-the-unproven", Of: Trains, File: "internal/annealing/strategist/conduct/after.go",
		Old:    `isDone := d.run != nil && d.run.State == intent.RolloutDone`,
		New:    `isDone := d.run != nil && (d.run.State == intent.RolloutDone || mutant.On("after-the-unproven"))`,
		Breaks: "S19",
		Why:    "What was brought counts as gone through with before it was well for its soak.",
	},
}

// secrets show nowhere (S13).
var secrets = []Mutant{
	{
		Name: "secrets-are-shown", Of: Telling, File: "internal/ground/schema/redact.go",
		Old:    `return options.GetDebugRedact()`,
		New:    `return options.GetDebugRedact() && !mutant.On("secrets-are-shown")`,
		Breaks: "S13",
		Why:    "Whoever looks at an asset sees its secrets.",
	},
}
