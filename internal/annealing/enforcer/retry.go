package enforcer

import (
	"fmt"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
)

// learn draws the lesson from a push of some content that ended: how long to wait
// before the next, and why. A newer content, another version of the plugin and a
// person's retry end the wait; nothing is ever given up.
func (e *Enforcer) learn(a *asset, content intent.Digest, result plugin.PushResult, reason string, pushed intent.Plan, now time.Time) {
	t := a.trouble
	cut, vain := t.cut, t.vain
	t.cut, t.vain = 0, 0
	if result.Ending == plugin.Failed && result.RetryAfter > 0 && result.KnownToken <= e.lease.Epoch {
		t.failures++
		e.makeWay(a, result.RetryAfter, reason, now) // Whatever the target is by now.
		return
	}
	if _, effective, _, _ := e.view.target(a, now); effective != content && result.KnownToken <= e.lease.Epoch {
		if result.Ending == plugin.Pushed {
			t.resume = resume{}
		}
		return // It says nothing of what is the target by now (L3).
	}
	switch result.Ending {
	case plugin.Failed:
		if result.KnownToken > e.lease.Epoch {
			e.outrank(a, result.KnownToken)
			return
		}
		e.backOff(a, result.Retryable, reason, now)
	case plugin.Stale:
		// Once is the race that it is made for; again and again is not.
		if t.failures++; t.failures > 1 {
			e.pauseFor(a, e.Limits.Retry.After(t.failures), intent.WaitBackoff, "the plan moved while it was pushed: "+reason, now)
		}
	case plugin.Pushed:
		t.resume, t.vain = resume{}, vain+1
		e.noEffect(a, pushed, now)
	case settledEnding:
		// Once is often the plugin's end for another reason: it is tried again at once.
		if t.cut = cut + 1; t.cut > 1 {
			e.cutOff(a, reason, now)
		}
	}
}

// seldom is the first pause after a push of which its plugin says that trying
// again is of no use.
const seldom = 10 * time.Second

// backOff waits after a push that failed: a plugin that says that trying again
// is of no use is asked seldom from the start.
func (e *Enforcer) backOff(a *asset, transient bool, reason string, now time.Time) {
	t := a.trouble
	t.failures++
	pace, word := e.Limits.Retry, "its plugin says"
	if !transient {
		pace.First, word = max(pace.First, min(seldom, pace.Most)), "and its plugin does not expect that trying again helps"
	}
	e.pauseFor(a, pace.After(t.failures), intent.WaitBackoff, fmt.Sprintf(
		"push %d failed, %s: %s. The pause doubles from %s to %s", t.failures, word, reason, pace.First, pace.Most), now)
}

// makeWay lets an asset be, whose target is too busy by what its plugin says: it is
// neither looked at nor pushed before that is over, whatever its intent becomes, and
// soon after. Only a person's retry ends it sooner.
func (e *Enforcer) makeWay(a *asset, retryAfter time.Duration, reason string, now time.Time) {
	pause := min(max(retryAfter, e.Limits.Retry.First), e.Limits.Retry.Most)
	// Up to a tenth is added, so that all that were told so do not come back together.
	spread := loop.Jitter(pause/4, string(a.id), a.trouble.failures) - pause/5
	until := now.Add(pause + spread)
	a.trouble.busy = &intent.WaitingOn{Kind: intent.WaitBackoff, Until: until, Reason: fmt.Sprintf(
		"its target is too busy, and its plugin asks to come back after %s: %s; tried again at %s", retryAfter, reason, until.UTC().Format(time.TimeOnly))}
}

// madeWay reports whether the asset is let be.
func (a *asset) madeWay(now time.Time) bool {
	return a.trouble != nil && a.busy != nil && a.busy.Until.After(now)
}

