package enforcer

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// aftermath is what protections are asked after the last push of an asset, which is in
// sync with what that pushed. It begins with the push's end in the journal; that it is
// not over, the asset's report says, so neither a restart nor a failover skips it.
type aftermath struct {
	watches []watch
	// sides are what was found at the last look.
	sides []side
}

// watch is one protection, asked from a time on until another one.
type watch struct {
	*check.Configured
	question        check.Question
	at              intent.IncarnationID
	startsAt, until time.Time
	// asking is it in those that are asked; nil: it is not yet.
	asking *question
	// since is when it began to say no; zero: it does not.
	since time.Time
}

// side of a watch: another look is worth it when that changes.
type side struct {
	check.Side
	finished bool
}

// asksAfter reports whether a push is to be followed by a question.
func asksAfter(facts check.Facts) bool {
	return slices.ContainsFunc(facts.Checks, func(c check.Required) bool { return c.Protection != nil && c.Protection.After != nil })
}

// asksAfter reports whether any of a policy's checks asks after a push.
func (p *policy) asksAfter() bool {
	return p != nil && slices.ContainsFunc(p.checks, func(c policyCheck) bool { return c.GetProtection().GetAfter() != nil })
}

// isAfter: whether something is to be asked after its last push is not known, or it was
// asked and is not over.
func (e *Enforcer) isAfter(a *asset) bool {
	return a.unwell || !a.afterKnown && a.kind.served != nil && e.view.policy.asksAfter()
}

// aftermath reads what head's policy asks after the newest push of an asset that is in
// sync with what was pushed: that payload, whatever else of the asset, or of what it
// reads, is another one since. A push that failed or was cut off may have had its effect.
func (r *reader) aftermath(ctx context.Context, g *observation, content intent.Asset) ([]watch, error) {
	policy, err := r.policy(ctx, g.head)
	if err != nil || !policy.asksAfter() {
		return nil, err
	}
	types, err := r.rules(ctx, g.head)
	if err != nil {
		return nil, err
	}
	push, err := r.followed(ctx, g, content)
	if err != nil || push == nil {
		return nil, err
	}
	var watches []watch
	for _, c := range policy.checks {
		if c.GetProtection().GetAfter() == nil {
			continue
		}
		applies := c.Where == ""
		if !applies {
			if applies, err = r.isAbout(ctx, g.head, c.Check, content); err != nil {
				return nil, err
			}
		}
		if !applies {
			continue
		}
		ready := r.configured(c, types)
		w := watch{Configured: ready, at: push.Target}
		if !push.Ended.IsZero() {
			w.startsAt = push.Ended.Add(ready.Protection.After.Delay)
			w.until = w.startsAt.Add(ready.Protection.After.Duration)
		}
		w.question, err = ready.Ask(check.PhaseAfter, check.Subject{
			Partition: g.head.Partition, Asset: content, Effective: push.Effective, Digest: push.Plan, Push: push.Push,
		})
		if err != nil {
			return nil, err
		}
		watches = append(watches, w)
	}
	return watches, nil
}

// followed is the newest push of an asset, when that ended and pushed the payload that the
// asset has; nil: there is none to ask after. Where the journal does not keep it any more,
// or the incarnation that it pushed, but what is asked after it was not over, it is taken
// for one of the present content whose time is over: a pass is still to come.
func (r *reader) followed(ctx context.Context, g *observation, content intent.Asset) (*store.PushRecord, error) {
	var forgotten *store.PushRecord
	if g.unwell {
		forgotten = &store.PushRecord{OpenPush: store.OpenPush{Target: g.target, Effective: g.effective}}
	}
	pushes, err := r.store.Pushes(ctx, g.head.Partition, g.asset.id, 1)
	switch {
	case err != nil:
		return nil, err
	case len(pushes) == 0:
		return forgotten, nil
	case pushes[0].Ended.IsZero():
		return nil, nil
	case pushes[0].Effective == g.effective:
		return &pushes[0], nil
	}
	pushed, err := r.asset(ctx, pushes[0].Target, g.asset.id)
	switch {
	case fault.Is(err, fault.NotFound):
		return forgotten, nil
	case err != nil:
		return nil, err
	case pushed.Payload.Type != content.Payload.Type || !bytes.Equal(pushed.Payload.Bytes, content.Payload.Bytes):
		return nil, nil
	}
	return &pushes[0], nil
}

// forgetAfter ends what is asked after a push; the next look that finds the asset in
// sync looks it up again. Until then it counts as it did.
func (e *Enforcer) forgetAfter(a *asset) {
	if a.aftermath != nil {
		for _, w := range a.aftermath.watches {
			if w.asking != nil {
				delete(w.asking.waiters, a)
			}
		}
	}
	a.aftermath, a.afterKnown = nil, false
}

