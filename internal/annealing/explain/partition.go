package explain

import (
	"fmt"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// partitionReasons are what keeps the whole partition from acting.
func (f Facts) partitionReasons() []Reason {
	var reasons []Reason
	if f.Stop != nil {
		reasons = append(reasons, f.stopReason())
	}
	if f.Problem != "" {
		reasons = append(reasons, Reason{
			Kind: KindSilent, Text: "not all of partition " + string(f.Partition) + " works: " + f.Problem,
			Hint: f.problemHint(),
		})
	}
	return reasons
}

// intentReasons are why the newest sources are not what is enforced.
func (f Facts) intentReasons() []Reason {
	var reasons []Reason
	if f.Blocked != nil {
		reasons = append(reasons, f.blockedReason())
	}
	if f.Turn != "" {
		reasons = append(reasons, Reason{
			Kind: KindUnbuilt, Text: "newer sources " + f.Turn,
			Hint: "the server's cores are shared: other partitions are built first",
		})
	}
	for _, r := range f.Covered {
		if r.Failing != (intent.Failing{}) {
			reasons = append(reasons, Reason{
				Kind: KindOldSource, Since: r.Failing.Since, Text: r.Failing.Text(r.Source),
				Hint: "it is tried again and again; what was read last is still served", Shared: sharedKey(KindOldSource, sayings(r.Failing.Reason, string(f.Partition), r.Source)...),
			})
		}
	}
	return reasons
}

// problemHint is that of the finding that the problem tells of, if there is one.
func (f Facts) problemHint() string {
	if f.Blocked != nil {
		for _, finding := range f.Blocked.Findings {
			if finding.Hint != "" && strings.Contains(f.Problem, finding.Message) {
				return finding.Hint
			}
		}
	}
	return "it is tried again by itself; the server's log tells more"
}

func (f Facts) stopReason() Reason { return f.reasonOf(*f.Stop) }

// reasonOf says who stopped what, and why.
func (f Facts) reasonOf(stop intent.Stop) Reason {
	scope := "partition " + string(stop.Partition) + " is"
	if stop.Partition == "" {
		scope = "all partitions are"
	}
	age := ""
	if !stop.Since.IsZero() {
		age = " " + f.ago(stop.Since)
	}
	hint := stop.Ending() + " lets pushes go on"
	if stop.Adopt {
		hint = "look, and set again what is missing; then " + hint
	}
	return Reason{
		Kind: string(intent.WaitStop), Owner: stop.Owner.Name, Since: stop.Since, Hint: hint, Partition: stop.Partition,
		Shared: sharedKey(string(intent.WaitStop), string(stop.Partition)),
		Text:   fmt.Sprintf("%s stopped by %s%s: %s", scope, name(stop.Owner.Name), age, stop.Reason),
	}
}

// blockedReason says why the newest sources are not served.
func (f Facts) blockedReason() Reason {
	isHeld := f.Blocked.State == intent.CandidateHeld
	reason := Reason{Kind: KindRejected, Since: f.Blocked.Created, Findings: errorsOf(f.Blocked.Findings)}
	quarantined := isHeld && len(reason.Findings) > 0 && reason.Findings[0].Rule == intent.RuleQuarantine
	outcome := "rejected"
	if isHeld {
		reason.Kind, outcome = KindHeld, "held by a guard"
	}
	if quarantined {
		outcome = "quarantined"
	}
	goesOn := "nothing is served yet"
	if !f.Head.IsZero() {
		goesOn = f.Head.String() + " goes on being served"
	}
	reason.Text = fmt.Sprintf("the newest sources are not served: candidate %s was %s %s; %s",
		f.Blocked.ID, outcome, f.ago(f.Blocked.Created), goesOn)
	switch {
	case isHeld && !quarantined:
		reason.Hint = fmt.Sprintf("if that is what you want: lehr approve --candidate %s --reason WHY; else mend the sources", f.Blocked.ID.Digest.Short())
	case len(reason.Findings) > 0 && reason.Findings[0].Hint != "":
		reason.Hint = reason.Findings[0].Hint
	default:
		reason.Hint = "mend the sources; lehr describe candidate " + f.Blocked.ID.Digest.Short() + " shows all findings"
	}
	return reason
}
