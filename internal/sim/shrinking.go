package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// ramp: less and less is wanted, in one of the ways that a guard must see
// through (S23).
func (l *Lab) ramp(d Disturbance, r *rand.Rand) {
	if l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "sources")
	ways := []func(*Lab, Disturbance){(*Lab).littleByLittle, (*Lab).acknowledgeAnother, (*Lab).toNothing, (*Lab).loosenGuard}
	way := ways[r.IntN(len(ways))]
	l.people.Go("ramp", func() { way(l, d) })
}

// until waits for something, at most so long. It reports whether it came.
func (l *Lab) until(most time.Duration, is func() bool) bool {
	for end := l.Now().Add(most); !is(); {
		if l.Now().After(end) || l.healing || l.people.Wait(l.ctx, 100*time.Millisecond, nil) != nil {
			return false
		}
	}
	return true
}

// isServed waits until an intent is served, if it soon is.
func (l *Lab) isServed(i Intent) bool {
	return l.until(15*time.Second, func() bool { return slices.Equal(l.good.parts(), i.parts()) })
}

// littleByLittle leaves out one record after the other, of many: no step is
// much, and all together are.
func (l *Lab) littleByLittle(d Disturbance) {
	more := l.good.clone()
	for n := range 5 {
		id := fmt.Sprintf("record/more%d", n)
		if more.find(id) == nil {
			more.Things = append(more.Things, Thing{ID: id, Kind: "command", Name: id, Text: "more"})
		}
	}
	l.save(d.Number, more, "more records")
	for range 6 {
		if !l.isServed(more) {
			return // It is held, or somebody wrote something else.
		}
		more = l.good.clone()
		more.dropRecords(1)
		l.save(d.Number, more, "one record fewer")
	}
}

// acknowledgeAnother acknowledges what was seen while it becomes something
// else.
func (l *Lab) acknowledgeAnother(d Disturbance) {
	much := l.good.clone()
	much.dropMuch()
	l.whileHeld(d, much, "much less", func(digest intent.Digest) {
		other := much.clone()
		other.drop("balancer", 1)
		l.save(d.Number, other, "even less")
		l.acknowledge(d, digest)
	})
	_ = l.people.Wait(l.ctx, 5*time.Second, nil)
	l.goOn(d)
}

// toNothing leaves out all of what is little, under a guard that lets that
// little go.
func (l *Lab) toNothing(d Disturbance) {
	little := l.good.clone()
	little.Things, little.Loose = nil, true
	for _, id := range []string{"record/last", "record/least"} {
		little.Things = append(little.Things, Thing{ID: id, Kind: "command", Name: id, Text: "last"})
	}
	l.whileHeld(d, little, "two things", func(digest intent.Digest) { l.acknowledge(d, digest) })
	if l.isServed(little) {
		nothing := little.clone()
		nothing.Things = nil
		l.save(d.Number, nothing, "nothing")
		_ = l.people.Wait(l.ctx, 5*time.Second, nil)
	}
	if !l.healing {
		l.save(d.Number, l.first.clone(), "back to the first intent")
	}
}

// loosenGuard leaves out much, in the edit that loosens the guard of it.
func (l *Lab) loosenGuard(d Disturbance) {
	next := l.good.clone()
	next.Loose = true
	next.dropMuch()
	l.save(d.Number, next, "much less, and no guard")
	_ = l.people.Wait(l.ctx, 5*time.Second, nil)
	l.goOn(d)
}

// goOn writes again what is served.
func (l *Lab) goOn(d Disturbance) {
	if !l.healing {
		l.save(d.Number, l.good.clone(), "what was served")
	}
}

// whileHeld writes an intent that a guard is to hold, and does something as
// soon as it is held. It reports whether it was.
func (l *Lab) whileHeld(d Disturbance, next Intent, what string, do func(intent.Digest)) bool {
	before, _ := l.heldCandidate()
	l.save(d.Number, next, what)
	var digest intent.Digest
	held := l.until(15*time.Second, func() (ok bool) {
		digest, ok = l.heldCandidate()
		return ok && digest != before
	})
	if held {
		l.mark("a guard holds what was written")
		do(digest)
	}
	return held
}

// heldCandidate is the newest.
func (l *Lab) heldCandidate() (intent.Digest, bool) {
	var text string
	err := l.db.QueryRow("SELECT digest FROM candidate WHERE partition = ? AND state = 'held' ORDER BY number DESC LIMIT 1", string(l.partition)).Scan(&text)
	if err != nil {
		return intent.Digest{}, false
	}
	digest, err := intent.ParseDigest(text)
	return digest, err == nil
}

// acknowledge lets exactly one candidate through, as a person does.
func (l *Lab) acknowledge(d Disturbance, digest intent.Digest) {
	replica := l.replica()
	if replica == nil || replica.Client == nil {
		return
	}
	_, err := replica.Client.Candidates.AcknowledgeCandidate(l.ctx, &apipb.AcknowledgeCandidateRequest{
		Partition: string(l.partition), Digest: digest.String(), Reason: "I have seen it",
	})
	l.tell("%s: acknowledged %s: %v", d, digest.Short(), err)
}
