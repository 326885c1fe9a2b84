package explain

import (
	"fmt"

	"lehr.dev/internal/ground/intent"
)

// mostShown bytes of a value are in a line that says what a push changed.
const mostShown = 60

// Admitted completes the event of an admission, of the content and by the plan.
func Admitted(event Event, content, plan intent.Digest) Event {
	event.Kind = EventAdmitted
	event.Text = fmt.Sprintf("%s; content %s, plan %s", Changed(event.Plan), content.Short(), plan.Short())
	return event
}

// Changed says in a line what a push was to change: "replicas 3 → 5, +2 more".
func Changed(plan *intent.PlanRecord) string {
	if plan == nil {
		return "what it changed was not kept"
	}
	if plan.Count() == 0 {
		return string(plan.Action)
	}
	text := ""
	if plan.Action != intent.ActionUpdate {
		text = string(plan.Action) + ": "
	}
	if len(plan.Changes) > 0 {
		first := plan.Changes[0]
		text += fmt.Sprintf("%s %s → %s", value(first.Path), value(first.Current), value(first.Target))
		if more := plan.Count() - 1; more > 0 {
			text += fmt.Sprintf(", +%d more", more)
		}
	} else {
		text += fmt.Sprintf("%d fields", plan.More)
	}
	if destructive := plan.CountDestructive(); destructive > 0 {
		text += fmt.Sprintf(", %d destructive", destructive)
	}
	return text
}

// value is short, and says that there is none.
func value(text string) string {
	if text == "" {
		return "(none)"
	}
	short, _ := intent.Cut(intent.Shown(text), mostShown)
	return short
}
