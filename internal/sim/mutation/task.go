package mutation

// tasked are what may become of tasks of delivery: what runs once before, after or on failure of an environment.
var tasked = []Mutant{
	{
		Name: "task-forgets-what-ran", Of: Tasked, File: "internal/ground/promotion/task.go",
		Old:    "return stint != nil && (stint.last.Found || !stint.last.GoodSince.IsZero()) && !d.isRestarted(task, r)",
		New:    "return stint != nil && (stint.last.Found || !stint.last.GoodSince.IsZero()) && !d.isRestarted(task, r) && !(mutant.On(\"task-forgets-what-ran\") && !stint.last.End.IsZero())",
		Breaks: "S19",
		Why:    "A task that ran for another version since runs for an older one again.",
	},
	{
		Name: "task-need-not-end-well", Of: Tasked, File: "internal/ground/promotion/task.go",
		Old:    "case d.hasRun(task, r):\n\t\t\tv.Status, v.Cause = Passes, Met\n\t\tcase d.hasFailed",
		New:    "case d.hasRun(task, r), mutant.On(\"task-need-not-end-well\") && stint != nil:\n\t\t\tv.Status, v.Cause = Passes, Met\n\t\tcase d.hasFailed",
		Breaks: "S19",
		Why:    "It is enough that a task was begun for the version that comes.",
	},
	{
		Name: "failed-task-lets-in", Of: Tasked, File: "internal/ground/promotion/task.go",
		Old:    "v.Status, v.Cause = Refuses, TaskFailed",
		New:    "v.Status, v.Cause = Refuses, TaskFailed\n\t\t\tif mutant.On(\"failed-task-lets-in\") {\n\t\t\t\tv.Status = Passes\n\t\t\t}",
		Breaks: "S19",
		Why:    "A task that failed is as good as one that ended well.",
	},
	{
		Name: "task-runs-before-its-constraint", Of: Tasked, File: "internal/ground/promotion/demand.go",
		Old:    "c.judged = number\n",
		New:    "c.judged = number\n\tif mutant.On(\"task-runs-before-its-constraint\") {\n\t\tc.judged = 0\n\t}\n",
		Breaks: "S19",
		Why:    "A task runs for versions that the constraints above it do not let in.",
	},
	{
		Name: "task-of-a-paused-environment", Of: Tasked, File: "internal/ground/promotion/demand.go",
		Old:    "if c.hold() != NoHold {",
		New:    "if c.hold() != NoHold && !mutant.On(\"task-of-a-paused-environment\") {",
		Breaks: "S18",
		Why:    "A person paused the environment, and what comes before it runs all the same.",
	},
	{
		Name: "after-is-before", Of: Tasked, File: "internal/ground/promotion/demand.go",
		Old:    "if len(stays) == 0 || stays[len(stays)-1].GoodSince.IsZero() {",
		New:    "if mutant.On(\"after-is-before\") && len(stays) > 0 {\n\t\t\tadd(Demand{VersionName: stays[len(stays)-1].VersionName, Cause: IsGood})\n\t\t}\n\t\tif len(stays) == 0 || stays[len(stays)-1].GoodSince.IsZero() {",
		Breaks: "S19",
		Why:    "A task that follows an environment runs before that is good.",
	},
	{
		Name: "failure-of-what-was-not-there", Of: Tasked, File: "internal/ground/promotion/demand.go",
		Old:    "if wasThere {",
		New:    "if wasThere || mutant.On(\"failure-of-what-was-not-there\") {",
		Breaks: "S19",
		Why:    "A version that left an environment long ago is marked, and what runs on its failure runs.",
	},
	{
		Name: "task-ignores-its-constraints", Of: Tasked, File: "internal/ground/promotion/task.go",
		Old:    "if isOut || !c.letIn(demand.VersionName, place, false) {",
		New:    "if isOut || !c.letIn(demand.VersionName, place, false) && !mutant.On(\"task-ignores-its-constraints\") {",
		Breaks: "S19",
		Why:    "A task does not wait for the task that comes before it.",
	},
	{
		Name: "failed-task-runs-on", Of: Tasked, File: "internal/ground/promotion/task.go",
		Old:    "isOut := c.isBad(demand.VersionName) && !c.isRestarted(c.at, demand.VersionName)",
		New:    "isOut := c.isBad(demand.VersionName) && !c.isRestarted(c.at, demand.VersionName) && !mutant.On(\"failed-task-runs-on\")",
		Breaks: "S19",
		Why:    "A task that failed runs again, and nobody asked.",
	},
	{
		Name: "run-has-the-number-of-another", Of: Tasked, File: "internal/ground/promotion/demand.go",
		Old:    "\t\t\t\tdemand.Number++\n",
		New:    "\t\t\t\tif !mutant.On(\"run-has-the-number-of-another\") {\n\t\t\t\t\tdemand.Number++\n\t\t\t\t}\n",
		Breaks: "S25",
		Why:    "A run is told that it is the one before it, so nothing begins.",
	},
	{
		Name: "run-of-another-content", Of: Tasked, File: "internal/annealing/delivery/parameters.go",
		Old:    "Version: run.Name, Digest",
		New:    "Version: map[bool]string{true: run.Had.Name, false: run.Name}[mutant.On(\"run-of-another-content\")], Digest",
		Breaks: "S25",
		Why:    "A run is told the version that was there before.",
	},
	{
		Name: "asked-run-is-not-waited-for", Of: Tasked, File: "internal/ground/promotion/task.go",
		Old:    "return ok && (stint == nil || !stint.last.Start.After(asked))",
		New:    "if mutant.On(\"asked-run-is-not-waited-for\") {\n\t\treturn false\n\t}\n\treturn ok && (stint == nil || !stint.last.Start.After(asked))",
		Breaks: "S19",
		Why:    "A person asked for another run, and what waits for the task does not wait for that.",
	},
}
