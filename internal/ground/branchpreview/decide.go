package branchpreview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Branch is what a place lists: a branch, or an open pull request.
type Branch struct {
	Name   string `json:"name"`
	Commit string `json:"commit"`
	// PullRequest is its number, and Link where people see it; zero: it is a branch.
	PullRequest int    `json:"pull_request,omitempty"`
	Link        string `json:"link,omitempty"`
	// Fork: the branch is in another repository, whose people are not those of this one.
	Fork bool `json:"fork,omitempty"`
}

// Key tells it from others.
func (b Branch) Key() Key { return Key{b.PullRequest, branchOf(b.PullRequest, b.Name)} }

// Facts are what a decision rests on.
type Facts struct {
	Rule Rule
	Now  time.Time
	// Entries as the document has them.
	Entries Entries
	// Listed is all that the place has; IsListed: it answered, and the list is complete. What is
	// missing in no list ends nothing (S5, S11).
	Listed   []Branch
	IsListed bool
	// Gone are the ending previews of which nothing is there any more.
	Gone map[string]bool
	// Expired are branches and pull requests whose previews expired, each with the commit at which
	// it did: there is no other preview until somebody pushes.
	Expired map[Key]string
	// Occupied is an asset that is in the place of a preview that is not there yet; ok is false
	// where there is none. Nobody's asset becomes one of a preview.
	Occupied func(preview string) (asset intent.AssetID, ok bool)
}

// Kind of a change.
type Kind string

// Kinds of change.
const (
	Made    Kind = "made"
	Renewed Kind = "renewed"
	Ended   Kind = "ended"
	Removed Kind = "removed"
)

// Change of one entry. Entry is what it is from now on; of Removed, what it was.
type Change struct {
	Name  string
	Kind  Kind
	Entry Entry
}

// WaitCause is why a branch or pull request has no preview.
type WaitCause string

// Causes of waiting.
const (
	AtMost       WaitCause = "at-most"
	NameTaken    WaitCause = "name-taken"
	IsOccupied   WaitCause = "occupied"
	HasExpired   WaitCause = "expired"
	IsFork       WaitCause = "fork"
	StillEnding  WaitCause = "ending"
	NoCommitRead WaitCause = "no-commit"
)

// Waiting is a branch or pull request that has no preview, and why.
type Waiting struct {
	Branch Branch    `json:"branch"`
	Cause  WaitCause `json:"cause"`
	Reason string    `json:"reason"`
}

// Decision is what follows.
type Decision struct {
	Changes []Change
	Waiting []Waiting
	// Expired takes the place of that of the facts.
	Expired map[Key]string
}

// Decide says what follows from what is listed, the entries, and the time. It is the only place
// where previews are made, ended or removed:
//
//   - An entry ends only by a complete list, in which its branch is missing, or has the same commit
//     when its time is over. An end is for good.
//   - An entry is removed only once nothing of it is there any more.
//   - There are never more entries made than the rule allows, those that end included.
func Decide(f Facts) Decision {
	d := &decider{Facts: f, entries: maps.Clone(f.Entries), expired: map[Key]string{}}
	if d.entries == nil {
		d.entries = Entries{}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Entries)) {
		if f.Entries[name].Ending != nil && f.Gone[name] {
			d.change(name, Removed, f.Entries[name])
		}
	}
	if !f.IsListed {
		return Decision{Changes: d.changes, Expired: f.Expired}
	}
	listed := map[Key]Branch{}
	for _, b := range f.Listed {
		listed[b.Key()] = b
		if f.Expired[b.Key()] == b.Commit && b.Commit != "" {
			d.expired[b.Key()] = b.Commit
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.entries)) {
		if entry := d.entries[name]; entry.Ending == nil {
			b, ok := listed[entry.Key()]
			d.follow(name, entry, b, ok)
		}
	}
	d.admit()
	return Decision{Changes: d.changes, Waiting: d.waiting, Expired: d.expired}
}

type decider struct {
	Facts
	// entries as they are after the changes so far.
	entries Entries
	changes []Change
	waiting []Waiting
	expired map[Key]string
}

