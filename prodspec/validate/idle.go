package validate

import (
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
	"lehr.dev/rule"
	"lehr.dev/schema"
)

// Idle finds rules that are about no asset.
type Idle struct {
	// rules that no asset was seen of; nil: one was, or it does not compile.
	rules []*ownRule
}

// NewIdle has seen no asset.
func NewIdle(types *schema.Set, rules []*intentpb.ValidationRule) *Idle {
	i := &Idle{rules: make([]*ownRule, len(rules))}
	environment := rule.New(types)
	for at, r := range rules {
		if made, _, err := compileRule(environment, r); err == nil {
			i.rules[at] = made
		}
	}
	return i
}

// See an asset.
func (i *Idle) See(asset intent.Asset) {
	for at, r := range i.rules {
		if r != nil && r.isAbout(asset) {
			i.rules[at] = nil
		}
	}
}

// isAbout reports whether a rule is about an asset, or may be.
func (r *ownRule) isAbout(asset intent.Asset) bool {
	if r.whole != nil {
		c := r.of(asset)
		return c.unknown != nil || c.keyed || slices.ContainsFunc(c.parts, func(p part) bool { return p.counts })
	}
	if r.where == nil {
		return true
	}
	matches, err := r.where.Match(asset)
	return matches || err != nil
}

// Idle are the indexes of rules of which no asset was seen.
func (i *Idle) Idle() (list []int) {
	for at, r := range i.rules {
		if r != nil {
			list = append(list, at)
		}
	}
	return list
}
