package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
	"lehr.dev/internal/store"
)

// why is the kind of an error in a few words, without ids and numbers.
func why(err error) string {
	text := err.Error()
	for _, known := range []struct{ part, word string }{
		{"stopped by", "stop"}, {"with other content", "target moved"}, {"does not have it", "target lost the asset"},
		{"is not open", "closed already"}, {"admitted under epoch", "older epoch"}, {"its end was lost", "in doubt"},
		{"is not current", "stale lease"}, {"connection", "store unreachable"},
	} {
		if strings.Contains(text, known.part) {
			return known.word
		}
	}
	return "other"
}

// admitted marks what became of admissions.
func (l *Lab) admitted(requestTime time.Time, admissions []store.Admission, refusals []*store.Refusal, err error) {
	switch {
	case fault.Is(err, fault.Conflict):
		l.mark("admission: stale lease")
	case err != nil:
		l.mark("admission: store failed")
	}
	for i, refusal := range refusals {
		if err == nil && refusal == nil {
			l.rests(admissions[i], requestTime)
			if admissions[i].Removes {
				l.mark("admitted: a removal")
			}
			if admissions[i].Rule != nil {
				l.mark("admitted: with the approval of a rule")
			}
			if admissions[i].NeedsApproval && admissions[i].Quorum.People > 1 {
				l.mark("admitted: with the approval of several people")
			}
			if len(admissions[i].Overrides) > 0 {
				l.mark("admitted: by an override")
			}
		}
		switch {
		case refusal != nil:
			l.refused(admissions[i].Asset)
			l.mark("admission refused: " + string(refusal.Waiting.Kind))
		case admissions[i].NeedsApproval:
			l.mark("admitted: with an approval")
		default:
			l.mark("admitted")
		}
	}
	if len(admissions) > 1 {
		l.mark("admission: several at once")
	}
}

// published marks what became of a publication.
func (l *Lab) published(incarnation intent.Incarnation, err error) {
	switch {
	case fault.Is(err, fault.Conflict):
		l.mark("publish: lease or base moved")
	case err != nil:
		l.mark("publish: store failed")
	default:
		l.mark("publish")
		l.tell("%s is head", incarnation.ID)
		if _, ok := incarnation.Labels["lehr/acknowledged"]; ok {
			l.mark("publish: acknowledged by a person")
		}
		for _, what := range []string{"approval", "rejection", "override"} {
			var voided int
			if l.db.QueryRow("SELECT count(*) FROM audit WHERE partition = ? AND records LIKE ?", string(l.partition), `%"verb":"void"%"detail":"the `+what+` by %`).Scan(&voided) == nil && voided > l.voided[what] {
				l.mark(what + ": void, for what it was given for has changed")
				l.voided[what] = voided
			}
		}
		l.serves(incarnation.ID)
		if len(l.World.Pushing()) > 0 {
			l.mark("publish: while pushes run")
		}
	}
}

// reported marks the states that assets are told to be in.
func (l *Lab) reported(report intent.Report) {
	l.mark("report: " + string(report.State))
	for _, waiting := range report.Waiting {
		l.mark("waits: " + string(waiting.Kind))
		l.waitsForHealth(waiting)
		if waiting.Kind == intent.WaitCalendar && waiting.Loosened {
			l.mark("waits: calendar that an edit dropped")
		}
	}
	l.outputReported(report)
	if len(report.Observed) > 0 {
		l.mark("common: would have held a push")
	}
	if report.Pinned != "" {
		l.mark("report: pinned")
	}
	l.toldAfter(report.Health)
	if report.Health.State == intent.Unhealthy {
		l.mark("report: unhealthy")
	}
	if len(report.Unmanaged) > 0 {
		l.mark("report: unmanaged fields differ")
	}
	if report.Absent {
		l.mark("report: turned down")
	}
}

