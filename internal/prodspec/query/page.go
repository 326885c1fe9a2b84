package query

import (
	"context"
	"strings"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/store"
)

// What one page may cost when a filter has to be evaluated: contents that are
// read, members that are looked at without their content, and what evaluating
// costs, in the units of package rule.
const (
	mostContents = 500
	mostMembers  = 10_000
	mostCost     = 400_000
)

// Wanted is what a page should hold.
type Wanted struct {
	Incarnation intent.IncarnationID
	// Filter is a CEL condition; empty: all.
	Filter string
	// Index is what was asked of the index itself, with After and Limit.
	Index store.AssetFilter
}

// Page is some of the members that match, in the order of their ids.
type Page struct {
	Members []intent.Member
	// Next is the last id that was looked at; empty: that was all.
	Next intent.AssetID
}

// Page reads one page. It may be short, or empty, and not be the last.
func (r *Reader) Page(ctx context.Context, wanted Wanted) (Page, error) {
	filter, err := r.filterIn(ctx, wanted.Incarnation, wanted.Filter)
	if err != nil {
		return Page{}, err
	}
	index, rest, some := narrowed(wanted.Index, filter)
	if !some {
		return Page{}, nil
	}
	if rest == nil {
		members, err := r.store.Members(ctx, wanted.Incarnation, index)
		page := Page{Members: members}
		if len(members) > 0 && len(members) >= index.Limit {
			page.Next = members[len(members)-1].Asset
		}
		return page, err
	}
	return r.evaluate(ctx, wanted.Incarnation, index, rest)
}

// narrowed adds what an index can answer of a filter. rest is what is left to
// evaluate; some is false when nothing can match.
func narrowed(index store.AssetFilter, filter *rule.Filter) (_ store.AssetFilter, rest *rule.Filter, some bool) {
	if filter == nil {
		return index, nil, true
	}
	narrow := filter.Narrow()
	exact := narrow.Exact
	if narrow.Type != "" {
		if index.Type != "" && index.Type != narrow.Type {
			return index, nil, false
		}
		index.Type = narrow.Type
	}
	switch {
	case strings.HasPrefix(narrow.Prefix, index.Prefix):
		index.Prefix = narrow.Prefix
	case !strings.HasPrefix(index.Prefix, narrow.Prefix):
		return index, nil, false
	}
	switch {
	case narrow.Field == "":
	case index.Field == "":
		index.Field, index.Value = narrow.Field, narrow.Value
	case index.Field != narrow.Field || index.Value != narrow.Value:
		exact = false
	}
	switch {
	case narrow.RefersTo == "":
	case index.RefersTo == "":
		index.RefersTo = narrow.RefersTo
	case index.RefersTo != narrow.RefersTo:
		exact = false
	}
	if exact {
		return index, nil, true
	}
	return index, filter, true
}

// evaluate looks at members until the page is full or has cost enough.
func (r *Reader) evaluate(ctx context.Context, id intent.IncarnationID, index store.AssetFilter, filter *rule.Filter) (Page, error) {
	limit, budget := index.Limit, mostMembers
	if filter.NeedsContent() {
		budget = mostContents
	}
	page, cost := Page{}, 0
	for {
		// About as many as are still wanted, and more when few match.
		index.Limit = min(budget, max(limit-len(page.Members), 250))
		members, err := r.store.Members(ctx, id, index)
		if err != nil {
			return Page{}, err
		}
		for _, member := range members {
			matched, spent, err := r.matches(ctx, filter, member)
			if err != nil {
				return Page{}, err
			}
			if matched {
				page.Members = append(page.Members, member)
			}
			index.After = member.Asset
			if cost += spent; len(page.Members) == limit || cost > mostCost {
				page.Next = index.After
				return page, nil
			}
		}
		if len(members) < index.Limit {
			return page, nil
		}
		if budget -= len(members); budget <= 0 {
			page.Next = index.After
			return page, nil
		}
	}
}
