package validate

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// maxKeys of a rule over the whole.
const maxKeys = 10_000

// tally is what the aggregates of a rule come to over an incarnation. It holds
// groups, and no assets: what an asset contributed is computed again from its
// content when it changes. So a change costs what changed, and memory what
// groups there are.
type tally struct {
	at intent.IncarnationID
	// groups of each aggregate, by key.
	groups []map[string]*group
	// keys that the rule's "by" gives, and how many assets have each.
	keys map[string]int
	// unknown contributions, for which there is no value; why is one of the
	// reasons.
	unknown int
	reason  string
}

// group of assets with one key. Sums are exact: they do not depend on the order
// in which changes came.
type group struct {
	count  int
	sum    *big.Rat
	values map[float64]int // subject min and max
}

// contribution of one asset: to each aggregate, and its key.
type contribution struct {
	parts   []part
	key     string
	keyed   bool
	unknown error
}

type part struct {
	key    string
	number float64
	counts bool
}

func newTally(r *ownRule) *tally {
	t := &tally{keys: map[string]int{}}
	for range r.whole.Aggregates {
		t.groups = append(t.groups, map[string]*group{})
	}
	return t
}

// contributionOf computes what an asset contributes.
func (r *ownRule) contributionOf(asset intent.Asset) (c contribution) {
	for _, aggregate := range r.whole.Aggregates {
		key, number, counts, err := aggregate.Of(asset)
		if err != nil {
			c.unknown = err
		}
		c.parts = append(c.parts, part{key, number, counts && err == nil})
	}
	if r.keyExpression == nil {
		return c
	}
	if r.filter != nil {
		matches, err := r.filter.Match(asset)
		if err != nil {
			c.unknown = err
		}
		if !matches {
			return c
		}
	}
	key, err := r.keyExpression.Text(asset)
	if err != nil {
		c.unknown = fmt.Errorf("it has no key: %w", err)
		return c
	}
	c.key, c.keyed = key, true
	return c
}

// add a contribution, or take it away.
func (t *tally) add(r *ownRule, c contribution, times int) {
	if c.unknown != nil {
		t.unknown += times
		t.reason = FromError("", "", c.unknown).Message
	}
	if c.keyed {
		if t.keys[c.key] += times; t.keys[c.key] == 0 {
			delete(t.keys, c.key)
		}
	}
	for i, p := range c.parts {
		if !p.counts {
			continue
		}
		g := t.groups[i][p.key]
		if g == nil {
			g = &group{}
			t.groups[i][p.key] = g
		}
		switch r.whole.Aggregates[i].Function {
		case "sum":
			if g.sum == nil {
				g.sum = new(big.Rat)
			}
			number := new(big.Rat).SetFloat64(p.number)
			g.sum.Add(g.sum, number.Mul(number, big.NewRat(int64(times), 1)))
		case "min", "max":
			if g.values == nil {
				g.values = map[float64]int{}
			}
			if g.values[p.number] += times; g.values[p.number] == 0 {
				delete(g.values, p.number)
			}
		}
		if g.count += times; g.count == 0 {
			delete(t.groups[i], p.key)
		}
	}
}

// value of an aggregate for a key; NaN: there is none.
func (t *tally) value(r *ownRule, i int, key string) float64 {
	aggregate := r.whole.Aggregates[i]
	if !aggregate.Grouped() {
		key = ""
	}
	g := t.groups[i][key]
	switch {
	case g == nil && (aggregate.Function == "count" || aggregate.Function == "sum"):
		return 0
	case g == nil:
		return math.NaN()
	case aggregate.Function == "count":
		return float64(g.count)
	case aggregate.Function == "sum":
		sum, _ := g.sum.Float64()
		return sum
	case aggregate.Function == "min":
		return slices.Min(slices.Collect(maps.Keys(g.values)))
	}
	return slices.Max(slices.Collect(maps.Keys(g.values)))
}

