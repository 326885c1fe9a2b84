package conduct

import (
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// Before is a rollout that this one comes after: it brings what that went through with.
type Before struct {
	Name string
	// Through is the newest incarnation that it went through with; zero: none that is known.
	Through intent.IncarnationID
	// Run is its newest; nil: there was none.
	Run *intent.Rollout
}

// source is the incarnation that is brought next: head, or the newest that all rollouts
// that it comes after went through with; zero: there is none yet. So releases follow each
// other through rollouts, as the channels of Prodvana's Maestro.
func (d *decider) source() intent.IncarnationID {
	next := d.Head
	for _, b := range d.Before {
		if b.Through.Sequence < next.Sequence {
			next = b.Through
		}
	}
	return next
}

// brings is what an asset is to be next; zero: nothing that is known.
func (d *decider) brings(a *Asset) intent.Digest {
	if d.next == d.Head {
		return a.Head
	}
	return d.Content(d.next, a.ID)
}

// older reports whether an asset was brought something newer already than what is brought
// next, as where a rollout that it comes after went back since: it stays as it is.
func (d *decider) older(a *Asset) bool {
	latest := a.Pin.Incarnation.Sequence
	if d.run != nil && d.Field == nil {
		latest = max(latest, d.run.To.Sequence)
	}
	return d.next.Sequence < latest
}

// awaits says which rollouts have not gone through with what head has for its assets, and
// what they wait for; empty: it waits for none.
func (d *decider) awaits() (reason string, blockers []intent.AssetID) {
	if d.next == d.Head || !slices.ContainsFunc(d.Assets, func(a Asset) bool {
		content, _ := a.content()
		return a.Selected && content != a.Head
	}) {
		return "", nil
	}
	return d.notReached(d.Head, func(b Before) bool { return b.Through == d.Head })
}

// notReached says which rollouts have not reached an incarnation, and what they wait for; empty:
// all have.
func (d *decider) notReached(at intent.IncarnationID, reached func(Before) bool) (reason string, blockers []intent.AssetID) {
	var names []string
	for _, b := range d.Before {
		if reached(b) {
			continue
		}
		names = append(names, "the rollout "+b.Name)
		if b.Run != nil {
			blockers = append(blockers, b.Run.Progress.For...)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	return fmt.Sprintf("for %s to go through with %s", strings.Join(names, " and "), at), blockers
}

// early says for which rollouts a run waits that began before it was said that it comes
// after them; empty: for none.
func (d *decider) early() (reason string, blockers []intent.AssetID) {
	for _, b := range d.Before {
		if b.Through.Sequence >= d.run.To.Sequence {
			d.reached(b.Name)
		}
	}
	if d.run.Promoted {
		return "", nil
	}
	return d.notReached(d.run.To, func(b Before) bool { return slices.Contains(d.run.Accepted, reachedBy(b.Name)) })
}

// reached remembers with the run that a rollout which it comes after went through with
// what it brings: that is so also while the other is at something newer.
func (d *decider) reached(rollout string) {
	if mark := reachedBy(rollout); !slices.Contains(d.run.Accepted, mark) {
		d.run.Accepted = append(d.run.Accepted, mark)
	}
}

// reachedBy, and inSpiteOf, are what a run remembers of a rollout. They are no names of
// stages.
func reachedBy(rollout string) string { return "after " + rollout }

// wentBack is a rollout that went back from what the run brings, after it had gone through
// with it, and of which nobody said that this run goes on all the same; nil: none.
func (d *decider) wentBack() *Before {
	for i := range d.Before {
		b := &d.Before[i]
		bad := b.Run != nil && b.Run.Bad != "" && b.Run.To.Sequence > d.run.From.Sequence && b.Run.To.Sequence <= d.run.To.Sequence
		if bad && !slices.Contains(d.run.Accepted, inSpiteOf(b.Name)) {
			return b
		}
	}
	return nil
}

// inSpiteOf: a person let it go on in spite of a rollout that went back.
func inSpiteOf(rollout string) string { return "in spite of " + rollout }

// completedIncarnation is the newest incarnation that the rollout went through with: what others come
// after it for. Where it has nothing to bring, and what it brought is not in doubt, it went
// through with what it would bring next.
func (d *decider) completedIncarnation() intent.IncarnationID {
	isDone := d.run != nil && d.run.State == intent.RolloutDone
	switch {
	case d.Spec == nil || d.Field != nil || d.Done == nil:
		return intent.IncarnationID{}
	case d.run != nil && d.run.State.Open():
	case len(d.outdatedAssets()) == 0 && (isDone || !slices.ContainsFunc(d.Assets, func(a Asset) bool { return a.unproven() })):
		if d.run != nil && d.next.Sequence < d.run.To.Sequence {
			return d.run.To
		}
		return d.next
	case isDone:
		return d.run.To
	}
	return d.Done()
}
