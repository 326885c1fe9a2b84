package nemesis

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/pluginhost/plugin"
)

// judge holds a history to every property.
func judge(h *history) []violation {
	var v verdicts
	for _, property := range properties {
		property(h, &v)
	}
	return v
}

var properties = []func(*history, *verdicts){
	admitted, targets, late, exclusive, fenced, kept, budgets, approved, acknowledged,
	monotone, collected, stops, orphaned, takenOver, converged,
}

// admitted: S1. Each effect has one durable admission before it, of its asset,
// epoch, incarnation and plan, recorded in the audit (S25).
func admitted(h *history, v *verdicts) {
	journal, audited := map[string]admission{}, map[string]int{}
	for _, a := range h.Journal {
		if _, ok := journal[a.Push]; ok {
			v.add("S1", "push %s was admitted twice", a.Push)
		}
		journal[a.Push] = a
	}
	for _, records := range h.Audit {
		for _, r := range records {
			if r.Verb == "admit" {
				audited[pushOf(r)]++
			}
		}
	}
	for _, e := range h.Effects {
		a, ok := journal[e.Push]
		switch {
		case !ok:
			v.add("S1", "nothing was admitted for %s", e)
		case a.Partition != e.Partition || a.Asset != e.Asset || a.Plan != e.Plan || a.Epoch != e.Token:
			v.add("S1", "%s is not what was admitted: %+v", e, a)
		case a.At > e.At+h.Drift:
			v.add("S1", "%s was admitted only at %s", e, a.At)
		}
		if audited[e.Push] != 1 {
			v.add("S25", "the audit has %d admissions for %s", audited[e.Push], e)
		}
	}
}

// targets: S2, by the order of the audit: what is admitted is what the asset
// was to follow at that very moment, and what is pushed is its content.
func targets(h *history, v *verdicts) {
	for partition, records := range h.Audit {
		head, pins := uint64(0), map[string]uint64{}
		for _, r := range records {
			switch r.Verb {
			case "publish":
				head = sequenceOf(r.Subject)
			case "pin":
				pins[r.Subject] = sequenceOf(r.Argument)
			case "unpin":
				delete(pins, r.Subject)
			case "admit":
				want := head
				if pin, ok := pins[r.Subject]; ok {
					want = pin
				}
				if got := sequenceOf(r.Argument); got != want {
					v.add("S2", "%s/%s was admitted at incarnation %d when it followed %d: record %d", partition, r.Subject, got, want, r.Number)
				}
			}
		}
	}
	journal := h.admissions()
	for _, e := range h.happened() {
		want, there, known := h.at(e.name(), e.Incarnation)
		switch {
		case e.Incarnation != journal[e.Push].Target:
			v.add("S2", "%s was admitted for incarnation %d", e, journal[e.Push].Target)
		case known && !there:
			v.add("S5", "%s, though the incarnation does not have the asset", e)
		case known && e.Last && !e.After.Gone && (e.After.Value != want.Value || e.After.Disk != want.Disk):
			v.add("S2", "%s, though the incarnation says %+v", e, want)
		}
	}
}

// late: S2 and S4. What was superseded, by newer intent or by another holder
// of the lease, has no effect after D + E.
func late(h *history, v *verdicts) {
	for partition, records := range h.Audit {
		// superseded is since when an incarnation is not head; taken since when
		// there is an epoch.
		superseded, taken := map[uint64]time.Duration{}, map[uint64]time.Duration{}
		pinned := map[string][]uint64{}
		for _, r := range records {
			switch r.Verb {
			case "publish":
				superseded[sequenceOf(r.Subject)-1] = r.Seen
			case "acquire":
				epoch, _ := strconv.ParseUint(strings.TrimPrefix(r.Argument, "epoch "), 10, 64)
				taken[epoch] = r.Seen
			case "pin":
				pinned[r.Subject] = append(pinned[r.Subject], sequenceOf(r.Argument))
			}
		}
		for _, e := range h.happened() {
			if e.Partition != partition || e.excused() {
				continue
			}
			if at, ok := taken[e.Token+1]; ok && e.At > at+cease {
				v.add("S4", "%s, %s after epoch %d began", e, e.At-at, e.Token+1)
			}
			if len(pinned[e.Asset]) > 0 {
				continue // What a pin asks for may be older than head.
			}
			if at, ok := h.changed(e.name(), e.Incarnation, superseded); ok && e.At > at+cease {
				v.add("S2", "%s, %s after its content was superseded", e, e.At-at)
			}
		}
	}
}