// allKeys that there are.
func (t *tally) allKeys(r *ownRule) map[string]bool {
	keys := map[string]bool{}
	if r.keyExpression != nil {
		for key := range t.keys {
			keys[key] = true
		}
		return keys
	}
	for i, groups := range t.groups {
		if r.whole.Aggregates[i].Grouped() {
			for key := range groups {
				keys[key] = true
			}
		}
	}
	return keys
}

// wantsAny reports whether an asset of the type may contribute.
func (r *ownRule) wantsAny(id intent.AssetID, typeName intent.TypeName) bool {
	if id == intent.PolicyAsset {
		return false
	}
	if r.keyExpression != nil && r.wants(id, typeName) {
		return true
	}
	return slices.ContainsFunc(r.whole.Aggregates, func(a *rule.Aggregate) bool { return a.Type() == "" || a.Type() == typeName })
}

// judgeWhole judges the keys that the candidate touches; all when the rule is
// new.
func (v *Validator) judgeWhole(ctx context.Context, b *breaches, r *ownRule) error {
	t, err := v.tallyOf(ctx, b, r)
	if err != nil {
		return err
	}
	touched, all, undo, err := b.apply(ctx, r, t)
	// The tally is head's again: the candidate may not be published.
	defer undo()
	if err != nil {
		return err
	}
	if t.unknown > 0 {
		if all || r.fresh || len(touched) > 0 {
			b.keep(r, "", intent.Finding{
				Message: fmt.Sprintf("rule %s cannot be judged: of %d assets it is not known what they contribute: %s", r.Id, t.unknown, t.reason),
				Hint:    `ask in the filter first whether it is there, as in has(payload.field) or "KEY" in payload.field`,
			})
		}
		return nil
	}
	if !r.whole.Keyed && r.keyExpression == nil {
		if all || r.fresh {
			b.whole(r, t, "")
		}
		return nil
	}
	keys := t.allKeys(r)
	if len(keys) > maxKeys {
		b.keep(r, "", intent.Finding{Message: fmt.Sprintf("rule %s cannot be judged: there are %d keys, at most %d are", r.Id, len(keys), maxKeys), Hint: "group by something that fewer assets differ in"})
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if all || r.fresh || touched[key] {
			b.whole(r, t, key)
		}
	}
	return nil
}

func (b *breaches) whole(r *ownRule, t *tally, key string) {
	values := make([]float64, len(r.whole.Aggregates))
	for i := range values {
		values[i] = t.value(r, i, key)
	}
	holds, err := r.whole.Holds(key, values)
	if holds && err == nil {
		return
	}
	f := intent.Finding{Hint: "validate.rules of lehr.yaml says: must: " + intent.Shown(r.Must)}
	subject := "the partition"
	if key != "" {
		subject = intent.Shown(key)
	}
	switch {
	case err != nil:
		finding := FromError("", "", err)
		f.Message = fmt.Sprintf("rule %s cannot be judged of %.200s: %s", r.Id, subject, finding.Message)
		if finding.Hint != "" {
			f.Hint = finding.Hint
		}
	case r.Message != "":
		f.Message = fmt.Sprintf("%.200s: %.1000s (rule %s; %s)", subject, r.Message, r.Id, r.whole.Told(values))
	default:
		f.Message = fmt.Sprintf("%.200s breaks the rule %s: %s", subject, r.Id, r.whole.Told(values))
	}
	b.keep(r, key, f)
}

