package branchpreview

import (
	"fmt"
	"maps"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// Endings are the previews of a partition that end. Nil and the zero value have none.
type Endings struct{ rules []ending }

// ending are those of one rule.
type ending struct {
	Rule
	// isInForce: head has the rule as the candidate does, so it is an approval. A commit that brings
	// or changes a rule approves nothing by it (S23).
	isInForce bool
	entries   Entries
}

// Add takes the entries of a rule that end.
func (e *Endings) Add(rule Rule, isInForce bool, entries Entries) {
	own := Entries{}
	for name, entry := range entries {
		if entry.Ending != nil {
			own[name] = entry
		}
	}
	if len(own) > 0 {
		e.rules = append(e.rules, ending{rule, isInForce, own})
	}
}

// IsEmpty reports whether no preview ends.
func (e *Endings) IsEmpty() bool { return e == nil || len(e.rules) == 0 }

// Turndown is that of an asset whose preview ends; ok is false where none does. It approves nothing
// of what is partly production's own (isUnmanaged), and nothing by a rule that is not in force.
func (e *Endings) Turndown(id intent.AssetID, isUnmanaged bool) (addon *intentpb.Turndown, ok bool) {
	if e == nil {
		return nil, false
	}
	for _, r := range e.rules {
		preview, isNamed := r.NameOf(id)
		entry, ends := r.entries[preview]
		if !isNamed || !ends {
			continue
		}
		addon = &intentpb.Turndown{Reason: fmt.Sprintf("the preview %s of %s has ended: %s", preview, entry.Subject(), entry.Ending.Cause.Text())}
		if r.isInForce && !isUnmanaged {
			addon.Preview = r.Removal(preview)
		}
		return addon, true
	}
	return nil, false
}

// Each calls f for each preview that ends.
func (e *Endings) Each(f func(rule Rule, preview string, entry Entry)) {
	if e == nil {
		return
	}
	for _, r := range e.rules {
		for _, name := range slices.Sorted(maps.Keys(r.entries)) {
			f(r.Rule, name, r.entries[name])
		}
	}
}

// Digest covers all that Turndown rests on; zero: nothing ends.
func (e *Endings) Digest() intent.Digest {
	if e.IsEmpty() {
		return intent.Digest{}
	}
	var all intent.Parts
	all.Begin("lehr.preview.endings.v1")
	for _, r := range e.rules {
		all.AddText(r.Digest.String())
		all.AddText(fmt.Sprint(r.isInForce))
		for _, name := range slices.Sorted(maps.Keys(r.entries)) {
			all.AddText(name)
			all.AddText(r.entries[name].Subject())
			all.AddText(string(r.entries[name].Ending.Cause))
		}
	}
	return all.Sum()
}

// Subject is what the preview is of, for people.
func (e Entry) Subject() string {
	if e.PullRequest != 0 {
		return fmt.Sprintf("pull request %d (%s)", e.PullRequest, e.Branch)
	}
	return "branch " + e.Branch
}