// changed is when the content that an incarnation has for an asset was not the
// newest any more.
func (h *history) changed(name string, incarnation uint64, superseded map[uint64]time.Duration) (time.Duration, bool) {
	for _, version := range h.Contents[name] {
		if version.From > incarnation {
			at, ok := superseded[version.From-1]
			return at, ok
		}
	}
	return 0, false
}

// exclusive: S3. Effects of one asset's pushes never overlap, and their epochs
// never go back. A target of class N cannot refuse what outlived its plugin.
func exclusive(h *history, v *verdicts) {
	first, last := map[string]int{}, map[string]int{}
	byAsset := map[string][]effect{}
	for _, e := range h.happened() {
		if e.Class == plugin.Unguarded && e.excused() {
			continue
		}
		byAsset[e.name()] = append(byAsset[e.name()], e)
	}
	for _, effects := range byAsset {
		clear(first)
		clear(last)
		for at, e := range effects {
			if _, ok := first[e.Push]; !ok {
				first[e.Push] = at
			}
			last[e.Push] = at
			if at > 0 && e.Token < effects[at-1].Token {
				v.add("S3", "%s came after epoch %d had acted", e, effects[at-1].Token)
			}
		}
		for at, e := range effects {
			for push, begun := range first {
				if push != e.Push && begun < at && at < last[push] {
					v.add("S3", "%s came in the middle of push %s", e, push)
				}
			}
		}
	}
}

// fenced: S4 at the targets. One of class F takes no lower token than it has
// seen, one of class C changes no other version than the one that was read.
func fenced(h *history, v *verdicts) {
	token, made := map[string]uint64{}, map[string]uint64{}
	for _, e := range h.happened() {
		switch e.Class {
		case plugin.Fenced:
			if e.Token < token[e.name()] {
				v.add("S4", "%s changed a fenced target that had seen epoch %d", e, token[e.name()])
			}
		case plugin.CompareAndSet:
			if e.Before.Version != made[e.name()] {
				v.add("S4", "%s changed version %d, but the newest was %d", e, e.Before.Version, made[e.name()])
			}
		}
		token[e.name()] = max(token[e.name()], e.Token)
		made[e.name()] = e.After.Version
	}
}

// kept: S5. Nothing is removed that no Turndown asks to be removed.
func kept(h *history, v *verdicts) {
	for _, e := range h.happened() {
		if want, there, known := h.at(e.name(), e.Incarnation); e.removes() && known && (!there || !want.Turndown) {
			v.add("S5", "%s removed what no Turndown asks for", e)
		}
	}
}

// budgets: S8, for effects. No more pushes of a site have effects at one time
// than the budget says.
func budgets(h *history, v *verdicts) {
	type span struct{ from, to time.Duration }
	spans, site := map[string]span{}, map[string]string{}
	for _, e := range h.happened() {
		if e.excused() {
			continue
		}
		s, ok := spans[e.Push]
		if !ok {
			s.from = e.At
		}
		s.to = e.At
		spans[e.Push] = s
		want, _, _ := h.at(e.name(), e.Incarnation)
		site[e.Push] = e.Partition + ": " + want.Site
	}
	pushes := slices.SortedFunc(maps.Keys(spans), func(a, b string) int { return cmp.Compare(spans[a].from, spans[b].from) })
	running := map[string][]string{}
	for _, push := range pushes {
		at := site[push]
		running[at] = slices.DeleteFunc(running[at], func(other string) bool { return spans[other].to < spans[push].from })
		if running[at] = append(running[at], push); len(running[at]) > h.InFlight {
			v.add("S8", "%d pushes of %s were at work at %s: %s", len(running[at]), at, spans[push].from, strings.Join(running[at], " "))
		}
	}
}

