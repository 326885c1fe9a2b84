// Package sight is where an enforcer notes what it saw last of the assets that
// somebody watches, as a rollout does: a report is written when it says something
// new, and tells nothing of when it was found to be so still.
package sight

import (
	"maps"
	"slices"
	"sync"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Look is what was seen of an asset last.
type Look struct {
	At        time.Time
	Effective intent.Digest
	State     intent.State
	Health    intent.HealthState
	// Judged: the asset has a Health addon, so where its health is not known, it was told once.
	Judged bool
	// Absent: it is turned down, and nothing is there that could tell how it is.
	Absent bool
	// Waits is for what it waits first; empty: for nothing.
	Waits intent.WaitingKind
	// Ill is when it was seen last, with this content, not to be well: also between two
	// questions to the board, which fills it in. Zero: it was not.
	Ill time.Time
	// Since is from when on each look found it as well as this one does, none of them later
	// after the one before than the board's Gap. The board fills it in.
	Since time.Time
}

// IsPending reports whether a change was under way that no push hastens.
func (l Look) IsPending() bool {
	return l.State == intent.StateWaiting && l.Waits == intent.WaitPending
}

// Blind reports whether a look tells nothing of an asset: that its plugin or a check
// is broken, that nobody enforces it, or that a change is pending, is nothing that it has
// become.
func (l Look) Blind() bool {
	switch l.State {
	case intent.StateInSync, intent.StatePushing:
		return false
	case intent.StateWaiting:
		return slices.Contains([]intent.WaitingKind{
			intent.WaitPlugin, intent.WaitPluginMissing, intent.WaitUnknown, intent.WaitPending, intent.WaitTarget, intent.WaitStore,
		}, l.Waits)
	}
	return true
}

// well reports whether it is there, and as far as is known not ill.
func (l Look) well() bool { return l.State == intent.StateInSync && l.Health != intent.Unhealthy }

// tells reports whether a look tells something that the one before did not, but that it is
// so still: that counts as something only of what is not well, which patience is for.
func (l Look) tells(before Look) bool {
	before.At, before.Ill, before.Since = l.At, l.Ill, l.Since
	return !l.well() || l != before
}

// Board holds the last look at each asset that is watched. The zero value watches
// nothing; a nil one may be asked, and watches nothing for ever. It is safe for
// concurrent use.
type Board struct {
	// Gap is the longest time between two looks that are still one.
	Gap time.Duration

	lock  sync.Mutex
	looks map[intent.AssetID]Look
	news  uint64
}

// Watch says whom to watch from now on, instead of those before.
func (b *Board) Watch(assets []intent.AssetID) {
	b.lock.Lock()
	defer b.lock.Unlock()
	before := b.looks
	b.looks = make(map[intent.AssetID]Look, len(assets))
	for _, asset := range assets {
		b.looks[asset] = before[asset]
	}
}

// Watches reports whether an asset is watched.
func (b *Board) Watches(asset intent.AssetID) bool {
	if b == nil {
		return false
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	_, watched := b.looks[asset]
	return watched
}

// Watched lists the assets that are watched, in any order.
func (b *Board) Watched() []intent.AssetID {
	if b == nil {
		return nil
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	return slices.Collect(maps.Keys(b.looks))
}

// Saw notes what was seen of an asset, if it is watched.
func (b *Board) Saw(asset intent.AssetID, look Look) {
	if b == nil {
		return
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	if before, watched := b.looks[asset]; watched {
		switch {
		case !look.Blind() && (look.State != intent.StateInSync || look.Health == intent.Unhealthy):
			look.Ill = look.At
		case before.Effective == look.Effective:
			look.Ill = before.Ill
		}
		look.Since = look.At
		if look.tells(before) {
			b.news++
		} else if passed := look.At.Sub(before.At); passed > 0 && passed <= b.Gap {
			look.Since = before.Since
		}
		b.looks[asset] = look
	}
}

// News counts what was seen of assets that are watched, but for what is as well as it was
// at the look before.
func (b *Board) News() uint64 {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.news
}

// Of is what was seen of an asset last; zero: nothing since it is watched.
func (b *Board) Of(asset intent.AssetID) Look {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.looks[asset]
}
