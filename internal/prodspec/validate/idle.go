package validate

import (
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// Idle finds rules that are about no asset.
type Idle struct {
	// rules that no asset was seen of; nil: one was, or it does not compile.
	rules []*ownRule
	// valueless says why a rule's where had no value for the first asset that it could be
	// about; valued: it had one for another.
	valueless map[int]error
	valued    map[int]bool
}

// NewIdle has seen no asset.
func NewIdle(types *schema.Set, rules []*intentpb.ValidationRule) *Idle {
	i := &Idle{rules: make([]*ownRule, len(rules)), valueless: map[int]error{}, valued: map[int]bool{}}
	environment := rule.New(types)
	for at, r := range rules {
		if compiled, _, err := compileRule(environment, r); err == nil {
			i.rules[at] = compiled
		}
	}
	return i
}

// See an asset.
func (i *Idle) See(asset intent.Asset) {
	for at, r := range i.rules {
		if r != nil && r.isAbout(asset) {
			i.rules[at] = nil
		} else if r != nil && r.filter != nil {
			i.seeValue(at, r, asset)
		}
	}
}

func (i *Idle) seeValue(at int, r *ownRule, asset intent.Asset) {
	narrow := r.filter.Narrow()
	if narrow.Type != "" && narrow.Type != asset.Payload.Type || !strings.HasPrefix(string(asset.ID), narrow.Prefix) {
		return // It says itself that it is not about that one.
	}
	switch err := r.filter.WithoutValue(asset); {
	case err == nil:
		i.valued[at] = true
	case i.valueless[at] == nil:
		i.valueless[at] = err
	}
}

// Valueless says why a rule's where has no value for any asset; nil: it has for some.
func (i *Idle) Valueless(at int) error {
	if i.valued[at] {
		return nil
	}
	return i.valueless[at]
}

// isAbout reports whether a rule is about an asset, or may be.
func (r *ownRule) isAbout(asset intent.Asset) bool {
	if r.whole != nil {
		c := r.contributionOf(asset)
		return c.unknown != nil || c.keyed || slices.ContainsFunc(c.parts, func(p part) bool { return p.counts })
	}
	if r.filter == nil {
		return true
	}
	matches, err := r.filter.Match(asset)
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
