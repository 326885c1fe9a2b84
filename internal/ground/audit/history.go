package audit

import (
	"fmt"
	"maps"
	"sort"
	"time"

	"lehr.dev/internal/ground/intent"
)

// history holds one chain to the rules that its records tell of. What it needs
// is in the records before, for a chain begins with its partition.
type history struct {
	partition intent.PartitionID
	// stops are those of all partitions together, in their order, of so many
	// records. In the chain that they are of, they are gathered.
	stops      []standstill
	all        uint64
	registered bool
	stopped    bool
	epoch      uint64
	holder     string
	head       intent.Sequence
	// revision of the partition that was admitted at last, revision of the last
	// pin, and the last record of all partitions that an admission saw.
	revision, pin, global uint64
	// open pushes by asset, and under which epoch each was admitted, and approvals that may
	// be used, with their ends.
	open      map[string]intent.PushID
	epochs    map[intent.PushID]uint64
	approvals map[approval]time.Time
	// old counts records of before version 2, which say less.
	old int
}

// standstill is a stop or resume of all partitions.
type standstill struct {
	record  uint64
	stopped bool
}

// approval is of a plan of an asset's content.
type approval struct{ asset, plan, content, approver string }

func newHistory(partition intent.PartitionID, stops []standstill, all uint64) *history {
	return &history{
		partition: partition, stops: stops, all: all,
		open: map[string]intent.PushID{}, epochs: map[intent.PushID]uint64{}, approvals: map[approval]time.Time{},
	}
}

// next takes up a record, and says what should never have come about.
func (h *history) next(r intent.AuditRecord) (wrong []string) {
	say := func(form string, arguments ...any) { wrong = append(wrong, fmt.Sprintf(form, arguments...)) }
	switch r.Verb {
	case "add-partition":
		h.registered = true
	case "remove-partition":
		h.registered, h.holder = false, ""
	case "release":
		h.holder = ""
	case "acquire":
		epoch := epochIn(acquired, r.Detail)
		if epoch <= h.epoch {
			say("epoch %d follows epoch %d, and epochs only grow (S4)", epoch, h.epoch)
		}
		h.epoch, h.holder = max(h.epoch, epoch), r.By.Name
	case "publish":
		h.publish(r, say)
	case "pin":
		h.pinned(r, say)
	case "stop", "resume":
		h.brake(r, say)
	case "approve":
		if a, well := ParseApproved(r.Detail); well {
			h.approvals[approval{r.Subject, a.Plan, a.Content, r.By.Name}] = a.Until
		} else {
			say("it does not say what was approved")
		}
	case "void":
		if a, well := ParseApproved(r.Detail); well {
			h.forget(r.Subject, a)
		}
	case "admit":
		h.admit(r, say)
	case "close", "doubt":
		h.end(r, say)
	case "memo":
		h.remember(r, say)
	}
	return wrong
}

type saying func(form string, arguments ...any)

func (h *history) publish(r intent.AuditRecord, say saying) {
	id, err := intent.ParseIncarnationID(r.Subject)
	if err != nil || id.Sequence != h.head+1 {
		say("head was %d, and the next incarnation is its successor (S16)", h.head)
	}
	h.head = max(h.head, id.Sequence)
	if epoch := epochIn(published, r.Detail); epoch != h.epoch {
		say("it was published under epoch %d, and the epoch was %d (S4)", epoch, h.epoch)
	}
}

func (h *history) pinned(r intent.AuditRecord, say saying) {
	p, well := ParsePinned(r.Detail)
	switch {
	case !well:
		say("it does not say what the asset was pinned to")
	case p.Revision == 0:
		h.old++
	case p.Revision <= h.pin:
		say("its revision is %d, after %d, and pins move forward (S16)", p.Revision, h.pin)
	}
	h.pin = max(h.pin, p.Revision)
	if p.Incarnation.Sequence > h.head {
		say("%s was not published yet", p.Incarnation)
	}
}

// brake: in a partition's chain stand its own stops only.
func (h *history) brake(r intent.AuditRecord, say saying) {
	stop := r.Verb == "stop"
	if h.stopped == stop {
		say("it was %s already", map[bool]string{true: "stopped", false: "going on"}[stop])
	}
	h.stopped = stop
	if h.partition == "" {
		h.stops = append(h.stops, standstill{r.Number, stop})
	}
}

// stoppedAt reports whether all partitions were, after so many records of all.
func (h *history) stoppedAt(global uint64) bool {
	next := sort.Search(len(h.stops), func(i int) bool { return h.stops[i].record > global })
	return next > 0 && h.stops[next-1].stopped
}