// approved: S9. What destroys something was admitted with an approval that a
// person gave for that very plan, used once.
func approved(h *history, v *verdicts) {
	// left are approvals that were given and not used, by asset and plan.
	with := map[string]bool{}
	for partition, records := range h.Audit {
		left := map[string]int{}
		for _, r := range records {
			plan := partition + "/" + r.Subject + " " + planOf(r)
			switch {
			case r.Verb == "approve":
				left[plan] = 1 // Approving again renews the one.
			case r.Verb == "void":
				delete(left, plan)
			case r.Verb == "admit" && strings.Contains(r.Argument, "approved by "):
				if left[plan]--; left[plan] < 0 {
					v.add("S9", "record %d of %s admits %s with an approval that was used, or never given", r.Number, partition, r.Subject)
				}
				with[pushOf(r)] = true
			}
		}
	}
	for _, e := range h.happened() {
		if e.destroys() && !with[e.Push] {
			v.add("S9", "%s destroyed something without an approval", e)
		}
	}
}

// acknowledged: S14. What a person was told is done is in the audit, and the
// tables hold what the audit comes to.
func acknowledged(h *history, v *verdicts) {
	said := map[string]string{}
	pins, holds := map[string]bool{}, map[string]bool{}
	for partition, records := range h.Audit {
		for at, r := range records {
			if r.Number != uint64(at+1) {
				v.add("S14", "the audit of %q lacks record %d", partition, at+1)
				break
			}
			said[r.By+" "+r.Verb] = partition
			switch name := partition + "/" + r.Subject; r.Verb {
			case "pin":
				pins[name] = true
			case "unpin":
				delete(pins, name)
			case "hold":
				holds[name] = true
			case "unhold":
				delete(holds, name)
			}
		}
	}
	for _, c := range h.Calls {
		if partition, ok := said[c.By+" "+c.Verb]; c.Done && (!ok || partition != c.Partition) {
			v.add("S14", "%s was answered at %s and is nowhere: %+v", c.Verb, c.Answered, c)
		}
	}
	if !maps.Equal(pins, h.Pins) {
		v.add("S14", "the audit comes to the pins %v, the table has %v", pins, h.Pins)
	}
	if !maps.Equal(holds, h.Holds) {
		v.add("S14", "the audit comes to the holds %v, the table has %v", holds, h.Holds)
	}
}

// monotone: S15 and S16. Epochs and incarnations only grow, nothing that a
// target saw is above what the database knows, no push id comes twice, and
// later pins have higher revisions.
func monotone(h *history, v *verdicts) {
	for partition, records := range h.Audit {
		var epoch, head uint64
		for _, r := range records {
			switch r.Verb {
			case "acquire":
				next, _ := strconv.ParseUint(strings.TrimPrefix(r.Argument, "epoch "), 10, 64)
				if next <= epoch {
					v.add("S15", "epoch %d of %s came after epoch %d", next, partition, epoch)
				}
				epoch = next
			case "publish":
				next := sequenceOf(r.Subject)
				if next != head+1 {
					v.add("S15", "incarnation %d of %s came after %d", next, partition, head)
				}
				head = next
			}
		}
	}
	asset := map[string]string{}
	for _, e := range h.Effects {
		if e.Token > h.Epochs[e.Partition] || e.Incarnation > h.Heads[e.Partition] {
			v.add("S15", "%s, but the database is at epoch %d and incarnation %d", e, h.Epochs[e.Partition], h.Heads[e.Partition])
		}
		if of := e.name() + " " + strconv.FormatUint(e.Token, 10); asset[e.Push] != "" && asset[e.Push] != of {
			v.add("S15", "push %s is of %s and of %s", e.Push, asset[e.Push], of)
		} else {
			asset[e.Push] = of
		}
	}
	var pins []call
	for _, c := range h.Calls {
		if c.Verb != "pin" || !c.Done {
			continue
		}
		for _, before := range pins {
			if before.Partition == c.Partition && before.Answered < c.Asked && before.Revision >= c.Revision {
				v.add("S16", "pin %+v came after %+v", c, before)
			}
		}
		pins = append(pins, c)
	}
}