// apply what the candidate changes. It says which keys that touches, or that
// it touches what all keys see.
func (b *breaches) apply(ctx context.Context, r *ownRule, t *tally) (touched map[string]bool, all bool, undo func(), err error) {
	type applied struct {
		contribution
		times int
	}
	var contributions []applied
	undo = func() {
		for _, a := range contributions {
			t.add(r, a.contribution, -a.times)
		}
	}
	touched = map[string]bool{}
	note := func(c contribution, times int) {
		t.add(r, c, times)
		contributions = append(contributions, applied{c, times})
		if c.keyed {
			touched[c.key] = true
		}
		all = all || c.unknown != nil
		for i, p := range c.parts {
			if !p.counts {
				continue
			}
			touched[p.key] = true
			all = all || !r.whole.Aggregates[i].Grouped()
		}
	}
	for _, entry := range b.delta {
		if err := ctx.Err(); err != nil {
			return nil, false, undo, err
		}
		if !entry.Removed && entry.Body == nil {
			continue
		}
		baseMember, err := b.baseMember(ctx, entry.Asset)
		if err != nil {
			return nil, false, undo, err
		}
		if !baseMember.Digest.IsZero() && r.wantsAny(entry.Asset, baseMember.Type) {
			body, err := b.Snapshots.Body(ctx, baseMember.Digest)
			if err != nil {
				return nil, false, undo, err
			}
			asset, err := schema.Decode(body)
			if err != nil {
				return nil, false, undo, err
			}
			note(r.contributionOf(asset), -1)
		}
		if entry.Body != nil && r.wantsAny(entry.Asset, entry.Member.Type) {
			asset, err := schema.Decode(entry.Body)
			if err != nil {
				return nil, false, undo, err
			}
			note(r.contributionOf(asset), 1)
		}
	}
	return touched, all, undo, nil
}

// tallyOf brings what was kept up to the base, or counts the base anew.
func (v *Validator) tallyOf(ctx context.Context, b *breaches, r *ownRule) (*tally, error) {
	if v.tallies == nil {
		v.tallies = map[intent.Digest]*tally{}
	}
	t := v.tallies[r.digest]
	if t != nil && t.at == b.Base {
		return t, nil
	}
	// What is half done is not used.
	delete(v.tallies, r.digest)
	var err error
	if t == nil || t.at.IsZero() || t.at.Partition != b.Base.Partition || t.at.Sequence > b.Base.Sequence || b.follow(ctx, r, t) != nil {
		t = newTally(r)
		err = b.count(ctx, r, t)
	}
	if err != nil {
		return nil, err
	}
	t.at = b.Base
	v.tallies[r.digest] = t
	return t, nil
}

// follow adds what changed between the tally's incarnation and the base.
func (b *breaches) follow(ctx context.Context, r *ownRule, t *tally) error {
	var cursor intent.AssetID
	for {
		changes, err := b.History.Changes(ctx, t.at, b.Base, cursor, 1000)
		if err != nil || len(changes) == 0 {
			return err
		}
		for _, change := range changes {
			cursor = change.Asset
			for i, member := range []*intent.Member{change.Before, change.After} {
				if member == nil || !r.wantsAny(change.Asset, member.Type) {
					continue
				}
				if err := b.tallyOne(ctx, r, t, *member, 2*i-1); err != nil {
					return err
				}
			}
		}
	}
}

func (b *breaches) tallyOne(ctx context.Context, r *ownRule, t *tally, member intent.Member, times int) error {
	body, err := b.Snapshots.Body(ctx, member.Digest)
	if err != nil {
		return err
	}
	asset, err := schema.Decode(body)
	if err == nil {
		t.add(r, r.contributionOf(asset), times)
	}
	return err
}

// count all of the base. What an index can tell narrows what is read.
func (b *breaches) count(ctx context.Context, r *ownRule, t *tally) error {
	if b.Base.IsZero() {
		return nil
	}
	const page = 10_000
	filter := store.AssetFilter{Limit: page, Type: r.onlyType()}
	for {
		members, err := b.Snapshots.Members(ctx, b.Base, filter)
		if err != nil {
			return err
		}
		for _, member := range members {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !r.wantsAny(member.Asset, member.Type) {
				continue
			}
			if err := b.tallyOne(ctx, r, t, member, 1); err != nil {
				return err
			}
		}
		if len(members) < page {
			return nil
		}
		filter.After = members[len(members)-1].Asset
	}
}

// onlyType is the one type whose assets contribute; empty: there are several.
func (r *ownRule) onlyType() intent.TypeName {
	only := r.whole.Aggregates[0].Type()
	for _, a := range r.whole.Aggregates {
		if a.Type() != only {
			return ""
		}
	}
	if r.keyExpression != nil && r.payloadType != only {
		return ""
	}
	return only
}
