package validate

import (
	"context"
	"fmt"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// period is what happened since the head at its beginning, this candidate
// included. The policy asset is not counted.
type period struct {
	// start and grown are the sizes at the beginning and now, and first is the head then.
	start, grown int
	first        intent.IncarnationID
	// removed assets are not in the candidate; changed ones are.
	removed, changed map[intent.AssetID]bool
	// members that there were at any time before this candidate, as far as
	// removed ones are known.
	members int
	// What this candidate itself does.
	removes, changes, adds bool
}

func (p *period) measure(touched map[intent.AssetID]bool) measure {
	return measure{total: p.members, description: fmt.Sprintf("the %d assets", p.members), affected: sortedKeys(touched)}
}

// period gathers from the incarnations in which something was removed or
// changed, at a cost that follows these changes; nothing is read for a
// candidate that no guard can hold.
func (j *judging) period(ctx context.Context, l limits) (*period, error) {
	p := &period{removed: map[intent.AssetID]bool{}, changed: map[intent.AssetID]bool{}}
	growth, err := j.own(ctx, p)
	if err != nil {
		return nil, err
	}
	p.changes = p.changes && l.changedPercent < 100
	if !p.removes && !p.changes && !p.adds {
		return p, nil
	}
	base, err := j.published(ctx, l, p)
	if err != nil {
		return nil, err
	}
	p.grown = base + growth
	return p, j.settle(ctx, p, base)
}

// own notes what the candidate itself does, and returns by how much it grows.
func (j *judging) own(ctx context.Context, p *period) (growth int, _ error) {
	for _, entry := range j.delta {
		if entry.Asset == intent.PolicyAsset {
			continue
		}
		baseMember, err := j.baseMember(ctx, entry.Asset)
		if err != nil {
			return 0, err
		}
		exists := !baseMember.Digest.IsZero()
		switch {
		case entry.Removed && exists:
			p.removed[entry.Asset], p.removes = true, true
			growth--
		case !entry.Removed && !exists:
			p.adds = true
			growth++
		case !entry.Removed && baseMember.Digest != entry.Member.Digest:
			p.changed[entry.Asset], p.changes = true, true
		}
	}
	return growth, nil
}

// settle drops removed assets that are back, and counts the members.
func (j *judging) settle(ctx context.Context, p *period, base int) error {
	p.members = base
	for _, asset := range sortedKeys(p.removed) {
		baseMember, err := j.baseMember(ctx, asset)
		if err != nil {
			return err
		}
		if baseMember.Digest.IsZero() {
			p.members++
		}
		now, err := j.member(ctx, asset)
		if err != nil {
			return err
		}
		if !now.Digest.IsZero() {
			delete(p.removed, asset)
		}
	}
	for asset := range p.changed {
		if p.removed[asset] {
			delete(p.changed, asset)
		}
	}
	return nil
}

// published walks from head back to the incarnation that was head when the
// period began, or to one whose guards a person let through, and returns how
// many assets head has.
func (j *judging) published(ctx context.Context, l limits, p *period) (int, error) {
	var newer *intent.Incarnation
	base, cursor := 0, j.Base.Sequence+1
	for {
		page, err := j.History.Incarnations(ctx, j.Base.Partition, cursor, 100)
		if err != nil {
			return 0, err
		}
		for i := range page {
			older := &page[i]
			if newer == nil {
				base = sizeOf(older)
			} else if err := j.noteChanges(ctx, l, p, older, newer); err != nil {
				return 0, err
			}
			p.start, p.first = sizeOf(older), older.ID
			if !older.Created.After(j.Now.Add(-l.period)) || older.Labels[AcknowledgedLabel] != "" {
				return base, nil
			}
			newer, cursor = older, older.ID.Sequence
		}
		if len(page) == 0 {
			return base, nil
		}
	}
}

// sizeOf is the number of assets beside the policy.
func sizeOf(incarnation *intent.Incarnation) int {
	if !incarnation.Policy.IsZero() {
		return incarnation.Count - 1
	}
	return incarnation.Count
}

// noteChanges adds what went and changed from one incarnation to the next.
func (j *judging) noteChanges(ctx context.Context, l limits, p *period, older, newer *intent.Incarnation) error {
	adjacent := older.ID.Sequence+1 == newer.ID.Sequence
	quiet := newer.Removed == 0 && (newer.Changed == 0 || l.changedPercent >= 100)
	if adjacent && quiet {
		return nil
	}
	var cursor intent.AssetID
	for {
		changes, err := j.History.Changes(ctx, older.ID, newer.ID, cursor, 1000)
		if err != nil || len(changes) == 0 {
			return err
		}
		for _, change := range changes {
			p.note(change)
		}
		cursor = changes[len(changes)-1].Asset
	}
}

func (p *period) note(change store.Change) {
	switch {
	case change.Asset == intent.PolicyAsset, change.Before == nil:
	case change.After == nil:
		p.removed[change.Asset] = true
	case change.Before.Digest != change.After.Digest:
		p.changed[change.Asset] = true
	}
}
