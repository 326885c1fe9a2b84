package enforcer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
)

// retries says how long to wait after failures. It holds no state of assets.
type retries struct {
	// pace is the pause after failures in a row (Limits.Retry).
	pace loop.Backoff
	// epoch is that of the lease under which the enforcer pushes.
	epoch uint64
}

// learn draws the lesson from a push of some content that ended: how long to wait
// before the next, and why. target is the content that is asked for by now. A newer content, another version of the plugin and a
// person's retry end the wait; nothing is ever given up.
func (r *retries) learn(a *asset, content, target intent.Digest, result plugin.PushResult, reason string, pushed intent.Plan, now time.Time) {
	t := a.trouble
	cut, vain := t.cut, t.vain
	t.cut, t.vain = 0, 0
	if result.Ending == plugin.Failed && result.RetryAfter > 0 && result.KnownToken <= r.epoch {
		t.failures++
		r.makeWay(a, result.RetryAfter, reason, now) // Whatever the target is by now.
		return
	}
	if target != content && result.KnownToken <= r.epoch {
		return // It says nothing of what is the target by now (L3).
	}
	switch result.Ending {
	case plugin.Failed:
		if result.KnownToken > r.epoch {
			r.outrank(a, result.KnownToken)
			return
		}
		r.backOff(a, result.Retryable, reason, now)
	case plugin.Stale:
		// Once is the race that it is made for; again and again is not.
		if t.failures++; t.failures > 1 {
			r.pauseFor(a, r.pace.After(t.failures), intent.WaitBackoff, "the plan moved while it was pushed: "+reason, now)
		}
	case plugin.Pushed:
		t.vain = vain + 1
		r.noEffect(a, pushed, now)
	case settledEnding:
		// Once is often the plugin's end for another reason: it is tried again at once.
		if t.cut = cut + 1; t.cut > 1 {
			r.cutOff(a, reason, now)
		}
	}
}

// seldom is the first pause after a push of which its plugin says that trying
// again is of no use.
const seldom = 10 * time.Second

// backOff waits after a push that failed: a plugin that says that trying again
// is of no use is asked seldom from the start.
func (r *retries) backOff(a *asset, transient bool, reason string, now time.Time) {
	t := a.trouble
	t.failures++
	pace, word := r.pace, "its plugin says"
	if !transient {
		pace.First, word = max(pace.First, min(seldom, pace.Most)), "and its plugin does not expect that trying again helps"
	}
	r.pauseFor(a, pace.After(t.failures), intent.WaitBackoff, fmt.Sprintf(
		"push %d failed, %s: %s. The pause doubles from %s to %s", t.failures, word, reason, pace.First, pace.Most), now)
}

// makeWay lets an asset be, whose target is too busy by what its plugin says: it is
// neither looked at nor pushed before that is over, whatever its intent becomes, and
// soon after. Only a person's retry ends it sooner.
func (r *retries) makeWay(a *asset, retryAfter time.Duration, reason string, now time.Time) {
	pause := min(max(retryAfter, r.pace.First), r.pace.Most)
	// Up to a tenth is added, so that all that were told so do not come back together.
	spread := loop.Jitter(pause/4, string(a.id), a.trouble.failures) - pause/5
	end := now.Add(pause + spread)
	a.trouble.busy = &intent.WaitingOn{Kind: intent.WaitBackoff, Until: end, Reason: fmt.Sprintf(
		"its target is too busy, and its plugin asks to come back after %s: %s; tried again at %s", retryAfter, reason, end.UTC().Format(time.TimeOnly))}
}

// isLetBe reports whether the asset is let be.
func (a *asset) isLetBe(now time.Time) bool {
	return a.trouble != nil && a.busy != nil && a.busy.Until.After(now)
}

// noEffect waits after a push of which the plugin says that it was carried out.
// It counts as a failure until a look shows that it took effect; of several
// without any, that is told, and they go on in the slowest pace: of the plugin, or of who
// writes it back sooner than anybody looks, where the provider records that.
func (r *retries) noEffect(a *asset, pushed intent.Plan, now time.Time) {
	t := a.trouble
	t.failures++
	if t.vain < tries {
		r.pauseFor(a, r.pace.After(t.failures), intent.WaitBackoff, fmt.Sprintf(
			"push %d: its plugin says that it was carried out, but production still differs", t.failures), now)
		return
	}
	if writers := writersOf(pushed); writers != "" {
		r.pauseFor(a, r.pace.Most, intent.WaitFlapping, fmt.Sprintf(
			"%s changed it back at once after each of %d pushes (fields: %s); find that writer, or hold the asset", writers, t.vain, fieldsOf(pushed)), now)
		return
	}
	r.pauseFor(a, r.pace.Most, intent.WaitNoEffect, fmt.Sprintf(
		"pushed %d times without effect: its plugin says each time that it was carried out, and then finds the same difference (fields: %s)", t.vain, fieldsOf(pushed)), now)
}

// cutOff waits after pushes that ended with their plugin, again and again.
func (r *retries) cutOff(a *asset, reason string, now time.Time) {
	t := a.trouble
	t.failures++
	if t.cut < tries {
		r.pauseFor(a, r.pace.After(t.failures), intent.WaitBackoff, fmt.Sprintf("%d pushes in a row were cut off: %s", t.cut, reason), now)
		return
	}
	r.pauseFor(a, r.pace.Most, intent.WaitQuarantined, fmt.Sprintf("%d pushes in a row ended with their plugin: %s; so that others' do not, it is pushed seldom", t.cut, reason), now)
}

// pauseFor makes the retry check wait.
func (r *retries) pauseFor(a *asset, pause time.Duration, kind intent.WaitingKind, reason string, now time.Time) {
	t := a.trouble
	end := now.Add(loop.Jitter(pause, string(a.id), t.failures))
	t.version = a.kind.served.version()
	start := now
	if t.retry != nil && !t.retry.Since.IsZero() && t.retry.Since.Before(now) {
		start = t.retry.Since
	}
	t.retry = &intent.WaitingOn{Kind: kind, Since: start, Until: end, Reason: fmt.Sprintf("%s; tried again at %s", reason, end.UTC().Format(time.TimeOnly))}
}

// outrank lets an asset wait for a person: its target was pushed to under an
// epoch that this store has not reached, so another store has it, or this one
// was put back. The others go on (S15).
func (r *retries) outrank(a *asset, knownEpoch uint64) {
	a.trouble.retry = &intent.WaitingOn{Kind: intent.WaitStop, Owner: "lehr", Reason: fmt.Sprintf(
		"its target knows epoch %d, and this server pushes under %d: does another store push to it, or was this one put back to what it was? If it is to go on: lehr store adopt --beyond %d --reason WHY",
		knownEpoch, r.epoch, knownEpoch)}
}

// writersOf names those who changed the fields; empty: the provider records nobody.
func writersOf(plan intent.Plan) string {
	var writers []string
	for _, change := range plan.Changes {
		if change.Writer != "" && !slices.Contains(writers, change.Writer) {
			writers = append(writers, change.Writer)
		}
	}
	const most = 3
	return strings.Join(writers[:min(most, len(writers))], ", ")
}

// fieldsOf lists the fields of a plan, the first few of them.
func fieldsOf(plan intent.Plan) string {
	const most = 5
	var paths []string
	for _, change := range plan.Changes {
		paths = append(paths, change.Path)
	}
	if len(paths) > most {
		paths = append(paths[:most:most], fmt.Sprintf("and %d more", len(paths)-most))
	}
	return strings.Join(paths, ", ")
}

// tries is how often in a row an asset may break its plugin, or Lehr, before it
// is kept apart.
const tries = 3