// effect counts and marks a change of production.
func (l *Lab) effect(e world.Effect) {
	l.touched[e.Key] = l.Now()
	switch {
	case e.Refused != "":
		what := "a base that has moved"
		if strings.Contains(e.Refused, "token") {
			what = "an older token"
		}
		l.mark("target refused: " + what)
		l.tell("the target of %s refuses push %s: %s", e.Asset, e.Push, e.Refused)
		return
	case e.By != "lehr":
		l.foreign = e.At
		l.mark("production: changed by " + e.By)
		l.tell("%s changes %s: %s → %s", e.By, e.Key, e.Before, e.After)
		return
	}
	l.effects++
	l.mark("effect: " + string(e.Action))
	if e.Destructive {
		l.mark("effect: destructive")
	}
	if e.Step > 1 {
		l.mark("effect: a later step of a push")
	}
	if e.Outlived {
		l.mark("effect: of a plugin that outlived its replica")
	}
	if e.PermitLeft < 0 {
		l.mark("effect: after its permit")
	}
	l.tell("%s, push %s of %s (%d/%d): %s → %s", e.Replica, e.Push, e.Asset, e.Step, e.Steps, e.Before, e.After)
}

// serves asks whether what became head is something that was written, whole,
// and might be served (S6), and not nothing where nobody wrote that (S5).
func (l *Lab) serves(head intent.IncarnationID) {
	// A folder that is read while somebody writes to it may look whole.
	if l.options.Definition != "" || l.tornUntil.After(l.Now()) {
		return
	}
	members, err := l.reading.Members(l.ctx, head, store.AssetFilter{})
	if err != nil {
		return
	}
	ids := map[string][]string{}
	for _, m := range members {
		if l.ofKnobs(m.Asset) || l.isDelivered(m.Asset) || l.isOfCourse(m.Asset) || l.isDevice(m.Asset) || l.removedByRule(head, m.Asset) {
			continue
		}
		switch m.Asset {
		case intent.PolicyAsset:
			continue
		case slipped:
			l.wrong("S6", "%s was served, of an intent that may not be: %s", head, l.intent.Slip)
		}
		t := Thing{ID: string(m.Asset)}
		if m.Type == "lehr.command.v1.Command" {
			t.Kind = "command"
		}
		ids[t.file()] = append(ids[t.file()], t.ID)
	}
	served := words(ids)
	for _, part := range served {
		switch {
		case l.said[part]:
		case strings.HasSuffix(part, nothing):
			l.wrong("S5", "%s has nothing of %s, and nobody ever wrote that it has nothing", head, strings.TrimSuffix(part, nothing))
		default:
			l.wrong("S6", "%s has the assets %s, and nobody ever wrote just these", head, part)
		}
	}
	if slices.Equal(served, l.intent.parts()) {
		l.good = l.intent.clone()
		l.good.Slip = "" // It could be served after all.
	}
}

// met are all marks, with the troubles of plugins that came about.
func (l *Lab) met() map[string]int {
	all := maps.Clone(l.marks)
	for kind, n := range l.World.Struck() {
		all["trouble: "+string(kind)] = n
	}
	return all
}

// collected marks what the collector had to leave.
func (l *Lab) collected(removed int) {
	if removed > 0 {
		l.mark("collector: removed something")
	}
	const left = "(SELECT count(*) FROM %[1]s p JOIN partitions h ON h.id = p.partition WHERE p.%[2]s < h.head - 3%[3]s)"
	of := []string{"pin", "enforced", "push"}
	counts := make([]int, len(of))
	text := "SELECT " + fmt.Sprintf(left, "pin", "seq", "") + ", " + fmt.Sprintf(left, "enforced", "seq", "") + ", " + fmt.Sprintf(left, "push", "target", " AND p.open = 1")
	if l.db.QueryRow(text).Scan(&counts[0], &counts[1], &counts[2]) != nil {
		return
	}
	for i, count := range counts {
		if count > 0 {
			l.mark("collector: left what is named by: " + of[i])
		}
	}
}
