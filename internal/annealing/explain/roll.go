package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Cause is why assets of a group, or of a partition, are not as intent says: what
// the chain of each ends with. Each asset that waits has one, the first of its own.
type Cause struct {
	Sort intent.Sort
	// Root is the end of the chain, and Summary what it says in one line.
	Root    Reason
	Summary string
	// Assets that it explains, sorted: all of them of those that were followed.
	Assets []intent.AssetID
	// Example is one of them, another than the root's if there is one, and Chain
	// its reasons.
	Example intent.AssetID
	Chain   []Reason
}

// Rolled is the answer for a group or a partition.
type Rolled struct {
	State   intent.State
	Counts  map[intent.State]int
	Causes  []Cause
	Summary string
	// Differs and Unknown count, of those that were followed, what production
	// was found to be.
	Differs, Unknown int
}

// Standing counts members by what production was found to be; models are in none.
func (r Rolled) Standing() map[string]int64 {
	unseen := r.Counts[intent.StateUnseen] + r.Counts[intent.StateUnserved] + r.Counts[intent.StateOff] + r.Counts[intent.StateGone]
	members := map[string]int64{}
	for current, n := range map[Current]int{
		CurrentInSync: r.Counts[intent.StateInSync], CurrentUnseen: unseen, CurrentUnknown: r.Unknown,
		CurrentDiffers: r.Differs + r.Counts[intent.StatePushing],
	} {
		if n > 0 {
			members[string(current)] = int64(n)
		}
	}
	return members
}

// Roll says why the members of a group are as they are, from the reports of those
// that wait, or are unhealthy in sync, each followed to its root: causes that concern the partition first,
// then what needs a person most, then what explains most. Name is the group's, or
// empty for the partition.
func Roll(f Facts, name string, counts map[intent.State]int, waiting []intent.AssetID) Rolled {
	r := Rolled{Counts: counts, State: intent.Worst(counts)}
	var ends []end
	elsewhere := map[string]bool{}
	for _, asset := range waiting {
		f.Asset = asset
		switch currentOf(f.Reports[asset]) {
		case CurrentInSync: // It is unhealthy.
		case CurrentDiffers:
			r.Differs++
		default:
			r.Unknown++
		}
		if e := f.endOf(asset); e.root.Kind != "" {
			ends = append(ends, e)
			elsewhere[e.at()] = elsewhere[e.at()] || e.root.Asset != asset
		}
	}
	r.Causes = f.gather(ends, elsewhere)
	r.Summary = f.roundUp(name, r)
	return r
}

// Answer says of causes who is responsible, where owners were read since.
func (f Facts) Answer(causes []Cause) {
	for i := range causes {
		root := []Reason{causes[i].Root}
		f.answerFor(root)
		causes[i].Root = root[0]
		f.answerFor(causes[i].Chain)
	}
}

// end is where the chain of one asset ends.
type end struct {
	asset intent.AssetID
	root  Reason
	chain []Reason
}

// endOf follows one asset. What all of the partition wait for is told once.
func (f Facts) endOf(asset intent.AssetID) end {
	reasons := f.assetReasons(asset, newPath())
	f.answerFor(reasons)
	order(reasons)
	e := end{asset: asset, chain: reasons}
	if len(reasons) > 0 {
		e.root = root(reasons[0])
	}
	if f.Stop != nil && (len(reasons) == 0 || isOf(e.root, string(intent.WaitStop), KindPin, KindApproved, KindOverride, KindPassedOver, KindObserved)) {
		e.root, e.chain = f.stopReason(), nil
		e.root.Responsible = f.Owner
	}
	return e
}

// at is equal for chains that end with the same asset or rollout, or all with the
// partition.
func (e end) at() string {
	if e.root.Kind == KindRollout {
		return e.root.Kind + "\x00" + e.root.Text
	}
	return e.root.Kind + "\x00" + string(e.root.Asset)
}

// key is equal for assets with one cause: the same end of their chains, or the same
// words of each one's own, but for names and numbers.
func (e end) key() string {
	return e.root.Kind + "\x00\x00" + e.root.Owner + "\x00" + strings.Join(sayings(e.root.Text, string(e.asset)), " ")
}

// gather puts those with one cause together, and orders the causes.
func (f Facts) gather(ends []end, elsewhere map[string]bool) []Cause {
	byKey := map[string]*Cause{}
	var keys []string
	for _, e := range ends {
		key := e.at()
		if !elsewhere[key] {
			key = e.key()
		}
		cause := byKey[key]
		if cause == nil {
			cause = &Cause{Sort: sortOf(e.root.Kind), Root: e.root, Example: e.asset, Chain: e.chain}
			keys, byKey[key] = append(keys, key), cause
		}
		if cause.Example == cause.Root.Asset && e.asset != e.root.Asset {
			cause.Example, cause.Chain = e.asset, e.chain
		}
		cause.Assets = append(cause.Assets, e.asset)
		cause.reach(e.root)
	}
	var causes []Cause
	for _, key := range keys {
		causes = append(causes, *byKey[key])
	}
	causes = append(causes, f.causesOfAll(causes)...)
	slices.SortStableFunc(causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(weightOfAll(a.Root), weightOfAll(b.Root)),
			cmp.Compare(slices.Index(intent.Sorts(), a.Sort), slices.Index(intent.Sorts(), b.Sort)),
			cmp.Compare(len(b.Assets), len(a.Assets)))
	})
	for i := range causes {
		slices.Sort(causes[i].Assets)
		causes[i].Summary = causes[i].words()
	}
	return causes
}

