package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Kinds of event beside states of reports and verbs of the audit.
const (
	EventCommit    = "commit"
	EventCandidate = "candidate"
	EventPublished = "published"
	EventAdmitted  = "admitted"
)

// Event is one thing that happened to an asset, or with it in mind.
type Event struct {
	At time.Time
	// Until is when it was over; zero: it goes on, or it lasts no time.
	Until       time.Time
	Kind        string
	Text        string
	By          string
	Incarnation intent.IncarnationID
	Push        intent.PushID
	// Plan of the push that was admitted; nil: not kept, or another event.
	Plan *intent.PlanRecord
}

// Reports are events of past reports, of which the last may be the current one. Reports
// that follow each other and say the same are one.
func Reports(reports []intent.Report) (events []Event) {
	var last *intent.Report
	for i := range reports {
		report := reports[i]
		if last != nil && saysAgain(*last, report) {
			last = &reports[i]
			continue
		}
		if len(events) > 0 {
			events[len(events)-1].Until = report.At
		}
		last = &reports[i]
		event := Event{At: report.At, Kind: string(report.State), Incarnation: report.Target, Push: report.Push}
		switch {
		case report.State == intent.StateWaiting:
			event.Text = waits(report.Waiting)
			if len(report.Waiting) > 0 {
				event.By = report.Waiting[0].Owner
			}
		case report.Health.IsByAddon() && report.Health.State == intent.Unhealthy:
			event.Kind, event.Text = KindUnhealthy, "by its Health addon: "+report.Health.Reason
		case report.Health.State == intent.Unhealthy:
			event.Kind, event.Text = KindUnhealthy, "its plugin says: "+report.Health.Reason
		}
		if report.Pinned != "" {
			event.Text = strings.TrimPrefix(event.Text+"; "+report.Pinned, "; ")
		}
		events = append(events, event)
	}
	return events
}

// PushSpan is from when until when a push was under way.
type PushSpan struct {
	Push     intent.PushID
	Target   intent.IncarnationID
	From, To time.Time
	// Done: the plugin said that all was carried out.
	Done bool
}

// EndPushes has events of pushes under way end with their pushes. After one that was carried
// out the asset is in sync, until another report says otherwise; before and after it, where it
// was in sync: reports of what is as it should be are not kept one by one. The events
// are those of Reports.
func EndPushes(events []Event, pushes []PushSpan) []Event {
	slices.SortFunc(pushes, func(a, b PushSpan) int { return a.To.Compare(b.To) })
	for _, push := range pushes {
		next := slices.IndexFunc(events, func(e Event) bool { return e.At.After(push.To) })
		if next < 0 {
			next = len(events)
		}
		if next == 0 {
			continue // What was reported before is not known any more.
		}
		last := &events[next-1]
		end := last.Until
		isOpen := end.IsZero() || end.After(push.To)
		switch {
		case !isOpen:
			continue // It was over before.
		case last.Kind == string(intent.StatePushing) && last.Push == push.Push:
			last.Until = push.To
		case last.Kind == string(intent.StateInSync) && last.At.Before(push.From) && push.Done:
			last.Until = push.From
		default:
			continue // It says itself how the asset was from then on.
		}
		if !push.Done {
			continue
		}
		if next < len(events) && events[next].Kind == string(intent.StateInSync) {
			events[next].At = push.To
			continue
		}
		events = slices.Insert(events, next, Event{At: push.To, Until: end, Kind: string(intent.StateInSync), Incarnation: push.Target})
	}
	return events
}

func saysAgain(a, b intent.Report) bool {
	kinds := func(r intent.Report) (all []string) {
		for _, w := range r.Waiting {
			all = append(all, string(w.Kind)+" "+w.Owner)
		}
		return append(all, string(r.State), string(r.Health.State), r.Effective.Short(), r.Pinned)
	}
	return slices.Equal(kinds(a), kinds(b))
}

func waits(waiting []intent.WaitingOn) string {
	var parts []string
	for _, w := range waiting {
		parts = append(parts, string(w.Kind)+": "+w.Reason)
	}
	return strings.Join(parts, "; ")
}

// Published are events of one incarnation that changed an asset: the commits that its
// sources were read at since the one before, and itself.
func Published(incarnation intent.Incarnation, previous []intent.SourceRevision, origin string) (events []Event) {
	for _, source := range incarnation.Sources {
		if source.Commit == (intent.Commit{}) || slices.ContainsFunc(previous, func(r intent.SourceRevision) bool {
			return r.Source == source.Source && r.Revision == source.Revision
		}) {
			continue
		}
		events = append(events, Event{
			At: source.Commit.Time, Kind: EventCommit, By: source.Commit.Author, Incarnation: incarnation.ID,
			Text: fmt.Sprintf("%.10s in %s: %s", source.Revision, source.Source, source.Commit.Subject),
		})
	}
	text := "it changed the asset"
	if origin != "" {
		text += ", made by " + origin
	}
	return append(events, Event{
		At: incarnation.Created, Kind: EventPublished, By: strings.Join(incarnation.People(), ", "), Incarnation: incarnation.ID, Text: text,
	})
}

// Judged is the event of a candidate.
func Judged(candidate intent.Candidate) Event {
	event := Event{At: candidate.Created, Kind: EventCandidate, Text: fmt.Sprintf("%s, made for %d changes, is %s", candidate.ID, candidate.Added+candidate.Changed+candidate.Removed, candidate.State)}
	if findings := errorsOf(candidate.Findings); len(findings) > 0 {
		event.Text += ": " + findings[0].Message
		if findings[0].Alike > 0 {
			event.Text += fmt.Sprintf(" (%s)", findings[0].OthersText())
		}
	}
	return event
}

// places of the kinds at one moment.
var places = []string{EventCommit, EventCandidate, EventPublished, string(intent.StateWaiting), "approve", EventAdmitted, string(intent.StatePushing), "pushed", string(intent.StateInSync)}

// InOrder sorts events, the newest last.
func InOrder(events []Event) {
	place := func(e Event) int {
		if at := slices.Index(places, e.Kind); at >= 0 {
			return at
		}
		return slices.Index(places, "approve")
	}
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(place(a), place(b)))
	})
}
