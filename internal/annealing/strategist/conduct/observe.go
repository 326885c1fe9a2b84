package conduct

import (
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/sight"
)

// observe takes up what was seen of the assets: only what was seen counts, so that
// nothing that is missing makes a soak shorter (S19), nor anything good or bad (S11).
func (d *decider) observe() {
	for i := range d.Assets {
		a := &d.Assets[i]
		content, pin := a.content()
		a.Seen = observationOf(a, content, pin, d.Name, d.Now, d.Gap)
		d.decision.Seen[a.ID] = a.Seen
	}
}

// observationOf is what is known of an asset with the content that it follows.
func observationOf(a *Asset, content intent.Digest, pin intent.Pin, rollout string, now time.Time, gap time.Duration) intent.Observation {
	o := a.Seen
	if o.Asset == "" || o.Effective != content {
		o = a.follows(rollout, content, time.Time{})
	}
	if content.IsZero() {
		return o
	}
	if o.Selected.After(now) {
		o.Selected = now // The clock was set back.
	}
	start := pin.Created
	if start.After(now) {
		start = o.Selected
	}
	look := a.Look
	// A look into the future is no look, and one that is older than the pin is of
	// what was before it.
	if look.At.IsZero() || look.At.After(now) || !look.At.After(start) {
		return o
	}
	if look.Effective != content {
		// It follows something else, as by a person's pin: when it is back, that is a push
		// like the first.
		return a.follows(rollout, content, o.Selected)
	}
	o.Tells = o.Tells || look.Judged || look.Health == intent.Healthy || look.Health == intent.Unhealthy
	switch {
	case look.IsPending() && o.Arrived.IsZero():
		o = ill(o, look.At, gap) // Patience counts how long it takes to get there.
	case look.Blind() || look.State == intent.StateInSync && !look.Absent && o.Tells && look.Health != intent.Healthy && look.Health != intent.Unhealthy:
		o.Seen = time.Time{} // Nobody knows how it is, neither well nor ill (S11).
	case look.State == intent.StateInSync && look.Health == intent.Unhealthy:
		o = ill(arrived(o, look.At), look.At, gap)
	case look.State == intent.StateInSync:
		if at := look.Ill; !o.Arrived.IsZero() && at.After(o.Arrived) && at.After(o.LastBad) && at.After(start) && !at.After(now) {
			o = ill(o, at, gap) // It was mended before anybody asked.
		}
		o = well(arrived(o, look.At), look, gap)
	case !o.Arrived.IsZero() || failing(look):
		o = ill(o, look.At, gap)
	case look.State == intent.StatePushing && !o.Ill.IsZero():
		o = ill(o, look.At, gap) // It is tried again.
	default:
		o.Ill = time.Time{} // What keeps it from getting there is not of itself.
	}
	return o
}

// failing reports whether pushes of an asset fail of themselves. That its plugin or a
// check is broken says nothing of what it is to become (S11).
func failing(look sight.Look) bool {
	return look.State == intent.StateWaiting &&
		slices.Contains([]intent.WaitingKind{intent.WaitBackoff, intent.WaitNoEffect, intent.WaitQuarantined}, look.Waits)
}

func arrived(o intent.Observation, at time.Time) intent.Observation {
	if o.Arrived.IsZero() {
		o.Arrived = at
	}
	return o
}

// well counts the time since the look that was taken up before, if that was well too, and
// not too long ago, or all looks since were.
func well(o intent.Observation, look sight.Look, gap time.Duration) intent.Observation {
	at := look.At
	one := at.Sub(o.Seen) <= gap || !look.Since.IsZero() && !look.Since.After(o.Seen)
	if passed := at.Sub(o.Seen); !o.Seen.IsZero() && o.Ill.IsZero() && passed > 0 && one {
		o.Healthy += passed
	}
	if at.After(o.Seen) || o.Seen.Sub(at) > gap {
		o.Seen = at
	}
	o.Ill = time.Time{}
	return o
}

// ill since the look before, if that was ill too and not too long ago: what nobody
// saw is no reason to go back (S11).
func ill(o intent.Observation, at time.Time, gap time.Duration) intent.Observation {
	if passed := at.Sub(o.LastBad); passed < 0 || passed > gap {
		o.Ill = time.Time{}
	}
	return o.Sick(at)
}
