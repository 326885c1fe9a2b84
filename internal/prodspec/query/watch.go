package query

import (
	"context"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/store"
)

// Watching is what a watcher wants to hear of.
type Watching struct {
	Partition intent.PartitionID
	// Filter is a CEL condition; empty: all assets.
	Filter string
	// After is the incarnation that the watcher knows; zero: none.
	After intent.IncarnationID
}

// Event is part of what a watcher is sent.
type Event struct {
	// Incarnation that the members are as of.
	Incarnation intent.IncarnationID
	// Members are new, or differ, or match the filter now. They are shared: do
	// not modify them.
	Members []intent.Member
	// Removed are no members any more, or do not match any more.
	Removed []intent.AssetID
	// Complete: all of the incarnation was sent.
	Complete bool
	// Reset: what was sent before is void.
	Reset bool
}

// ChangePage is part of what differs between two incarnations, for a filter.
type ChangePage struct {
	Members []intent.Member
	Removed []intent.AssetID
	// Next is the last asset that was looked at; empty: that was all.
	Next intent.AssetID
}

// watchPage is the largest number of assets in one event.
const watchPage = 500

type pageKey struct {
	id     intent.IncarnationID
	filter string
	cursor intent.AssetID
}

type changeKey struct {
	base, target intent.IncarnationID
	filter       string
	cursor       intent.AssetID
}

// Watch sends all that match in head, or what head changed since the
// incarnation that the watcher knows, and then what each new head changed,
// until the context ends. A watcher that reads slowly is not sent the heads
// that it missed one by one: nothing is kept for it but the incarnation that it
// was sent last.
func (r *Reader) Watch(ctx context.Context, wanted Watching, send func(Event) error) error {
	following, leave := r.heads.follow(wanted.Partition)
	defer leave()
	// The first time, the head that is known is worth a word: nothing changed.
	base, lastHead := wanted.After, intent.IncarnationID{}
	for {
		head, err := r.heads.next(ctx, following, lastHead)
		if err != nil {
			return err
		}
		lastHead = head
		err = r.bring(ctx, wanted.Filter, base, head, send)
		switch {
		case fault.Is(err, fault.NotFound):
			// It was so slow that what it was being sent is not retained any
			// more. There is a newer head.
			base = intent.IncarnationID{}
		case err != nil:
			return err
		default:
			base = head
		}
	}
}

// bring sends a watcher from what it knows to an incarnation.
func (r *Reader) bring(ctx context.Context, filter string, base, target intent.IncarnationID, send func(Event) error) error {
	if !base.IsZero() {
		err := r.sendChanges(ctx, filter, base, target, send)
		if !fault.Is(err, fault.NotFound) {
			return err
		}
		// What it knows is not retained any more.
	}
	reset := true
	for cursor := (intent.AssetID)(""); ; {
		key := pageKey{target, filter, cursor}
		page, err := r.all.get(ctx, key, func(ctx context.Context) (Page, error) {
			return r.Page(ctx, Wanted{Incarnation: target, Filter: filter, Index: store.AssetFilter{After: cursor, Limit: watchPage}})
		})
		if err != nil {
			return err
		}
		cursor = page.Next
		if err := send(Event{Incarnation: target, Members: page.Members, Reset: reset, Complete: cursor == ""}); err != nil || cursor == "" {
			return err
		}
		reset = false
	}
}

func (r *Reader) sendChanges(ctx context.Context, filter string, base, target intent.IncarnationID, send func(Event) error) error {
	for cursor := (intent.AssetID)(""); ; {
		page, err := r.changePage(ctx, changeKey{base, target, filter, cursor})
		if err != nil {
			return err
		}
		cursor = page.Next
		if err := send(Event{Incarnation: target, Members: page.Members, Removed: page.Removed, Complete: cursor == ""}); err != nil || cursor == "" {
			return err
		}
	}
}

// changePage is made once for all watchers that are brought the same way.
func (r *Reader) changePage(ctx context.Context, key changeKey) (ChangePage, error) {
	return r.changed.get(ctx, key, func(ctx context.Context) (ChangePage, error) {
		unfiltered := key
		unfiltered.filter = ""
		changes, err := r.deltas.get(ctx, unfiltered, func(ctx context.Context) ([]store.Change, error) {
			return r.store.Changes(ctx, key.base, key.target, key.cursor, watchPage)
		})
		if err != nil {
			return ChangePage{}, err
		}
		newFilter, err := r.filterIn(ctx, key.target, key.filter)
		if err != nil {
			return ChangePage{}, err
		}
		// Under the types of before, the filter may have no meaning.
		oldFilter, err := r.filterIn(ctx, key.base, key.filter)
		if err != nil && !fault.Is(err, fault.Invalid) {
			return ChangePage{}, err
		}
		return r.filterChanges(ctx, changes, oldFilter, newFilter)
	})
}

// filterChanges tells those that match from those that do not any more. It ends
// early when it has cost enough for one page.
func (r *Reader) filterChanges(ctx context.Context, changes []store.Change, oldFilter, newFilter *rule.Filter) (ChangePage, error) {
	page, cost := ChangePage{}, 0
	for i, change := range changes {
		matched, spent, err := r.matchesSide(ctx, newFilter, change.After)
		cost += spent
		switch {
		case err != nil:
			return ChangePage{}, err
		case matched:
			page.Members = append(page.Members, *change.After)
		default:
			if matched, spent, err = r.matchesSide(ctx, oldFilter, change.Before); err != nil {
				return ChangePage{}, err
			}
			if cost += spent; matched {
				page.Removed = append(page.Removed, change.Asset)
			}
		}
		if more := i+1 < len(changes) || len(changes) == watchPage; more && (cost > mostCost || i+1 == watchPage) {
			page.Next = change.Asset
			break
		}
	}
	return page, nil
}

// matchesSide is false of an asset that is not there.
func (r *Reader) matchesSide(ctx context.Context, filter *rule.Filter, member *intent.Member) (matched bool, cost int, err error) {
	if member == nil {
		return false, 0, nil
	}
	return r.matches(ctx, filter, *member)
}
