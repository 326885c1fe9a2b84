package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/monitor"
)

// In every fourth run that delivers, a constraint of staging asks an adviser about each version. It
// passes one, says no for now, fails, hangs, or passes for a time that is over; the next time it
// says something else.

// advisedConstraint is inserted below what staging depends on.
const advisedConstraint = "          %s: {plugin: adviser, every: 10s, timeout: 15s, expires: %s}\n"

// DeliversAdvised reports whether a constraint asks in runs of a seed.
func DeliversAdvised(seed uint64) bool { return Delivers(seed) && seed/27%4 == 3 }

// asksAdviser reports whether one asks in this run.
func (l *Lab) asksAdviser() bool { return l.delivers() && DeliversAdvised(l.options.Seed) }

// addAdviser has staging ask.
func addAdviser(text string) string {
	const tested = "          tested: {depends_on: [test], stable: 1m}\n"
	return strings.Replace(text, tested, tested+fmt.Sprintf(advisedConstraint, monitor.AdviceConstraint, monitor.AdviceCounts), 1)
}

// Answers of the adviser, and how often of twenty it gives each.
var advice = map[string]int{"passes": 8, "passes briefly": 3, "says no": 4, "does not answer": 2, "hangs": 2, "passes until a time that is over": 1}

// adviceOf is an answer by lot.
func adviceOf(lot int) string {
	for _, answer := range []string{"passes", "passes briefly", "says no", "does not answer", "hangs"} {
		if lot -= advice[answer]; lot < 0 {
			return answer
		}
	}
	return "passes until a time that is over"
}

// advise answers what a constraint asks about a version.
func (r *Replica) advise(ctx context.Context, a delivery.Asking) (reply delivery.Reply, err error) {
	l := r.lab
	random := l.stream("adviser")
	answer, length := adviceOf(random.IntN(20)), time.Duration(random.Int64N(int64(6*time.Second)))
	if l.healing {
		answer = "passes"
	}
	if answer == "hangs" {
		length = -1
	}
	l.mark("delivery: who a constraint asks " + answer)
	if err := r.Wait(ctx, length, nil); err != nil {
		return reply, err
	}
	switch answer {
	case "does not answer":
		return reply, fault.New(fault.Unavailable, "the connection was refused")
	case "says no":
		reply.Reason = "not now"
	case "passes briefly":
		reply.Pass, reply.Until = true, l.Now().Add(20*time.Second)
	case "passes until a time that is over":
		reply.Pass, reply.Until = true, l.Now().Add(-time.Minute)
	default:
		reply.Pass = true
	}
	release := monitor.Release{Name: a.Version.Name, Digest: a.Version.Digest}
	l.Monitor.AdviceGiven(a.Environment, release, reply.Pass)
	l.tell("the adviser says of %s for %s: %s", release.Name, a.Environment, answer)
	return reply, nil
}

// actOnAdvice passes over what the adviser says of a version, or has it asked anew.
func (p person) actOnAdvice() error {
	kind := []string{intent.ActForce, intent.ActRestart}[p.r.IntN(2)]
	return p.actOnDelivery(kind, "staging", p.someRelease(3), monitor.AdviceConstraint)
}