func (d *decider) change(name string, kind Kind, entry Entry) {
	d.changes = append(d.changes, Change{name, kind, entry})
	if kind == Removed {
		delete(d.entries, name)
		return
	}
	d.entries[name] = entry
}

// follow an entry that lives.
func (d *decider) follow(name string, entry Entry, b Branch, isThere bool) {
	switch {
	case !isThere && entry.PullRequest != 0:
		d.end(name, entry, RequestClosed)
	case !isThere:
		d.end(name, entry, BranchGone)
	case !d.Rule.Matches(b.Name):
		d.end(name, entry, Unmatched)
	case b.Commit != entry.Commit && b.Commit != "":
		entry.Commit, entry.Branch, entry.Link = b.Commit, b.Name, cmp.Or(b.Link, entry.Link)
		entry.Expires = d.expiry()
		d.change(name, Renewed, entry)
	case b.Commit != "" && !d.Now.Before(entry.Expires):
		d.expired[entry.Key()] = entry.Commit
		d.end(name, entry, Expired)
	}
}

func (d *decider) expiry() time.Time {
	return d.Now.Add(d.Rule.GetExpires().AsDuration()).UTC().Truncate(time.Second)
}

func (d *decider) end(name string, entry Entry, cause Cause) {
	entry.Ending = &Ending{Since: d.Now.UTC().Truncate(time.Second), Cause: cause}
	d.change(name, Ended, entry)
}

// admit makes previews of what has none, in the order of numbers and names.
func (d *decider) admit() {
	sorted := slices.SortedFunc(slices.Values(d.Listed), func(a, b Branch) int {
		return cmp.Or(cmp.Compare(a.PullRequest, b.PullRequest), strings.Compare(a.Name, b.Name))
	})
	keys := map[Key]string{}
	for name, entry := range d.entries {
		keys[entry.Key()] = name
	}
	for _, b := range sorted {
		name, hasEntry := keys[b.Key()]
		switch {
		case !d.Rule.Matches(b.Name):
		case hasEntry && d.entries[name].Ending != nil:
			d.wait(b, StillEnding, "the preview %s of it ends first", name)
		case hasEntry:
		case b.Fork:
			d.wait(b, IsFork, "its branch is in another repository: whoever can write there would decide what runs here")
		case b.Commit == "":
			d.wait(b, NoCommitRead, "the place does not say which commit it is at")
		case d.expired[b.Key()] == b.Commit:
			d.wait(b, HasExpired, "its preview expired at this commit; a push to it makes another one")
		case len(d.entries) >= int(d.Rule.GetAtMost()):
			d.wait(b, AtMost, "there are %d previews, and at_most is %d", len(d.entries), d.Rule.GetAtMost())
		default:
			d.place(b)
			if name, ok := d.nameOf(b.Key()); ok {
				keys[b.Key()] = name
			}
		}
	}
}

// nameOf is the preview that was made of a key just now.
func (d *decider) nameOf(key Key) (string, bool) {
	if len(d.changes) == 0 {
		return "", false
	}
	last := d.changes[len(d.changes)-1]
	return last.Name, last.Kind == Made && last.Entry.Key() == key
}

// place makes a preview under the first name that is free.
func (d *decider) place(b Branch) {
	names := namesFor(b)
	at := slices.IndexFunc(names, func(name string) bool { _, taken := d.entries[name]; return !taken })
	if at < 0 {
		d.wait(b, NameTaken, "the name %s is that of another preview", names[0])
		return
	}
	name := names[at]
	if d.Occupied != nil {
		if asset, ok := d.Occupied(name); ok {
			d.wait(b, IsOccupied, "%s is there already, and no preview made it", asset)
			return
		}
	}
	d.change(name, Made, Entry{
		Branch: b.Name, Commit: b.Commit, PullRequest: b.PullRequest, Link: b.Link,
		URL: strings.ReplaceAll(d.Rule.GetLink(), "{preview}", name), Created: d.Now.UTC().Truncate(time.Second), Expires: d.expiry(),
	})
}

func (d *decider) wait(b Branch, cause WaitCause, format string, arguments ...any) {
	d.waiting = append(d.waiting, Waiting{b, cause, fmt.Sprintf(format, arguments...)})
}
