package prodspec

import (
	"context"
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// governed lists what the rollouts of a candidate govern by pins, as far as it may
// have no pin yet: of what changed, and of all where the rollouts, or the types
// that they are about, did.
func (b *builder) governed(ctx context.Context, headPolicy, policy *intentpb.Policy, delta change, typesMoved bool) (list []store.Governed, err error) {
	if len(policy.GetRollouts()) == 0 {
		return nil, nil
	}
	all, err := course.All(rule.New(b.set), policy)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(c *course.Course) bool { return !c.ByPins() })
	wanted := func(id intent.AssetID, typeName intent.TypeName) bool {
		return slices.ContainsFunc(all, func(c *course.Course) bool { return c.Wants(id, typeName) })
	}
	see := func(id intent.AssetID, body []byte) error {
		asset, err := schema.Decode(body)
		if err != nil {
			return err
		}
		for _, c := range all {
			selects, err := c.Selects(asset)
			if err != nil {
				return err
			}
			if selects { // By one alone, for so it was judged.
				list = append(list, store.Governed{Asset: id, Rollout: c.Name()})
				return nil
			}
		}
		return nil
	}
	for i := range delta.entries {
		entry := &delta.entries[i]
		if entry.Removed || entry.Body == nil || !wanted(entry.Asset, entry.Member.Type) {
			continue
		}
		if err := see(entry.Asset, entry.Body); err != nil {
			return nil, err
		}
	}
	if typesMoved || !course.Same(headPolicy, policy) {
		if err := b.rest(delta)(ctx, wanted, see); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b store.Governed) int { return strings.Compare(string(a.Asset), string(b.Asset)) })
	return list, nil
}

// mostAtOnce are pinned in the transaction that publishes, which all others wait
// for.
const mostAtOnce = 1000

// govern pins what is governed from the next incarnation on, if that is much.
// Publish pins the rest: at no moment does an asset that a rollout governs follow
// head by itself. What has such a pin keeps it.
func (p *Pipeline) govern(ctx context.Context, next intent.IncarnationID, governed []store.Governed) error {
	if len(governed) <= mostAtOnce {
		return nil
	}
	p.options.Runtime.Point("govern")
	return p.options.Store.Govern(ctx, p.lease, next, governed)
}
