package sim

import (
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// compare holds a disturbed history against the reference: the same production
// at every rest, the same effects but for retries, and none for an intent that
// nobody was given.
func (h *history) compare() {
	if len(h.wrong) > 0 {
		return // It has not come to its end.
	}
	for at, now := range h.rests {
		if now.production != nil {
			h.same(at, h.reference.rests[at].production, now.production)
		}
	}
	for _, e := range h.done {
		h.served(e)
	}
	if h.of.From == 0 {
		h.effectsAs(h.reference)
	}
}

// same compares production at rest.
func (h *history) same(at int, want, got map[intent.ResourceKey]string) {
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		before, wanted := want[key]
		now, ok := got[key]
		switch {
		case wanted && !ok:
			h.fail("after intent %d %s does not exist, and in the reference it does", at, key)
		case ok && !wanted:
			h.fail("after intent %d %s exists, and in the reference it does not", at, key)
		case before != now:
			h.fail("after intent %d %s is %q, and in the reference %q", at, key, now, before)
		}
	}
}

// served: an effect is of an intent that was served, and a removal of one that
// asks for it.
func (h *history) served(e sieved) {
	intents := sieveIntents()
	ok, asked := false, false
	for _, at := range e.serving {
		if h.reference.rests[at].root != e.root {
			continue
		}
		ok = true
		thing := intents[at].find(string(e.Asset))
		asked = asked || thing != nil && thing.Turndown
	}
	if !ok {
		h.fail("effect %d (%s of %s to %s, push %s) is of %s, an intent that is not to be served then: %v are",
			e.Number, e.Action, e.Asset, e.After, e.Push, e.Incarnation, e.serving)
	}
	if e.Delete && !asked {
		h.fail("effect %d deletes %s, and no intent of %v asks for it", e.Number, e.Asset, e.serving)
	}
}

// visit is an asset's time with one content: the effects that brought it about,
// one after the other.
type visit struct {
	content intent.Digest
	// action of the first effect; one that is repeated half-way only updates.
	action intent.Action
	// after is the state that they left.
	after string
	class plugin.Guarantee
	// ends are effects that were the last of their push, deletes those that
	// removed, again those that put what was there.
	ends, deletes, again int
}

// visits of each asset, in order.
func (h *history) visits() map[intent.AssetID][]visit {
	all := map[intent.AssetID][]visit{}
	for _, e := range h.done {
		list := all[e.Asset]
		if len(list) == 0 || list[len(list)-1].content != e.Effective {
			list = append(list, visit{content: e.Effective, action: e.Action})
		}
		v := &list[len(list)-1]
		v.after, v.class = state(e.After), e.Class
		if e.Step == e.Steps {
			v.ends++
		}
		if e.Delete {
			v.deletes++
		}
		if state(e.Before) == v.after {
			v.again++
		}
		all[e.Asset] = list
	}
	return all
}

// state is what a text of the world says of the content: it begins with the
// version, which no two states share.
func state(text string) string {
	_, content, ok := strings.Cut(text, " ")
	if !ok {
		return text
	}
	return content
}

// effectsAs compares the effects with the reference's.
func (h *history) effectsAs(reference *history) {
	want, got := reference.visits(), h.visits()
	assets := maps.Clone(want)
	maps.Copy(assets, got)
	for _, asset := range slices.Sorted(maps.Keys(assets)) {
		if len(want[asset]) != len(got[asset]) {
			h.fail("%s was brought to %d contents (%s), and in the reference to %d (%s)", asset,
				len(got[asset]), contents(got[asset]), len(want[asset]), contents(want[asset]))
			continue
		}
		for at := range want[asset] {
			h.visitAs(asset, at, want[asset][at], got[asset][at])
		}
	}
}

func contents(visits []visit) string {
	var list []string
	for _, v := range visits {
		list = append(list, v.content.Short())
	}
	return strings.Join(list, ", ")
}

// visitAs compares what was done for one content. An effect more is accepted
// only from a target that compares nothing, if it put what was there.
func (h *history) visitAs(asset intent.AssetID, at int, want, got visit) {
	more, again := got.ends-want.ends, got.again-want.again
	switch {
	case want.action != got.action:
		h.fail("the content %d of %s was brought about by %s, in the reference by %s", at+1, asset, got.action, want.action)
	case want.content != got.content || want.after != got.after:
		h.fail("the content %d of %s is %s and left %s; in the reference %s and %s", at+1, asset, got.content.Short(), got.after, want.content.Short(), want.after)
	case got.deletes > want.deletes:
		h.fail("%s was deleted %d times for its content %d, in the reference %d times", asset, got.deletes, at+1, want.deletes)
	case more > 0 && (got.class != plugin.Unguarded || again < more):
		h.fail("%s, of class %s, was brought to its content %d by %d pushes, in the reference by %d; %d put what was there", asset, got.class, at+1, got.ends, want.ends, again)
	case again > 0 && got.class != plugin.Unguarded:
		h.fail("%s, of class %s, was given its content %d again", asset, got.class, at+1)
	default:
		h.retries += max(0, more)
	}
}
