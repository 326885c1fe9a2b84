package conduct

import (
	"time"

	"lehr.dev/intent"
)

// observe takes up what was seen of the assets: only what was seen counts, so that
// nothing that is missing makes a soak shorter (S19), nor anything good or bad (S11).
func (d *decider) observe() {
	for i := range d.Assets {
		a := &d.Assets[i]
		content, pin := a.content()
		a.Seen = seen(a, content, pin, d.Name, d.Now, d.Gap)
		d.decision.Seen[a.ID] = a.Seen
	}
}

// seen is what is known of an asset with the content that it follows.
func seen(a *Asset, content intent.Digest, pin intent.Pin, rollout string, now time.Time, gap time.Duration) intent.Observation {
	o := a.Seen
	if o.Asset == "" || o.Effective != content {
		o = intent.Observation{Rollout: rollout, Asset: a.ID, Effective: content}
	}
	if content.IsZero() {
		return o
	}
	if o.Selected.After(now) {
		o.Selected = now // The clock was set back.
	}
	since := pin.Created
	if since.After(now) {
		since = o.Selected
	}
	look := a.Look
	// A look into the future is no look, and one that is older than the pin is of
	// what was before it.
	if look.At.IsZero() || look.At.After(now) || !look.At.After(since) || look.Effective != content {
		return o
	}
	switch {
	case look.State != intent.StateInSync:
		if !o.Arrived.IsZero() {
			o = o.Sick(look.At)
		}
	case look.Health == intent.Unhealthy:
		o = arrived(o, look.At).Sick(look.At)
	default:
		o = well(arrived(o, look.At), look.At, gap)
	}
	return o
}

func arrived(o intent.Observation, at time.Time) intent.Observation {
	if o.Arrived.IsZero() {
		o.Arrived = at
	}
	return o
}

// well counts the time since the look before, if that was well too and not too
// long ago.
func well(o intent.Observation, at time.Time, gap time.Duration) intent.Observation {
	if passed := at.Sub(o.Seen); !o.Seen.IsZero() && o.Ill.IsZero() && passed > 0 && passed <= gap {
		o.Healthy += passed
	}
	if at.After(o.Seen) || o.Seen.Sub(at) > gap {
		o.Seen = at
	}
	o.Ill = time.Time{}
	return o
}
