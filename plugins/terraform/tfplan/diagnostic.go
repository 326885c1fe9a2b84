package tfplan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Event is a line of what "plan -json" and "apply -json" print.
type Event struct {
	Type       string      `json:"type"`
	Message    string      `json:"@message"`
	Diagnostic *Diagnostic `json:"diagnostic"`
}

// Diagnostic is an error or a warning of Terraform's.
type Diagnostic struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	Address  string `json:"address"`
	Range    *struct {
		Filename string `json:"filename"`
		Start    struct {
			Line int `json:"line"`
		} `json:"start"`
	} `json:"range"`
}

// Events reads lines; what is none is left out.
func Events(text []byte) (events []Event) {
	for line := range bytes.Lines(text) {
		var event Event
		if json.Unmarshal(line, &event) == nil && event.Type != "" {
			events = append(events, event)
		}
	}
	return events
}

// IsProgress reports whether an event tells how far an apply is.
func (e Event) IsProgress() bool {
	switch e.Type {
	case "apply_start", "apply_progress", "apply_complete", "apply_errored", "provision_start", "provision_complete", "provision_errored":
		return true
	}
	return false
}

// Errors are the diagnostics of errors among events.
func Errors(events []Event) (errors []Diagnostic) {
	for _, event := range events {
		if event.Diagnostic != nil && event.Diagnostic.Severity == "error" {
			errors = append(errors, *event.Diagnostic)
		}
	}
	return errors
}

// String is a diagnostic with file and line.
func (d Diagnostic) String() string {
	text := d.Summary
	if detail := strings.Join(strings.Fields(d.Detail), " "); detail != "" {
		text += ": " + detail
	}
	if d.Address != "" {
		text += " (" + d.Address + ")"
	}
	if d.Range != nil && d.Range.Filename != "" {
		text = fmt.Sprintf("%s:%d: %s", d.Range.Filename, d.Range.Start.Line, text)
	}
	return text
}

// mostErrors are told of many.
const mostErrors = 5

// Words tells diagnostics, the first of many.
func Words(errors []Diagnostic) string {
	var texts []string
	for _, d := range errors[:min(len(errors), mostErrors)] {
		texts = append(texts, clip(d.String(), mostText))
	}
	if more := len(errors) - mostErrors; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// Terraform gives no code of an error: these are its summaries, which are the same since 0.12
// and in OpenTofu.
const (
	staleSummary = "Saved plan is stale"
	lockSummary  = "Error acquiring the state lock"
)

// IsStale reports whether a saved plan was refused because the state has moved.
func IsStale(errors []Diagnostic) bool {
	for _, d := range errors {
		if d.Summary == staleSummary {
			return true
		}
	}
	return false
}

// Lock is who holds the lock of a state.
type Lock struct{ ID, Who, Operation, Created string }

// lockID is how the backend http names the holder's lock: the lines below it are of the run
// that was refused.
var lockID = regexp.MustCompile(`already locked: ID=(\S+)`)

var lockLine = regexp.MustCompile(`(?m)^\s*(ID|Who|Operation|Created):[ \t]*(.*?)\s*$`)

// LockOf finds who holds the lock; ok: the error is that somebody does.
func LockOf(errors []Diagnostic) (lock Lock, ok bool) {
	for _, d := range errors {
		if d.Summary != lockSummary {
			continue
		}
		for _, match := range lockLine.FindAllStringSubmatch(d.Detail, -1) {
			switch match[1] {
			case "ID":
				lock.ID = match[2]
			case "Who":
				lock.Who = match[2]
			case "Operation":
				lock.Operation = match[2]
			case "Created":
				lock.Created = match[2]
			}
		}
		if match := lockID.FindStringSubmatch(d.Detail); match != nil && match[1] != lock.ID {
			lock = Lock{ID: match[1]}
		}
		return lock, lock.ID != ""
	}
	return lock, false
}

// String names the holder, and what a person does who knows that it is gone.
func (l Lock) String() string {
	return fmt.Sprintf("the state is locked by %s since %s for %s (lock %s); nothing breaks it by itself. If that run is gone for certain, unlock it in the module's folder: terraform force-unlock %s",
		orUnknown(l.Who), orUnknown(l.Created), orUnknown(l.Operation), l.ID, l.ID)
}

func orUnknown(text string) string {
	if text == "" {
		return "(not told)"
	}
	return text
}
