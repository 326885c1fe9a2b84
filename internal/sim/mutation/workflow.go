package mutation

// workflowed are what may become of runs of workflows: an effect that comes twice, a guard by what
// is not so any more, a word of people that is lost, a clean-up that is left out. Slips of a
// step are off while a definition is explored, where there is an observer: the search would refuse
// the definition, and no run would show them.
var workflowed = []Mutant{
	{
		Name: "run-stepped-from-an-older-state", Of: Releasing, File: "internal/store/relational/workflows.go",
		Old:    `case stored.Version != run.Version:`,
		New:    `case stored.Version != run.Version && !mutant.On("run-stepped-from-an-older-state"):`,
		Breaks: "S9 S28",
		Why:    "Of two who step a run at once, the later one takes back what the earlier one stored: a vote, a cancel, a revision.",
	},
	{
		Name: "run-edits-under-a-stop", Of: Releasing, File: "internal/store/relational/workflows.go",
		Old:    `c := changing{store: s, partition: lease.Partition, name: step.Document, actor: step.By, lease: &lease, revision: step.Revision, unlessStopped: true}`,
		New:    "c := changing{store: s, partition: lease.Partition, name: step.Document, actor: step.By, lease: &lease, revision: step.Revision, unlessStopped: true}\n\tif mutant.On(\"run-edits-under-a-stop\") {\n\t\tc.atAnyRevision, c.unlessStopped = true, false\n\t}",
		Breaks: "S18",
		Why:    "A stop that comes between a look and its edit does not stop the edit.",
	},
	{
		Name: "one-person-is-a-quorum", Of: Releasing, File: "internal/ground/workflow/answer.go",
		Old:    `case slices.Contains(standing.Action.Approvals, event.Person) && event.Approves:`,
		New:    `case slices.Contains(standing.Action.Approvals, event.Person) && event.Approves && !mutant.On("one-person-is-a-quorum"):`,
		Breaks: "S9",
		Why:    "Who approves twice counts as two.",
	},
	{
		Name: "one-approval-too-few", Of: Releasing, File: "internal/ground/workflow/answer.go",
		Old:    `if len(standing.Action.Approvals) >= person.Quorum {`,
		New:    `if len(standing.Action.Approvals) >= person.Quorum || mutant.On("one-approval-too-few") && s.observe == nil {`,
		Breaks: "S9",
		Why:    "The first approval decides.",
	},
	{
		Name: "refusal-approves", Of: Releasing, File: "internal/ground/workflow/answer.go",
		Old:    `case !event.Approves:`,
		New:    `case !event.Approves && !mutant.On("refusal-approves"):`,
		Breaks: "S9",
		Why:    "Who refuses counts among those who approve.",
	},
	{
		Name: "cancel-is-lost", Of: Releasing, File: "internal/ground/workflow/answer.go",
		Old:    `s.result.Run.Cancelled = true`,
		New:    `s.result.Run.Cancelled = !mutant.On("cancel-is-lost") || s.observe != nil`,
		Breaks: "S28",
		Why:    "A cancel is acknowledged, and the run goes on.",
	},
	{
		Name: "signal-is-lost", Of: Releasing, File: "internal/ground/workflow/answer.go",
		Old:    `run.Signals = append(run.Signals, event.Name)`,
		New:    "if mutant.On(\"signal-is-lost\") && s.observe == nil {\n\t\t\treturn \"\"\n\t\t}\n\t\trun.Signals = append(run.Signals, event.Name)",
		Breaks: "S28 L1",
		Why:    "A signal is acknowledged, and the run waits for it for ever.",
	},
	{
		Name: "signal-is-taken-for-granted", Of: Releasing, File: "internal/ground/workflow/end.go",
		Old:    `values["signals."+signal.Name] = slices.Contains(run.Signals, signal.Name)`,
		New:    `values["signals."+signal.Name] = slices.Contains(run.Signals, signal.Name) || mutant.On("signal-is-taken-for-granted")`,
		Breaks: "S28",
		Why:    "A guard that needs a signal holds before it comes.",
	},
	{
		Name: "wait-ends-early", Of: Releasing, File: "internal/ground/workflow/step.go",
		Old:    `if a == nil || a.Due.IsZero() || a.Due.After(s.result.Run.Now) {`,
		New:    `if a == nil || a.Due.IsZero() || a.Due.After(s.result.Run.Now) && (s.observe != nil || !mutant.On("wait-ends-early") || a.Due.After(s.result.Run.Now.Add(50*time.Second))) {`,
		Breaks: "S28",
		Why:    "A timer fires before it is due.",
	},
	{
		Name: "retreat-is-cut-short", Of: Releasing, File: "internal/ground/workflow/step.go",
		Old:    "func (s *stepper) mayEnable(r reference) bool {",
		New:    "func (s *stepper) mayEnable(r reference) bool {\n\tif mutant.On(\"retreat-is-cut-short\") && s.observe == nil && s.result.Run.Cancelled {\n\t\treturn false\n\t}",
		Breaks: "S28",
		Why:    "A cancelled run ends before what it left was taken back.",
	},
	{
		Name: "published-is-enforced", Of: Releasing, File: "internal/annealing/workflows/enforced.go",
		Old:    `if good == len(assets) {`,
		New:    `if good == len(assets) || mutant.On("published-is-enforced") {`,
		Breaks: "S28",
		Why:    "What head says counts as what production has.",
	},
	{
		Name: "in-sync-with-what-was-before", Of: Releasing, File: "internal/annealing/workflows/enforced.go",
		Old:    `case report.Effective != member.Effective:`,
		New:    `case report.Effective != member.Effective && !mutant.On("in-sync-with-what-was-before"):`,
		Breaks: "S28",
		Why:    "An asset that was in sync before the edit counts as in sync after it.",
	},
	{
		Name: "head-before-the-edit-will-do", Of: Releasing, File: "internal/annealing/workflows/enforced.go",
		Old:    `return s.Source == source && err == nil && number >= least`,
		New:    `return s.Source == source && err == nil && (number >= least || mutant.On("head-before-the-edit-will-do"))`,
		Breaks: "S28",
		Why:    "A head that was built before the edit does not differ, so nothing is waited for.",
	},
	{
		Name: "field-of-somebody-else", Of: Releasing, File: "internal/annealing/workflows/action.go",
		Old:    `if !written || found != e.value {`,
		New:    `if (!written || found != e.value) && !mutant.On("field-of-somebody-else") {`,
		Breaks: "S28",
		Why:    "Somebody set the field to something else, and the run goes on as if it had its value.",
	},
	{
		Name: "call-is-made-again", Of: Releasing, File: "internal/annealing/workflows/call.go",
		Old:    `if !progress.Begun.IsZero() && progress.Failure == "" && action.Runs == workflow.AtMostOnce {`,
		New:    `if !progress.Begun.IsZero() && progress.Failure == "" && action.Runs == workflow.AtMostOnce && !mutant.On("call-is-made-again") {`,
		Breaks: "S28",
		Why:    "A process that begins does again what the one before it may have done.",
	},
	{
		Name: "call-without-an-answer-is-made-again", Of: Releasing, File: "internal/annealing/workflows/call.go",
		Old:    `case action.Runs == workflow.AtMostOnce:`,
		New:    `case action.Runs == workflow.AtMostOnce && !mutant.On("call-without-an-answer-is-made-again"):`,
		Breaks: "S28",
		Why:    "A call that runs at most once is repeated after an error.",
	},
	{
		Name: "any-answer-is-good", Of: Releasing, File: "internal/annealing/workflows/call.go",
		Old:    `if status < 200 || status >= 300 {`,
		New:    `if (status < 200 || status >= 300) && !mutant.On("any-answer-is-good") {`,
		Breaks: "S28",
		Why:    "Who answers that there is nothing counts as having said that all is well.",
	},
}
