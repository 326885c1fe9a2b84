package mutation

// Defence is one of several that hold the same property: what one misses, the
// other stops. A run with the Siblings' mutants on and this defence in place
// must not break the property; with Alone on too, it must.
type Defence struct {
	Name string
	// Alone is the mutant that removes this defence; empty: the simulator
	// removes it, by targets of class N in the place of Class.
	Alone string
	// Siblings are the mutants that remove the others; none: nothing else
	// holds the property within Lehr.
	Siblings []string
	// Class of the targets in these runs: those of another one hold the
	// property by themselves, or do not have this defence; empty: any.
	Class string
	// Breaks is the one property that is judged: a sibling's mutant may well
	// break others.
	Breaks string
}

// Defences in depth.
var Defences = []Defence{
	{Name: "fence of writes", Alone: "fence-not-in-writes", Class: "N", Breaks: "S4"},
	{Name: "fence of reads", Alone: "fence-not-in-reads", Siblings: []string{"permit-ignores-doubt"}, Class: "N", Breaks: "S4"},
	{Name: "doubt at a takeover", Alone: "acquire-forgets-doubt", Siblings: []string{"fence-not-in-reads"}, Class: "N", Breaks: "S4"},
	{Name: "doubt at a permit", Alone: "permit-ignores-doubt", Siblings: []string{"fence-not-in-reads"}, Class: "N", Breaks: "S4"},
	{Name: "end of a push at a permit", Alone: "permit-for-ended", Siblings: []string{"fence-not-in-reads", "permit-ignores-doubt"}, Class: "N", Breaks: "S3"},
	{Name: "permit", Alone: "permit-ignores-stop", Siblings: []string{"admit-ignores-stop"}, Breaks: "S18"},
	{Name: "second look before a push", Alone: "push-without-second-look", Breaks: "S2"},
	{Name: "lock delay", Alone: "settle-at-once", Class: "N", Breaks: "S3"},
	{Name: "revision of an admission", Alone: "admit-ignores-revision", Breaks: "S2"},
	{Name: "stop at the admission", Alone: "admit-ignores-stop", Siblings: []string{"check-ignores-stop"}, Breaks: "S18"},
	{Name: "stop at the decision", Alone: "check-ignores-stop", Siblings: []string{"admit-ignores-stop"}, Breaks: "S18"},
	{Name: "journal exclusion", Alone: "admit-ignores-open", Siblings: []string{"journal-without-indexes", "restart-forgets-open"}, Breaks: "S3"},
	{Name: "indexes of open pushes", Alone: "journal-without-indexes", Siblings: []string{"admit-ignores-open", "restart-forgets-open"}, Breaks: "S3"},
	{Name: "enforcer's own open pushes", Alone: "restart-forgets-open", Siblings: []string{"admit-ignores-open", "journal-without-indexes"}, Breaks: "S3"},
	{Name: "exclusion of a resource", Alone: "admit-ignores-open-key", Siblings: []string{"admit-takes-despite-push", "journal-without-indexes"}, Breaks: "S3"},
	{Name: "plan of an approval", Alone: "approval-of-any-plan", Siblings: []string{"approved-by-any-plan"}, Breaks: "S9"},
	{Name: "end of an approval", Alone: "approval-expired-used", Siblings: []string{"approval-expired-shown", "admit-ignores-time"}, Breaks: "S9"},
	{Name: "people of a quorum", Alone: "quorum-counts-twice", Siblings: []string{"approval-told-twice"}, Breaks: "S9"},
	{Name: "content of an override", Alone: "override-of-any-content", Siblings: []string{"overridden-by-any-content"}, Breaks: "S1"},
	{Name: "budgets in the store", Alone: "budget-not-counted", Siblings: []string{"line-without-limit"}, Breaks: "S8"},
	{Name: "rates in the store", Alone: "rate-not-in-admission", Siblings: []string{"rate-not-judged"}, Breaks: "S8"},
	{Name: "rates at the decision", Alone: "rate-not-judged", Siblings: []string{"rate-not-in-admission"}, Breaks: "S8"},
	{Name: "target of a difference", Alone: "holds-any-target", Siblings: []string{"renew-keeps-difference"}, Breaks: "S2"},
	{Name: "mode at the decision", Alone: "off-pushes", Siblings: []string{"off-looked-at", "off-passes"}, Breaks: "S1"},
	{Name: "mode at a look", Alone: "off-passes", Siblings: []string{"off-pushes"}, Breaks: "S1"},
	{Name: "amounts at the plugin", Alone: "nan-impact-passes", Siblings: []string{"nan-impact-counts"}, Breaks: "S1"},
	{Name: "amounts in the enforcer", Alone: "nan-impact-counts", Siblings: []string{"nan-impact-passes"}, Breaks: "S1"},
	{Name: "nothing taken of a failed generation", Alone: "failed-generation-served", Siblings: []string{"failed-run-gives-nothing"}, Breaks: "S5"},
	{Name: "token of a target", Siblings: []string{"fence-not-in-writes", "fence-not-in-reads", "permit-ignores-doubt", "permit-for-ended"}, Class: "F", Breaks: "S3"},
	{Name: "base of a target", Siblings: []string{"fence-not-in-writes", "fence-not-in-reads", "permit-ignores-doubt", "permit-for-ended", "settle-at-once"}, Class: "C", Breaks: "S3"},
}
