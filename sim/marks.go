package sim

import (
	"slices"
	"strings"
	"time"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/sim/world"
	"lehr.dev/store"
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
func (l *Lab) admitted(asked time.Time, admissions []store.Admission, refusals []*store.Refusal, err error) {
	switch {
	case fault.Is(err, fault.Conflict):
		l.mark("admission: stale lease")
	case err != nil:
		l.mark("admission: store failed")
	}
	for i, refusal := range refusals {
		if err == nil && refusal == nil {
			l.rests(admissions[i], asked)
		}
		switch {
		case refusal != nil:
			l.mark("admission refused: " + string(refusal.Waiting.Kind))
		case admissions[i].NeedsApproval:
			l.mark("admitted: with an approval")
		case admissions[i].Removes:
			l.mark("admitted: a removal")
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
	}
	if report.Pinned != "" {
		l.mark("report: pinned")
	}
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
	switch {
	case e.Refused != "":
		l.mark("target refused: " + strings.Fields(e.Refused)[0])
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
	if e.PermitLeft < 0 {
		l.mark("effect: after its permit")
	}
	l.tell("%s, push %s of %s (%d/%d): %s → %s", e.Replica, e.Push, e.Asset, e.Step, e.Steps, e.Before, e.After)
}

// serves asks whether what became head is something that was written, whole,
// and might be served (S6).
func (l *Lab) serves(head intent.IncarnationID) {
	if l.options.Definition != "" {
		return
	}
	members, err := l.reading.Members(l.ctx, head, store.AssetFilter{})
	if err != nil {
		return
	}
	ids := map[string][]string{}
	for _, m := range members {
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
		if !l.said[part] {
			l.wrong("S6", "%s has the assets %s, and nobody ever wrote just these", head, part)
		}
	}
	if slices.Equal(served, l.intent.parts()) {
		l.good = l.intent.clone()
	}
}