// follow takes up what a look found of what is asked after a push, and how it stands.
func (e *Enforcer) follow(a *asset, g *observation, now time.Time) {
	if g.difference.Outcome != intent.InSync {
		return
	}
	if g.asksAfter && !a.afterKnown && g.policy == e.view.policy.digest {
		a.afterKnown = true
		watches := slices.DeleteFunc(g.watches, func(w watch) bool { return !a.unwell && !now.Before(w.until) })
		if len(watches) > 0 {
			a.aftermath = &aftermath{watches: watches}
		}
	}
	if !a.afterKnown && e.view.policy.asksAfter() {
		return // Nobody knows yet; the next look asks.
	}
	if a.aftermath == nil {
		a.unwell = false
		return
	}
	a.unwell = true
	for i := range a.aftermath.watches {
		e.askAfter(a, &a.aftermath.watches[i], now)
	}
	a.aftermath.sides = a.aftermath.now(e, a, now)
	if !slices.ContainsFunc(a.aftermath.sides, func(s side) bool { return !s.finished }) {
		e.forgetAfter(a)
		a.unwell, a.afterKnown = false, true
	}
}

// askAfter has a protection asked in its time, and the asset looked at when it changes.
func (e *Enforcer) askAfter(a *asset, w *watch, now time.Time) {
	if w.asking == nil {
		if w.asking = e.question(w.question, w.at, later(w.startsAt, now)); w.asking != nil {
			w.asking.waiters[a] = true
		}
	}
	for _, at := range []time.Time{w.startsAt, w.until} {
		if at.After(now) {
			e.queue.Add(a, at, loop.Retry)
		}
	}
	switch no := w.verdict(e, now).Answer == intent.Wait; {
	case !no:
		w.since = time.Time{}
	case w.since.IsZero():
		w.since = now
	}
}

// later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *watch) verdict(e *Enforcer, now time.Time) intent.Verdict {
	return w.VerdictBy(now, w.question, e.inquiries.answers[w.question])
}

// now are the sides as things are.
func (m *aftermath) now(e *Enforcer, a *asset, now time.Time) (sides []side) {
	for i := range m.watches {
		w := &m.watches[i]
		v := w.verdict(e, now)
		finished := v.Answer == intent.Pass && !now.Before(w.until) || e.letPass(a, w, now)
		sides = append(sides, side{check.Side{Answer: v.Answer, Kind: v.Waiting.Kind}, finished})
	}
	return sides
}

// letPass: a person overrode the protection for this content, as policy allows.
func (e *Enforcer) letPass(a *asset, w *watch, now time.Time) bool {
	_, effective, _, _ := e.view.target(a, now)
	return check.Allows(e.view.policy.Policy, w.Name, w.Kind) && slices.ContainsFunc(e.view.overrides[contentOf{a.id, effective}], func(o intent.Override) bool {
		return o.Check == w.Name && o.InForce(now)
	})
}

// hasQuestion reports whether a question is one of those that are asked after the push.
func (m *aftermath) hasQuestion(q *question) bool {
	return m != nil && slices.ContainsFunc(m.watches, func(w watch) bool { return w.asking == q })
}

// turned reports whether an answer is worth a look.
func (m *aftermath) turned(e *Enforcer, a *asset, now time.Time) bool {
	return !slices.Equal(m.sides, m.now(e, a, now))
}

// reportedHealth is the health that an asset is reported with while what is asked after its push
// is not over.
func (e *Enforcer) reportedHealth(a *asset, h intent.Health, now time.Time) intent.Health {
	if !a.unwell {
		return h
	}
	texts, no := []string{}, false
	if a.aftermath == nil {
		texts = append(texts, "what is asked after a push was not asked yet")
	} else {
		for i := range a.aftermath.watches {
			w := &a.aftermath.watches[i]
			text, blocks := w.words(e, now)
			if h.Check == "" || blocks && !no {
				h.Check = w.Name // The first that says no, or the first.
			}
			texts, no = append(texts, text), no || blocks
		}
	}
	switch h.State {
	case intent.Healthy:
		h.Plugin, texts = h.State, append(texts, "its plugin says that it is healthy")
	case intent.Unhealthy:
		if h.Reason != "" {
			texts = append([]string{h.Reason}, texts...)
		}
		h.Plugin, texts = h.State, append(texts, "its plugin says that it is unhealthy")
	}
	h.Source, h.Reason = intent.SourceAfterPush, "after its push: "+strings.Join(texts, "; ")
	switch {
	case no:
		h.State = intent.Unhealthy
	case h.State != intent.Unhealthy:
		h.State = intent.HealthUnknown
	}
	return h
}

// words say how a watch stands.
func (w *watch) words(e *Enforcer, now time.Time) (text string, no bool) {
	v := w.verdict(e, now)
	switch at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }; {
	case now.Before(w.startsAt):
		return fmt.Sprintf("protection %s is asked from %s until %s", w.Name, at(w.startsAt), at(w.until)), false
	case v.Answer == intent.Wait:
		return fmt.Sprintf("protection %s says no since %s: %s", w.Name, at(w.since), cmp.Or(e.inquiries.answers[w.question].Reply.Reason, "it gives no reason")), true
	case v.Answer == intent.Broken:
		return v.Waiting.Reason, false
	case !now.Before(w.until):
		return fmt.Sprintf("protection %s passes", w.Name), false
	default:
		return fmt.Sprintf("protection %s passes, and must until %s", w.Name, at(w.until)), false
	}
}

// notWell says why an asset that is in sync does not count as such for others.
func (e *Enforcer) notWell(b *asset, now time.Time) string {
	if !b.unwell {
		return "what is asked after its push is being looked up"
	}
	return e.reportedHealth(b, intent.Health{}, now).Reason
}
