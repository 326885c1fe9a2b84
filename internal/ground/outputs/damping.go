package outputs

import (
	"fmt"
	"time"
)

// Damper says when an output that keeps changing may be written again: each change makes a
// new incarnation and pushes all that contains it. The first changes are written at once.
type Damper struct {
	// Last is when it was changed last, and Changes how many changes came within Calm of
	// each other.
	Last    time.Time
	Changes int
}

// Bounds of damping.
const (
	// Calm is how long an output stays as it is until its changes are forgotten.
	Calm = time.Hour
	// free changes in a row are written at once, what follows waits firstPause, then twice
	// as long each time, at most Calm.
	free       = 3
	firstPause = time.Minute
)

// Note takes a change up.
func (d *Damper) Note(at time.Time) {
	if at.Sub(d.Last) > Calm {
		d.Changes = 0
	}
	d.Last, d.Changes = at, d.Changes+1
}

// Until is when the next change may be written; zero: at once.
func (d *Damper) Until(now time.Time) time.Time {
	if d.Changes < free || now.Sub(d.Last) > Calm {
		return time.Time{}
	}
	if d.Last.After(now) {
		return time.Time{} // The clock was wrong then, and how long ago it was is not known.
	}
	pause := firstPause
	for range d.Changes - free {
		if pause *= 2; pause >= Calm {
			pause = Calm
			break
		}
	}
	if end := d.Last.Add(pause); end.After(now) {
		return end
	}
	return time.Time{}
}

// Reason says for people why the next change waits.
func (d *Damper) Reason(id ID) string {
	return fmt.Sprintf("its output %s keeps changing (%d times in a row, the last at %s)", id.Name, d.Changes, d.Last.UTC().Format(time.RFC3339))
}