// collected: S17. What was pushed was in the store while it was, and what is
// live is there.
func collected(h *history, v *verdicts) {
	for _, missing := range h.Missing {
		v.add("S17", "the store does not have what %s names", missing)
	}
	for _, e := range h.happened() {
		if _, ok := h.Contents[e.name()]; !ok {
			v.add("S17", "the store has nothing of %s", e)
		}
	}
}

// stops: S18. After a stop was answered nothing is admitted, and effects cease
// within D + E.
func stops(h *history, v *verdicts) {
	for partition, records := range h.Audit {
		on := uint64(0)
		for _, r := range records {
			switch {
			case r.Verb == "stop":
				on = r.Number
			case r.Verb == "resume":
				on = 0
			case r.Verb == "admit" && on > 0:
				v.add("S18", "record %d of %s admits a push of %s, and record %d stopped it", r.Number, partition, r.Subject, on)
			}
		}
	}
	for _, s := range h.Stops {
		for _, a := range h.Journal {
			if s.binds(a.Partition, a.Life) && a.At > s.From+h.Drift && a.At < s.To-h.Drift {
				v.add("S18", "push %s of %s/%s was admitted at %s, %s after the stop", a.Push, a.Partition, a.Asset, a.At, a.At-s.From)
			}
		}
		for _, e := range h.happened() {
			if s.binds(e.Partition, e.Life) && !e.excused() && e.At > s.From+cease && e.At < s.To {
				v.add("S18", "%s, %s after the stop", e, e.At-s.From)
			}
		}
	}
}

// binds reports whether a replica's life must keep to the stop in a partition.
func (s stopped) binds(partition, life string) bool {
	return (s.Partition == "" || s.Partition == partition) && (s.Life == "" || s.Life == life)
}

// orphaned: the children of a dead replica stop within D.
func orphaned(h *history, v *verdicts) {
	for _, e := range h.happened() {
		if at, died := h.Deaths[e.Life]; died && e.At > at+plugin.PermitPeriod {
			v.add("S4", "%s, %s after its replica died", e, e.At-at)
		}
	}
}

// takenOver: L5. Others act for what a replica had, in time.
func takenOver(h *history, v *verdicts) {
	for _, t := range h.Takeovers {
		if t.Took-t.Stalled > t.Promised {
			v.add("L5", "after %s at %s nobody acted for %s for %s (the machine stood still, or kept the others from running, for %s of it), promised is %s", t.Fault, t.At, t.Partition, t.Took, t.Stalled, t.Promised)
		}
	}
}

// converged: L1, L6, L7. When faults and edits have ended, production becomes
// as wanted without anybody's repair, and stays; no push remains open.
func converged(h *history, v *verdicts) {
	if h.Settled == 0 {
		v.add("L1", "production did not become as wanted within %s of the end of all faults", (h.Ended - h.Healed).Round(time.Second))
	}
	for name, want := range h.Wanted {
		has, ok := h.Has[name]
		switch gone := !ok || has.Gone; {
		case want.Turndown != gone, !gone && (has.Value != want.Value || has.Disk != want.Disk):
			v.add("L1", "%s is %+v in the end, should be %+v", name, has, want)
		}
	}
	for _, e := range h.Effects {
		if h.Settled > 0 && e.At > h.Settled {
			v.add("L1", "%s, though all was in sync", e)
		}
	}
	for _, a := range h.Journal {
		if a.Open {
			v.add("L6", "push %s of %s/%s is open in the end", a.Push, a.Partition, a.Asset)
		}
	}
}

// pushOf is the push that a record of an admission names.
func pushOf(r record) string {
	words := strings.Fields(r.Argument)
	if len(words) < 2 {
		return ""
	}
	return words[1]
}

// sequenceOf is the sequence of the first incarnation that a text names.
func sequenceOf(text string) uint64 {
	_, rest, _ := strings.Cut(text, "@")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	sequence, _ := strconv.ParseUint(rest[:end], 10, 64)
	return sequence
}

// planOf is the plan that a record names.
func planOf(r record) string {
	_, rest, _ := strings.Cut(r.Argument, "plan ")
	plan, _, _ := strings.Cut(rest, " ")
	return strings.TrimRight(plan, ",;:")
}
