package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/intent"
)

// order puts what people must act on first. The enforcer's own order is kept
// among equals.
func order(reasons []Reason) {
	slices.SortStableFunc(reasons, func(a, b Reason) int { return cmp.Compare(weight(a), weight(b)) })
}

func weight(r Reason) int {
	switch r.Kind {
	case string(intent.WaitStop):
		return 0
	case KindSilent:
		return 1
	case KindHeld, KindRejected:
		return 3
	case KindInSync, KindGone, KindNoAsset, KindNoHead:
		// The cause may be that the newest sources are not served.
		return 4
	case KindPin:
		return 5
	default:
		return 2
	}
}

// root is the first leaf below the most decisive reason. A blocker's pin or
// good health is no cause.
func root(r Reason) Reason {
	order(r.Causes)
	if len(r.Causes) == 0 || r.Causes[0].Kind == KindInSync {
		return r
	}
	return root(r.Causes[0])
}

// summary is the root cause in one line.
func (f Facts) summary(a Answer) string {
	cause := a.Root
	text := cause.Text
	if len(cause.Findings) > 0 {
		text += ": " + where(cause.Findings[0]) + cause.Findings[0].Message
	}
	if cause.Asset != "" && cause.Asset != f.Asset {
		return fmt.Sprintf("%s waits for %s: %s", f.Asset, cause.Asset, text)
	}
	if cause.Asset == "" {
		return text
	}
	switch cause.Kind {
	case KindInSync, KindPushing, KindOff, KindModel, KindGone, KindNoAsset, KindNoHead, KindNoReport, KindOutdated, KindPin, KindUnhealthy:
		return fmt.Sprintf("%s: %s", f.Asset, text)
	default:
		return fmt.Sprintf("%s waits (%s): %s", f.Asset, cause.Kind, text)
	}
}

// hintFor says what a person can do about one entry of a report, where its
// reason does not say so itself.
func hintFor(report intent.Report, waiting intent.WaitingOn) string {
	switch waiting.Kind {
	case intent.WaitHold:
		return "lehr unhold " + string(report.Asset) + " lets it be pushed"
	case intent.WaitApproval:
		if report.PlanDigest.IsZero() {
			return "lehr describe report " + string(report.Asset) + " shows the plan"
		}
		return fmt.Sprintf("lehr describe report %s shows the plan; lehr approve %s --plan %s allows it once", report.Asset, report.Asset, report.PlanDigest.Short())
	case intent.WaitPlugin:
		return "the server's log holds what the plugin wrote"
	case intent.WaitBackoff:
		return "lehr get pushes --asset " + string(report.Asset) + " shows how the pushes ended"
	case intent.WaitClaim:
		return "one of the two must go, or name another resource"
	case intent.WaitStore:
		return "free space for the store's file"
	default:
		return ""
	}
}

func errorsOf(findings []intent.Finding) []intent.Finding {
	var errors []intent.Finding
	for _, f := range findings {
		if f.Severity == intent.Error {
			errors = append(errors, f)
		}
	}
	return errors
}

func note(report intent.Report) string {
	if report.PushNote != "" {
		return report.PushNote
	}
	return string(report.Push)
}

func name(owner string) string {
	return cmp.Or(owner, "somebody")
}

// ago renders how long before now a moment was.
func (f Facts) ago(at time.Time) string {
	if at.IsZero() {
		return "at an unknown time"
	}
	switch d := f.Now.Sub(at); {
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm ago", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd ago", int(d.Hours()/24))
	}
}

// where is the place a finding names, as "file:line: field: ".
func where(f intent.Finding) string {
	place := f.File
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", place, f.Line)
	}
	if place != "" {
		place += ": "
	}
	if f.Field != "" && !strings.HasPrefix(f.Message, f.Field) {
		place += f.Field + ": "
	}
	return place
}
