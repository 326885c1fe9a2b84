package enforcer

import (
	"maps"
	"slices"

	"lehr.dev/internal/ground/intent"
)

// incarnationUse counts where the content that assets were enforced with last is to be
// looked for. It only holds state.
type incarnationUse struct {
	// lagging counts, by the incarnation at which they were enforced last, the assets whose
	// target is other content, and the orphans.
	lagging map[intent.Sequence]int
	// cached is the last list; nil: it is made anew.
	cached []intent.Sequence
}

// list lists, sorted, all incarnations that any asset may follow now, or
// was enforced at last where its target is other content: what one asset
// declares to another is looked for in all of them, so that neither a pin nor
// a commit hides it (S23). The slice is never altered.
func (u *incarnationUse) list(v *view) []intent.Sequence {
	if u.cached != nil {
		return u.cached
	}
	all := maps.Clone(u.lagging)
	if !v.head.IsZero() {
		all[v.head.Sequence]++
	}
	for at := range v.pinned {
		all[at.sequence]++
	}
	u.cached = slices.Sorted(maps.Keys(all))
	return u.cached
}

// setLag counts an asset, or no more, among those whose target is not what they were
// enforced with.
func (u *incarnationUse) setLag(a *asset, lags bool) {
	if a.lags == lags {
		return
	}
	a.lags = lags
	if lags {
		u.count(a.enforced, 1)
	} else {
		u.count(a.enforced, -1)
	}
}

// count adds to those whose last enforced content must be looked for at an
// incarnation.
func (u *incarnationUse) count(at intent.Sequence, delta int) {
	prev := u.lagging[at]
	u.lagging[at] = prev + delta
	if u.lagging[at] == 0 {
		delete(u.lagging, at)
	}
	if prev == 0 || prev+delta == 0 {
		u.cached = nil
	}
}
