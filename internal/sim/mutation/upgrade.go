package mutation

// upgraded are what may become of pushes that are workflows: a step that comes twice, a run that is
// forgotten or repeated, an answer that is taken for another.
var upgraded = []Mutant{
	{
		Name: "push-calls-again-what-was-sent", Of: Upgrading, File: "plugins/workflow/flowdrive/flowdrive.go",
		Old:    `if once && action.IsSent {`,
		New:    `if once && action.IsSent && !mutant.On("push-calls-again-what-was-sent") {`,
		Breaks: "S28",
		Why:    "The next push sends a call that runs at most once, and that the one before may have sent.",
	},
	{
		Name: "push-does-not-mark-what-it-sends", Of: Upgrading, File: "plugins/workflow/flowdrive/flowdrive.go",
		Old:    `			action.IsSent = true`,
		New:    `			action.IsSent = !mutant.On("push-does-not-mark-what-it-sends")`,
		Breaks: "S28",
		Why:    "A call that runs at most once is sent before anybody is told that it may have been.",
	},
	{
		Name: "push-repeats-what-was-not-answered", Of: Upgrading, File: "plugins/workflow/flowdrive/flowdrive.go",
		Old:    `if once && isSent && !notSent {`,
		New:    `if once && isSent && !notSent && !mutant.On("push-repeats-what-was-not-answered") {`,
		Breaks: "S28",
		Why:    "A call that runs at most once is made again because its answer was lost.",
	},
	{
		Name: "push-takes-any-status-for-done", Of: Upgrading, File: "plugins/workflow/flowdrive/flowdrive.go",
		Old:    `if answer.Status < 200 || answer.Status >= 300 {`,
		New:    `if (answer.Status < 200 || answer.Status >= 300) && !mutant.On("push-takes-any-status-for-done") {`,
		Breaks: "S28 L1",
		Why:    "A device that refused to be drained is loaded and rebooted all the same.",
	},
	{
		Name: "run-for-other-content-goes-on", Of: Upgrading, File: "plugins/workflow/flowrecord/decide.go",
		Old:    `case !record.HasEnded() && record.Content == want.Content && !isAsked:`,
		New:    `case !record.HasEnded() && (record.Content == want.Content || mutant.On("run-for-other-content-goes-on")) && !isAsked:`,
		Breaks: "S28",
		Why:    "A run that was interrupted goes on, and brings what nobody wants any more.",
	},
	{
		Name: "interrupted-run-is-begun-anew", Of: Upgrading, File: "plugins/workflow/flowrecord/decide.go",
		Old:    `		return Verdict{GoOn, fmt.Sprintf("run %d was interrupted", record.Number)}`,
		New:    "		if mutant.On(\"interrupted-run-is-begun-anew\") {\n\t\t\treturn Verdict{Begin, \"it was interrupted\"}\n\t\t}\n\t\treturn Verdict{GoOn, fmt.Sprintf(\"run %d was interrupted\", record.Number)}",
		Breaks: "S28",
		Why:    "What a run was about to do, or had done, is done again by another one.",
	},
	{
		Name: "failed-run-is-repeated", Of: Upgrading, File: "plugins/workflow/flowrecord/decide.go",
		Old:    `case record.State.End.Outcome == workflow.EndSuccess:`,
		New:    `case record.State.End.Outcome == workflow.EndSuccess || mutant.On("failed-run-is-repeated"):`,
		Breaks: "S28 L10",
		Why:    "A run that failed is begun again, for ever, and pages somebody each time.",
	},
}