func (h *history) admit(r intent.AuditRecord, say saying) {
	a, well := ParseAdmitted(r.Detail)
	if !well {
		say("it does not say what was admitted")
		return
	}
	if !h.registered {
		say("the partition was not registered")
	}
	if h.stopped {
		say("the partition was stopped (S18)")
	}
	if openPush, open := h.open[r.Subject]; open {
		say("push %s was admitted while push %s of the asset was open (S3)", a.Push, openPush)
	}
	h.open[r.Subject], h.epochs[a.Push] = a.Push, a.Epoch
	if a.Target.Partition != h.partition || a.Target.Sequence > h.head {
		say("%s was not published yet (S2)", a.Target)
	}
	if a.Approved {
		h.consume(r, a, say)
	}
	if r.Version < Version {
		h.old++
		return
	}
	if a.Epoch != h.epoch || r.By.Name != h.holder {
		say("it was admitted by %s under epoch %d, and %q held epoch %d (S4)", r.By.Name, a.Epoch, h.holder, h.epoch)
	}
	if a.Revision < h.revision {
		say("it rests on revision %d of the partition, after one that rested on %d (S2)", a.Revision, h.revision)
	}
	if a.Global < h.global {
		say("it saw %d records of all partitions, after one that saw %d", a.Global, h.global)
	}
	if a.Global > h.all {
		say("it saw %d records of all partitions, and only %d are there", a.Global, h.all)
	}
	if h.stoppedAt(a.Global) {
		say("all partitions were stopped (S18)")
	}
	h.revision, h.global = max(h.revision, a.Revision), max(h.global, a.Global)
}

// forget takes away the approvals of a plan, by all where nobody is named.
func (h *history) forget(asset string, reference Approved) {
	maps.DeleteFunc(h.approvals, func(key approval, _ time.Time) bool {
		return key.asset == asset && key.plan == reference.Plan && key.content == reference.Content && (reference.By == "" || reference.By == key.approver)
	})
}

// consume uses approvals, once, and before they end (S9).
func (h *history) consume(r intent.AuditRecord, a Admitted, say saying) {
	approvers := a.Approvers
	if len(approvers) == 0 { // Before version 2 there was one, of whoever gave it.
		approvers = h.approversOf(r.Subject, a)
	}
	if len(approvers) == 0 {
		say("it used an approval of plan %s that nobody had given, or that was used or void (S9)", a.Plan)
	}
	for _, approver := range approvers {
		end, ok := h.approvals[approval{r.Subject, a.Plan, a.Content, approver}]
		switch {
		case !ok:
			say("it used an approval of plan %s by %s that was not given, or that was used or void (S9)", a.Plan, approver)
		case !end.IsZero() && !r.At.Before(end):
			say("it used an approval of plan %s by %s that ended at %s (S9)", a.Plan, approver, end.Format(time.RFC3339))
		}
		h.forget(r.Subject, Approved{By: approver, Plan: a.Plan, Content: a.Content})
	}
}

// approversOf lists who approved what an admission carries.
func (h *history) approversOf(asset string, a Admitted) (list []string) {
	for key := range h.approvals {
		if key.asset == asset && key.plan == a.Plan && key.content == a.Content {
			list = append(list, key.approver)
		}
	}
	return list
}

// remember: a memo is of the open push of its asset, admitted under the epoch of now.
func (h *history) remember(r intent.AuditRecord, say saying) {
	m, well := ParseRemembered(r.Detail)
	switch {
	case !well:
		say("it does not say which push it is of")
	case h.open[r.Subject] != m.Push:
		say("push %s was not open: it was never admitted, or had ended (S3)", m.Push)
	case h.epochs[m.Push] != h.epoch:
		say("push %s was admitted under epoch %d, and the epoch was %d (S4)", m.Push, h.epochs[m.Push], h.epoch)
	case r.By.Name != h.holder:
		say("it was set by %s, and %q held epoch %d (S4)", r.By.Name, h.holder, h.epoch)
	}
}

// end: a push that was admitted ends once.
func (h *history) end(r intent.AuditRecord, say saying) {
	e, well := ParseEnded(r.Detail)
	if !well {
		say("it does not say which push")
		return
	}
	if h.open[r.Subject] != e.Push {
		say("push %s was not open: it was never admitted, or had ended (S3)", e.Push)
		return
	}
	if r.Verb == "close" {
		delete(h.open, r.Subject)
		delete(h.epochs, e.Push)
	}
}
