package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"lehr.dev/test/crash/disk"
)

// Notes among the events.
const (
	noteBegins    = "commit begins"
	noteCommitted = "committed"
	notePromise   = "promise "
	noteOpened    = "opened"
)

// recording is one run of an operation, uninterrupted: what it did to the
// files, what it was answered when, and all that was committed.
type recording struct {
	operation operation
	start     disk.Image
	events    []disk.Event
	// states are the contents after the opening and after each commit.
	states []contents
	// trusting is a deliberate defect: the log of the process before is not
	// made durable.
	trusting bool
}

// record runs an operation under watch. prepare may have faults injected.
func record(t testing.TB, o operation, start disk.Image, prepare func(*disk.Disk)) *recording {
	t.Helper()
	folder := scratch(t)
	if err := start.Write(folder); err != nil {
		t.Fatal(err)
	}
	d, err := disk.Watch(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Release()
	if prepare != nil {
		prepare(d)
	}
	r := &recording{operation: o, start: start}
	point, opened := r.observe(t, d)
	if err := o.whole(t.Context(), folder, point, opened); err != nil {
		t.Fatalf("%q, uninterrupted: %v", o.name, err)
	}
	r.events = d.Events()
	return r
}

// observe notes commits and promises among the disk's events, and keeps what
// was committed.
func (r *recording) observe(t testing.TB, d *disk.Disk) (func(string), func(*world)) {
	d.Follow("lehr.db.witness")
	var w *world
	keep := func() {
		state, err := dump(context.Background(), w.beside)
		if err != nil {
			t.Errorf("reading what was committed: %v", err)
		}
		r.states = append(r.states, state)
	}
	point, opened := observer(func(text string) {
		if text == noteCommitted {
			keep()
		}
		d.Note("%s", text)
	})
	return func(name string) {
			if name == "store: the log is durable" && !r.trusting {
				d.Rewritten("lehr.db-wal")
			}
			point(name)
		}, func(served *world) {
			w = served
			keep()
			opened(served)
		}
}

// observer says each beginning and end of a commit, and each promise. What
// opening itself commits is no row that anybody was promised.
func observer(say func(string)) (func(string), func(*world)) {
	open := false
	point := func(name string) {
		switch {
		case !open:
		case name == "store: before a commit":
			say(noteBegins)
		case name == "store: after a commit":
			say(noteCommitted)
		}
	}
	return point, func(w *world) {
		open = true
		w.told = func(p promise) {
			text, err := json.Marshal(p)
			if err != nil {
				panic(err)
			}
			say(notePromise + string(text))
		}
	}
}

// expectation is what must be so after a crash.
type expectation struct {
	// states that may be found.
	states   []contents
	promises []promise
}

// expect reads the notes among the events up to a crash.
func (r *recording) expect(events []disk.Event) (expectation, error) {
	var notes []string
	for _, event := range events {
		if event.Kind == disk.Note {
			notes = append(notes, event.Text)
		}
	}
	return r.noted(notes)
}

func (r *recording) noted(notes []string) (e expectation, err error) {
	committed, begun := 0, false
	for _, note := range notes {
		switch note {
		case noteBegins:
			begun = true
		case noteCommitted:
			committed, begun = committed+1, false
		default:
			var p promise
			text, ok := strings.CutPrefix(note, notePromise)
			if err := json.Unmarshal([]byte(text), &p); !ok || err != nil {
				return e, fmt.Errorf("note %q: %v", note, err)
			}
			e.promises = append(e.promises, p)
		}
	}
	end := committed + 1
	if begun {
		end++
	}
	if end > len(r.states) {
		return e, fmt.Errorf("%d commits, only %d were recorded", end-1, len(r.states)-1)
	}
	e.states = r.states[committed:end]
	return e, nil
}
