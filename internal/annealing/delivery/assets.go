package delivery

import (
	"context"
	"fmt"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// Assets are those of an environment, and how they stand.
type Assets struct {
	// Members at head.
	Members []intent.Member
	// Good of them are in sync with what head says, and not unhealthy.
	Good int
	// Lacking are the first of those that are not good, in the order of their ids.
	Lacking []LackingAsset
	// Content is the digest of what they are to be.
	Content intent.Digest
	// Stuck: one of them has what head says, is unhealthy, and no push is going to change that.
	Stuck bool
	// Failing: one of them has what head says and is unhealthy, or its pushes fail.
	Failing bool
}

// LackingAsset is an asset that is not good with what head says, and why.
type LackingAsset struct {
	Asset intent.AssetID
	// State of its last report; StateUnseen: it has none of what head says.
	State intent.State
	// Waiting is what is most in its way; the kind is empty: nothing is.
	Waiting intent.WaitingOn
	Health  intent.Health
}

// mostLacking assets of an environment are listed.
const mostLacking = 3

// Words say for people why it is not good.
func (l *LackingAsset) Words() string {
	switch {
	case l.Waiting.Kind != "":
		return fmt.Sprintf("%s waits (%s): %s", l.Asset, l.Waiting.Kind, l.Waiting.Reason)
	case l.Health.State == intent.Unhealthy:
		return fmt.Sprintf("%s is unhealthy: %s", l.Asset, l.Health.Reason)
	case l.State == intent.StateUnseen:
		return fmt.Sprintf("%s is not compared with production yet", l.Asset)
	}
	return fmt.Sprintf("%s is %s", l.Asset, l.State)
}

// AllGood reports whether there are assets, and all of them are good.
func (a *Assets) AllGood() bool { return len(a.Members) > 0 && a.Good == len(a.Members) }

type matchKey struct {
	partition intent.PartitionID
	filter    string
}

// matched are the assets of a filter as of a head.
type matched struct {
	head    intent.IncarnationID
	members []intent.Member
	// verdicts of contents that were matched before.
	verdicts map[intent.AssetID]matchVerdict
}

type matchVerdict struct {
	digest intent.Digest
	match  bool
}

// memberPage is how many assets are read at once.
const memberPage = 1000

// assets of a place as of its partition's head, and how they stand.
func (r *Reader) assets(ctx context.Context, place *Place) (Assets, error) {
	members, err := r.match(ctx, place)
	if err != nil {
		return Assets{}, err
	}
	a := Assets{Members: members}
	var parts intent.Parts
	parts.Begin("lehr.environment.v1")
	for _, m := range members {
		parts.Add([]byte(m.Asset))
		parts.Add(m.Effective[:])
		report, err := r.Store.Report(ctx, place.Partition.ID, m.Asset)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return a, err
		}
		if err != nil || report.Effective != m.Effective {
			a.addLacking(LackingAsset{Asset: m.Asset, State: intent.StateUnseen})
			continue
		}
		isStill := report.State == intent.StateInSync || report.State == intent.StateWaiting && len(report.Waiting) > 0 && report.Waiting[0].Kind == intent.WaitUnknown
		a.Stuck = a.Stuck || report.Health.State == intent.Unhealthy && isStill
		if report.Health.State == intent.Unhealthy || report.State != intent.StateInSync {
			lacking := LackingAsset{Asset: m.Asset, State: report.State, Health: report.Health}
			if len(report.Waiting) > 0 {
				lacking.Waiting = report.Waiting[0]
			}
			a.addLacking(lacking)
		}
		switch {
		case report.Health.State == intent.Unhealthy:
			a.Failing = true
		case report.State == intent.StateInSync:
			a.Good++
		case report.State == intent.StateWaiting && len(report.Waiting) > 0:
			kind := report.Waiting[0].Kind
			a.Failing = a.Failing || kind == intent.WaitBackoff || kind == intent.WaitNoEffect || kind == intent.WaitQuarantined
		}
	}
	a.Content = parts.Sum()
	return a, nil
}

func (a *Assets) addLacking(l LackingAsset) {
	if len(a.Lacking) < mostLacking {
		a.Lacking = append(a.Lacking, l)
	}
}

// match lists the assets of a place at head.
func (r *Reader) match(ctx context.Context, place *Place) ([]intent.Member, error) {
	head := place.Partition.Head
	if head.Sequence == 0 {
		return nil, nil
	}
	r.memory.lock.Lock()
	defer r.memory.lock.Unlock()
	key := matchKey{place.Partition.ID, place.Spec.GetAssets()}
	known := r.memory.matched[key]
	if known == nil {
		known = &matched{}
	}
	if known.head == head {
		return known.members, nil
	}
	incarnation, err := r.Store.Incarnation(ctx, head)
	if err != nil {
		return nil, err
	}
	set, err := r.Schemas.Schema(ctx, place.Partition.ID, incarnation.Schema)
	if err != nil {
		return nil, err
	}
	filter, err := rule.New(set).Filter(place.Spec.GetAssets())
	if err != nil {
		return nil, err
	}
	next := &matched{head: head, verdicts: map[intent.AssetID]matchVerdict{}}
	page := store.AssetFilter{Type: filter.Narrow().Type, Limit: memberPage}
	for {
		members, err := r.Store.Members(ctx, head, page)
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			page.After = m.Asset
			if m.Asset == intent.PolicyAsset {
				continue
			}
			verdict, ok := known.verdicts[m.Asset]
			if !ok || verdict.digest != m.Digest {
				verdict.digest = m.Digest
				if verdict.match, err = r.matches(ctx, head, m.Asset, filter); err != nil {
					return nil, err
				}
			}
			next.verdicts[m.Asset] = verdict
			if verdict.match {
				next.members = append(next.members, m)
			}
		}
		if len(members) < memberPage {
			break
		}
	}
	if r.memory.matched == nil {
		r.memory.matched = map[matchKey]*matched{}
	}
	r.memory.matched[key] = next
	return next.members, nil
}

func (r *Reader) matches(ctx context.Context, head intent.IncarnationID, id intent.AssetID, filter *rule.Filter) (bool, error) {
	_, body, err := r.Store.Content(ctx, head, id)
	if err != nil {
		return false, err
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return false, err
	}
	return filter.Match(asset)
}

// covers reports whether a partition's head has a revision of the document of a place.
func (p *Place) covers(revision string) bool {
	for _, source := range p.Partition.Covered {
		if source.Source == p.Source && p.reached(source.Revision, revision) {
			return true
		}
	}
	return false
}

// AwaitsHead reports whether head is known not to have what the document says now.
func (p *Place) AwaitsHead() bool {
	return !p.InRepository && p.Revision != "" && !p.covers(p.Revision)
}

// reached reports whether a revision of a place's document is another one, or comes after it. Of a
// repository that is known once a visit looked.
func (p *Place) reached(at, revision string) bool {
	if p.InRepository {
		return p.includes != nil && p.includes(at, revision)
	}
	return revisionNumber(at) >= revisionNumber(revision) && revisionNumber(at) > 0
}
