package workflow

import (
	"fmt"
	"strings"
	"time"
)

// Words say what an action does or awaits, as what a machine is at: "asks approver: Deploy 1.2?".
func (a *Action) Words() string {
	switch {
	case a.Edit != nil:
		return fmt.Sprintf("sets %s of %s to %.100q, and waits until that is enforced", a.Edit.Field, a.Edit.Document, a.Edit.Value)
	case a.Task != nil && a.Task.Document != "":
		return fmt.Sprintf("sets %s of %s to %.100q, and waits for %s", a.Task.Field, a.Task.Document, a.Task.Value, a.Task.Asset)
	case a.Task != nil:
		return "waits for " + a.Task.Asset
	case a.Ask != nil:
		return "asks " + a.Ask.Endpoint + a.Ask.URL
	case a.Tell != nil:
		return "tells " + a.Tell.Endpoint + a.Tell.URL + " (" + a.Tell.Method + ")"
	case a.Person != nil && a.Person.Quorum > 1:
		return fmt.Sprintf("asks %d of %s: %s", a.Person.Quorum, strings.Join(a.Person.Roles, ", "), a.Person.Question)
	case a.Person != nil:
		return fmt.Sprintf("asks %s: %s", strings.Join(a.Person.Roles, ", "), a.Person.Question)
	case a.Wait.For > 0:
		return "waits for " + durationWords(a.Wait.For)
	}
	return "waits until " + a.Wait.Until
}

// durationWords leave parts of a duration out that are zero: 1h, not 1h0m0s.
func durationWords(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Kind of an action, as it is written.
func (a *Action) Kind() string { return a.kind() }