// noEffect waits after a push of which the plugin says that it was carried out.
// It counts as a failure until a look shows that it took effect; of several
// without any, that is told, and they go on in the slowest pace: of the plugin, or of who
// writes it back sooner than anybody looks, where the provider records that.
func (e *Enforcer) noEffect(a *asset, pushed intent.Plan, now time.Time) {
	t := a.trouble
	t.failures++
	if t.vain < tries {
		e.pauseFor(a, e.Limits.Retry.After(t.failures), intent.WaitBackoff, fmt.Sprintf(
			"push %d: its plugin says that it was carried out, but production still differs", t.failures), now)
		return
	}
	if writers := writersOf(pushed); writers != "" {
		e.pauseFor(a, e.Limits.Retry.Most, intent.WaitFlapping, fmt.Sprintf(
			"%s changed it back at once after each of %d pushes (fields: %s); find that writer, or hold the asset", writers, t.vain, fieldsOf(pushed)), now)
		return
	}
	e.pauseFor(a, e.Limits.Retry.Most, intent.WaitNoEffect, fmt.Sprintf(
		"pushed %d times without effect: its plugin says each time that it was carried out, and then finds the same difference (fields: %s)", t.vain, fieldsOf(pushed)), now)
}

// cutOff waits after pushes that ended with their plugin, again and again.
func (e *Enforcer) cutOff(a *asset, reason string, now time.Time) {
	t := a.trouble
	t.failures++
	if t.cut < tries {
		e.pauseFor(a, e.Limits.Retry.After(t.failures), intent.WaitBackoff, fmt.Sprintf("%d pushes in a row were cut off: %s", t.cut, reason), now)
		return
	}
	e.pauseFor(a, e.Limits.Retry.Most, intent.WaitQuarantined, fmt.Sprintf("%d pushes in a row ended with their plugin: %s; so that others' do not, it is pushed seldom", t.cut, reason), now)
}

// pauseFor makes the retry check wait.
func (e *Enforcer) pauseFor(a *asset, pause time.Duration, kind intent.WaitingKind, reason string, now time.Time) {
	t := a.trouble
	until := now.Add(loop.Jitter(pause, string(a.id), t.failures))
	t.version = a.kind.served.version()
	since := now
	if t.retry != nil && !t.retry.Since.IsZero() && t.retry.Since.Before(now) {
		since = t.retry.Since
	}
	t.retry = &intent.WaitingOn{Kind: kind, Since: since, Until: until, Reason: fmt.Sprintf("%s; tried again at %s", reason, until.UTC().Format(time.TimeOnly))}
}

// outrank lets an asset wait for a person: its target was pushed to under an
// epoch that this store has not reached, so another store has it, or this one
// was put back. The others go on (S15).
func (e *Enforcer) outrank(a *asset, knownEpoch uint64) {
	a.trouble.retry = &intent.WaitingOn{Kind: intent.WaitStop, Owner: "lehr", Reason: fmt.Sprintf(
		"its target knows epoch %d, and this server pushes under %d: does another store push to it, or was this one put back to what it was? If it is to go on: lehr store adopt --beyond %d --reason WHY",
		knownEpoch, e.lease.Epoch, knownEpoch)}
}

// forgive forgets what failed, so that the next look and the next push are as if
// they were the first. That its target is another store's stands.
func (a *asset) forgive() {
	if t := a.trouble; t != nil {
		t.failures, t.cut, t.vain, t.broken, t.version, t.apart, t.busy = 0, 0, 0, 0, "", time.Time{}, nil
		if t.retry != nil && t.retry.Kind != intent.WaitStop {
			t.retry = nil
		}
	}
}

// retry does what a person asks for: it tries an asset now, and its plugin.
func (e *Enforcer) retry(id intent.AssetID) {
	a := e.assets[id]
	if a == nil {
		return
	}
	a.forgive()
	a.calm, a.reported = 0, 0
	if s := a.kind.served; s != nil && s.open() {
		s.until = e.now()
	}
	e.soon(a, loop.Fresh)
}

// reconsider forgets what pushes by another version of the plugin taught.
func (e *Enforcer) reconsider(a *asset) {
	if t, version := a.trouble, a.kind.served.version(); t.version != "" && version != "" && t.version != version {
		a.forgive()
	}
}

// version of a plugin; empty: it is down, or there is none.
func (s *served) version() string {
	if s == nil {
		return ""
	}
	description, err := s.plugin.Describe()
	if err != nil {
		return ""
	}
	return description.Name + " " + description.Version
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
