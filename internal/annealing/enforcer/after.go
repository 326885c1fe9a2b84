package enforcer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

// afterPushes has protections asked after pushes. It reads the view, adds questions, and
// says when an asset is to be looked at again.
type afterPushes struct {
	view      *view
	inquiries *inquiries
	lookAt    func(a *asset, at time.Time)
}

// isPending reports whether what is asked after the last push of an asset is not over, or
// not known yet.
func (p *afterPushes) isPending(a *asset) bool {
	return a.unwell || !a.afterKnown && a.kind.served != nil && p.view.policy.asksAfter()
}

// forget ends what is asked after a push; the next look that finds the asset in
// sync looks it up again. Until then it counts as it did.
func (p *afterPushes) forget(a *asset) {
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
func (p *afterPushes) follow(a *asset, g *observation, now time.Time) {
	if g.difference.Outcome != intent.InSync {
		return
	}
	if g.asksAfter && !a.afterKnown && g.policy == p.view.policy.digest {
		a.afterKnown = true
		watches := slices.DeleteFunc(g.watches, func(w watch) bool { return !a.unwell && !now.Before(w.until) })
		if len(watches) > 0 {
			a.aftermath = &aftermath{watches: watches}
		}
	}
	if !a.afterKnown && p.view.policy.asksAfter() {
		return // Nobody knows yet; the next look asks.
	}
	if a.aftermath == nil {
		a.unwell = false
		return
	}
	a.unwell = true
	for i := range a.aftermath.watches {
		p.ask(a, &a.aftermath.watches[i], now)
	}
	a.aftermath.sides = p.sides(a, now)
	if !slices.ContainsFunc(a.aftermath.sides, func(s side) bool { return !s.finished }) {
		p.forget(a)
		a.unwell, a.afterKnown = false, true
	}
}

// ask has a protection asked in its time, and the asset looked at when it changes.
func (p *afterPushes) ask(a *asset, w *watch, now time.Time) {
	if w.asking == nil {
		if w.asking = p.inquiries.get(w.question, w.at, later(w.startsAt, now)); w.asking != nil {
			w.asking.waiters[a] = true
		}
	}
	for _, at := range []time.Time{w.startsAt, w.until} {
		if at.After(now) {
			p.lookAt(a, at)
		}
	}
	switch no := p.verdict(w, now).Answer == intent.Wait; {
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

// verdict is what a protection says by what was answered.
func (p *afterPushes) verdict(w *watch, now time.Time) intent.Verdict {
	return w.VerdictBy(now, w.question, p.inquiries.answers[w.question])
}

// sides are what the watches of an asset say now.
func (p *afterPushes) sides(a *asset, now time.Time) (sides []side) {
	for i := range a.aftermath.watches {
		w := &a.aftermath.watches[i]
		v := p.verdict(w, now)
		finished := v.Answer == intent.Pass && !now.Before(w.until) || p.isOverridden(a, w, now)
		sides = append(sides, side{check.Side{Answer: v.Answer, Kind: v.Waiting.Kind}, finished})
	}
	return sides
}

// isOverridden reports whether a person overrode the protection for this content, as policy
// allows.
func (p *afterPushes) isOverridden(a *asset, w *watch, now time.Time) bool {
	_, effective, _, _ := p.view.target(a, now)
	return check.Allows(p.view.policy.Policy, w.Name, w.Kind) && slices.ContainsFunc(p.view.overrides[contentOf{a.id, effective}], func(o intent.Override) bool {
		return o.Check == w.Name && o.InForce(now)
	})
}

// isChanged reports whether the watches of an asset say something else than at its last look.
func (p *afterPushes) isChanged(a *asset, now time.Time) bool {
	return !slices.Equal(a.aftermath.sides, p.sides(a, now))
}

// health is the health that an asset is reported with while what is asked after its push
// is not over.
func (p *afterPushes) health(a *asset, h intent.Health, now time.Time) intent.Health {
	if !a.unwell {
		return h
	}
	texts, no := []string{}, false
	if a.aftermath == nil {
		texts = append(texts, "what is asked after a push was not asked yet")
	} else {
		for i := range a.aftermath.watches {
			w := &a.aftermath.watches[i]
			text, blocks := p.words(w, now)
			if h.Check == "" || blocks && !no {
				h.Check = w.Name // The first that says no, or the first.
			}
			texts, no = append(texts, text), no || blocks
		}
	}
	by := "its plugin says"
	if h.IsByAddon() {
		by = "its Health addon says"
	}
	switch h.State {
	case intent.Healthy:
		h.Plugin, texts = h.State, append(texts, by+" that it is healthy")
	case intent.Unhealthy:
		if h.Reason != "" {
			texts = append([]string{h.Reason}, texts...)
		}
		h.Plugin, texts = h.State, append(texts, by+" that it is unhealthy")
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

// words say what a watch waits for, or what it says.
func (p *afterPushes) words(w *watch, now time.Time) (text string, no bool) {
	v := p.verdict(w, now)
	switch at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }; {
	case now.Before(w.startsAt):
		return fmt.Sprintf("protection %s is asked from %s until %s", w.Name, at(w.startsAt), at(w.until)), false
	case v.Answer == intent.Wait:
		return fmt.Sprintf("protection %s says no since %s: %s", w.Name, at(w.since), cmp.Or(p.inquiries.answers[w.question].Reply.Reason, "it gives no reason")), true
	case v.Answer == intent.Broken:
		return v.Waiting.Reason, false
	case !now.Before(w.until):
		return fmt.Sprintf("protection %s passes", w.Name), false
	default:
		return fmt.Sprintf("protection %s passes, and must until %s", w.Name, at(w.until)), false
	}
}

// describe says why an asset that is in sync does not count as such for others.
func (p *afterPushes) describe(b *asset, now time.Time) string {
	if !b.unwell {
		return "what is asked after its push is being looked up"
	}
	return p.health(b, intent.Health{}, now).Reason
}