// weightOfAll is weight among the causes of a partition or a group: that the newest
// sources are not served concerns all of them, so it comes before what single ones wait for.
func weightOfAll(r Reason) int {
	if isOf(r, KindHeld, KindRejected, KindOldSource, KindUnbuilt) {
		return weight(Reason{Kind: KindSilent})
	}
	return weight(r)
}

func isOf(r Reason, kinds ...string) bool { return slices.Contains(kinds, r.Kind) }

// causesOfAll concern the partition, whatever its assets wait for.
func (f Facts) causesOfAll(existing []Cause) []Cause {
	var causes []Cause
	for _, reason := range slices.Concat(f.partitionReasons(), f.intentReasons()) {
		if !slices.ContainsFunc(existing, func(c Cause) bool { return c.Root.Asset == "" && c.Root.Kind == reason.Kind }) {
			reason.Responsible = f.Owner
			causes = append(causes, Cause{Sort: sortOf(reason.Kind), Root: reason})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Rollouts)) {
		run := f.Rollouts[name]
		if run.State == intent.RolloutRunning {
			causes = append(causes, f.holdsOf(name, slices.Concat(existing, causes))...)
		}
		if run.State != intent.RolloutPaused && !f.leftToAPerson(run) {
			continue // It goes on by itself, or has brought what there is.
		}
		reason := f.rolloutReason(name, "", newPath())
		if !slices.ContainsFunc(existing, func(c Cause) bool { return c.Root.Text == reason.Text }) {
			reason.Responsible = f.Owner
			causes = append(causes, Cause{Sort: sortOf(reason.Kind), Root: reason})
		}
	}
	return causes
}

// holdsOf are the holds that a rollout waits for: nothing that is held waits itself, and
// what is behind it is in sync.
func (f Facts) holdsOf(rollout string, existing []Cause) (causes []Cause) {
	for _, asset := range f.waitsFor(rollout) {
		hold := f.heldFrom(rollout, asset)
		if hold == nil || slices.ContainsFunc(existing, func(c Cause) bool { return c.Root.Asset == asset && c.Root.Kind == hold.Kind }) {
			continue
		}
		hold.Responsible = cmp.Or(f.Owners[asset], f.Owner)
		causes = append(causes, Cause{Sort: sortOf(hold.Kind), Root: *hold, Assets: []intent.AssetID{asset}, Example: asset})
	}
	return causes
}

// reach widens a cause by what another asset says of it: since when the first, and
// until when the first.
func (c *Cause) reach(root Reason) {
	if !root.Since.IsZero() && root.Since.Before(c.Root.Since) {
		c.Root.Since = root.Since
	}
	for _, at := range []struct {
		have  *time.Time
		other time.Time
	}{{&c.Root.Until, root.Until}, {&c.Root.Next, root.Next}} {
		if !at.other.IsZero() && (at.have.IsZero() || at.other.Before(*at.have)) {
			*at.have = at.other
		}
	}
}

// words are the cause in one line, keeping whom it is about.
func (c Cause) words() string {
	text := c.Root.Text
	if len(c.Root.Findings) > 0 {
		text += ": " + inLine(c.Root.Findings[0])
	}
	switch {
	case c.Root.Asset == "":
		return text
	case len(c.Assets) > 1 && c.Example == c.Root.Asset:
		return fmt.Sprintf("each of %d by itself, such as %s: %s", len(c.Assets), c.Root.Asset, text)
	default:
		return fmt.Sprintf("%s: %s", c.Root.Asset, text)
	}
}

func sortOf(kind string) intent.Sort {
	switch kind {
	case KindSilent, KindRejected, KindOldSource, KindUnhealthy, KindNoReport:
		return intent.SortFailing
	default:
		return intent.WaitingKind(kind).Sort()
	}
}

// roundUp is the whole in one line: how many are how, and the first causes with
// their subjects.
func (f Facts) roundUp(name string, r Rolled) string {
	total := 0
	for _, n := range r.Counts {
		total += n
	}
	text := cmp.Or(name, "partition "+string(f.Partition)) + ": "
	switch n := r.Counts[intent.StateWaiting]; {
	case total == 0 && f.Head.IsZero():
		text += "there is no incarnation yet"
	case total == 0:
		text += "nothing is in it"
	case n > 0:
		text += fmt.Sprintf("%d of %d wait", n, total)
	case f.Past && r.Counts[intent.StateUnseen] == total:
		text += fmt.Sprintf("nothing that was in the way of %d assets is kept of then", total)
	case r.Counts[intent.StateInSync] == 1 && 1+r.Counts[intent.StateModel] == total:
		text += "its one asset is in sync"
	case r.Counts[intent.StateInSync] > 0 && r.Counts[intent.StateInSync]+r.Counts[intent.StateModel] == total:
		text += fmt.Sprintf("all %d are in sync", r.Counts[intent.StateInSync])
	default:
		var parts []string
		for _, state := range intent.States() {
			if r.Counts[state] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", r.Counts[state], state))
			}
		}
		text += strings.Join(parts, ", ")
	}
	for i, cause := range r.Causes {
		separator := ": "
		if i > 0 {
			separator = "; "
		}
		if i == mostToldInLine {
			return text + fmt.Sprintf("; and %d more causes", len(r.Causes)-i)
		}
		text += separator + cause.Summary
		if n := len(cause.Assets); n > 1 && cause.Example != cause.Root.Asset {
			text += fmt.Sprintf(" (%d wait for that)", n)
		}
	}
	return text
}

// mostToldInLine causes are told in the summary; all have their own.
const mostToldInLine = 2
