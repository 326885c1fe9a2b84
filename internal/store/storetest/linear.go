package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Linear lets many clients take the lease of one partition, publish, pin,
// approve, reject, take that back, override, admit and close at once, through
// any of the stores, which share a database, while disturb does its worst. What each was answered must be what
// some order of all the calls would have answered, in which each lies between
// its begin and its end (Herlihy and Wing, 1990; checked as by Lowe, 2017). A
// call without an answer may have come to be, at any time after it, or never.
func Linear(t *testing.T, stores []store.All, disturb func(random *rand.Rand)) {
	t.Helper()
	const clients, calls = 6, 250
	s := stores[0]
	lease := Register(t, s)
	Publish(t, s, lease, []store.Entry{Text("base", "0")})
	partition, err := s.Partition(t.Context(), shop)
	if err != nil {
		t.Fatal(err)
	}
	h := &history{t: t, stores: stores, startedAt: time.Now()}
	h.lease.Store(lease)
	h.head.Store(uint64(partition.Head.Sequence))
	h.revision.Store(partition.Revision)
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), 1))
			for n := range calls {
				h.call(client, n, random)
			}
		})
	}
	done := make(chan struct{})
	var disturbing sync.WaitGroup
	disturbing.Go(func() {
		random := rand.New(rand.NewPCG(9, 9))
		for {
			select {
			case <-done:
				return
			default:
				disturb(random)
			}
		}
	})
	group.Wait()
	close(done)
	disturbing.Wait()
	first := ledger{epoch: lease.Epoch, head: uint64(partition.Head.Sequence), revision: partition.Revision}
	h.check(first)
}

// question is one call, and answer what came of it.
type question struct {
	kind           string
	epoch          uint64 // keysInForce the lease that it was made under
	base, revision uint64
	asset, push    string
	// person who says it, or whose rejection is taken back. expired: what is said
	// has ended when it is said.
	person  string
	expired bool
	// budget, people and lifted are what an admission asks for: a place, so many
	// approvals, and an override.
	budget, lifted bool
	people         int
}

// names of the question, by which its outcomes are counted.
func (q question) names() []string {
	names := []string{q.kind}
	if q.people > 1 {
		names = append(names, "admit by two")
	}
	if q.lifted {
		names = append(names, "admit by override")
	}
	return names
}

type answer struct {
	// outcome: ok, conflict, lost (nobody knows), or what it is refused for.
	outcome string
	number  uint64
}

// ledger is the state of the partition, as far as it is modelled.
type ledger struct {
	epoch, head, revision, pins uint64
	// open pushes by asset, and those of them that are in doubt and that use the
	// budget.
	open, doubt, used string
	// approved and rejected are by asset and person, lifted by asset, with how
	// that is.
	approved, rejected, lifted string
}

// How it is with what somebody said.
const inForce, hasEnded = "in force", "ended"

const budgetLimit = 1

type history struct {
	t         *testing.T
	stores    []store.All
	startedAt time.Time

	lease          atomic.Value // store.Lease
	head, revision atomic.Uint64

	mutex      sync.Mutex
	operations []porcupine.Operation
	outcomes   map[string]int
	// open are pushes to close.
	open []string
}

// call makes one call and writes down what came of it.
func (h *history) call(client, n int, random *rand.Rand) {
	s := h.stores[random.IntN(len(h.stores))]
	lease := h.lease.Load().(store.Lease)
	q := question{epoch: lease.Epoch, base: h.head.Load(), asset: fmt.Sprint("asset-", random.IntN(3))}
	q.kind = kinds[random.IntN(len(kinds))]
	q.person, q.expired = []string{"ann", "bob"}[random.IntN(2)], random.IntN(3) == 0
	switch q.kind {
	case "admit":
		q.budget, q.people, q.lifted = random.IntN(2) == 0, random.IntN(3), random.IntN(3) == 0
		// Others change what it rests on all the time: it is tried again.
		for again := range 3 {
			q.push = fmt.Sprintf("p-%d-%d-%d", client, n, again)
			h.perform(client, s, lease, question{kind: "read"})
			if q.revision = h.revision.Load(); h.perform(client, s, lease, q) != string(intent.WaitStale) {
				return
			}
		}
		return
	case "reject":
		q.expired = random.IntN(3) > 0 // Or hardly anything would be admitted.
	case "close":
		if q.push = h.anOpenPush(random); q.push == "" {
			return
		}
	}
	h.perform(client, s, lease, q)
}

// kinds of calls, as often as they are made.
var kinds = slices.Concat(
	slices.Repeat([]string{"admit", "close"}, 12), slices.Repeat([]string{"approve"}, 5), slices.Repeat([]string{"publish", "withdraw", "override"}, 2),
	[]string{"acquire", "pin", "reject"},
)

// perform puts a question, and writes down when, and the answer.
func (h *history) perform(client int, s store.All, lease store.Lease, q question) (outcome string) {
	start := time.Since(h.startedAt)
	a := h.ask(s, lease, q)
	h.note(client, start, q, a)
	return a.outcome
}

func (h *history) anOpenPush(random *rand.Rand) string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if len(h.open) == 0 {
		return ""
	}
	return h.open[random.IntN(len(h.open))]
}

func (h *history) ask(s store.All, lease store.Lease, q question) answer {
	ctx := h.t.Context()
	at := func(sequence uint64) intent.IncarnationID {
		return intent.IncarnationID{Partition: shop, Sequence: intent.Sequence(sequence)}
	}
	plan, asset, person := intent.Sum("test.plan", []byte(q.asset)), intent.AssetID(q.asset), intent.Actor{Name: q.person, Origin: "cli"}
	end := noon.Add(time.Nanosecond) // All admissions are of noon.
	if q.expired {
		end = noon
	}
	switch q.kind {
	case "acquire":
		acquired, err := s.Acquire(ctx, shop, fmt.Sprint("server-", rand.IntN(3)))
		if err == nil {
			h.lease.Store(acquired)
		}
		return outcome(err, acquired.Epoch)
	case "publish":
		published, err := s.Publish(ctx, lease, intent.Incarnation{ID: at(q.base + 1), Parent: at(q.base), Author: Tester})
		if err == nil {
			h.head.Store(uint64(published.ID.Sequence))
		}
		return outcome(err, uint64(published.ID.Sequence))
	case "pin":
		pin, err := s.SetPin(ctx, intent.Pin{Asset: "base", Incarnation: at(1), Rank: intent.RankPerson, Holder: Tester})
		return outcome(err, pin.Revision)
	case "approve":
		return outcome(s.Approve(ctx, intent.Approval{Partition: shop, Asset: asset, Effective: digestOf("x"), Plan: plan, By: person, Until: end}), 0)
	case "reject":
		return outcome(s.Reject(ctx, intent.Rejection{Partition: shop, Asset: asset, Effective: digestOf("x"), Plan: plan, By: person, Until: end}), 0)
	case "withdraw":
		return outcome(s.Withdraw(ctx, shop, asset, q.person, "over", Tester), 0)
	case "override":
		return outcome(s.Override(ctx, intent.Override{
			Partition: shop, Asset: asset, Effective: digestOf("x"), Check: "order", By: person, Reason: "blind", Until: end,
		}), 0)
	case "read":
		p, err := s.Partition(ctx, shop)
		if err == nil {
			h.revision.Store(p.Revision)
			h.head.Store(uint64(p.Head.Sequence))
		}
		return outcome(err, p.Revision)
	case "close":
		return outcome(s.ClosePushes(ctx, lease, []store.Closing{{Push: intent.PushID(q.push), Ending: "pushed", At: noon}}), 0)
	}
	admission := store.Admission{
		Push: intent.PushID(q.push), Asset: asset, Target: at(q.base), Effective: digestOf("x"), Plan: plan,
		Revision: q.revision, NeedsApproval: q.people > 0, Quorum: intent.Quorum{People: q.people}, At: noon,
	}
	if q.lifted {
		admission.Overrides = []string{"order"}
	}
	if q.budget {
		admission.Budgets = []store.BudgetUse{{Key: "cluster", Limit: budgetLimit}}
	}
	refusals, err := s.Admit(ctx, lease, []store.Admission{admission})
	if err == nil && refusals[0] != nil {
		if waiting := refusals[0].Waiting; strings.HasPrefix(waiting.Reason, "the override of the check") {
			return answer{outcome: notLifted}
		}
		return answer{outcome: string(refusals[0].Waiting.Kind)}
	}
	return outcome(err, 0)
}

// notLifted is an admission that was refused for its override, nothing a
// withdrawal of what nobody said.
const notLifted, nothing = "override", "nothing"

func outcome(err error, number uint64) answer {
	switch {
	case err == nil:
		return answer{"ok", number}
	case fault.Is(err, fault.Conflict):
		return answer{outcome: "conflict"}
	case fault.Is(err, fault.NotFound):
		return answer{outcome: nothing}
	case fault.Is(err, fault.Unavailable):
		return answer{outcome: "lost"}
	}
	return answer{outcome: err.Error()}
}

func (h *history) note(client int, start time.Duration, q question, a answer) {
	end := time.Since(h.startedAt)
	if a.outcome == "lost" {
		if q.kind == "read" {
			return
		}
		const never = 1000 * time.Hour
		end = never
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if q.kind == "admit" && (a.outcome == "ok" || a.outcome == "lost") {
		h.open = append(h.open, q.push)
	}
	if h.outcomes == nil {
		h.outcomes = map[string]int{}
	}
	for _, name := range q.names() {
		h.outcomes[name+": "+a.outcome]++
	}
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: q, Output: a, Call: int64(start), Return: int64(end)})
}

// check asks for an order.
func (h *history) check(first ledger) {
	h.t.Helper()
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{first} },
		Step: func(state, input, output any) []any {
			return state.(ledger).step(input.(question), output.(answer))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
	}
	const patience = 2 * time.Minute
	switch result, info := porcupine.CheckOperationsVerbose(model.ToModel(), h.operations, patience); result {
	case porcupine.Illegal:
		h.t.Errorf("no order of these %d calls answers as they were answered", len(h.operations))
		h.tell(info)
	case porcupine.Unknown:
		h.t.Errorf("no order was found within %s", patience)
	}
	h.t.Logf("%d calls: %v", len(h.operations), h.outcomes)
	for _, needed := range []string{
		"acquire: ok", "publish: ok", "publish: conflict", "pin: ok", "approve: ok", "admit: ok", "admit: stale", "admit: budget", "admit: approval", "admit: turn", "close: ok",
		"admit by two: ok", "admit by two: approval", "reject: ok", "admit: rejected", "withdraw: ok", "withdraw: nothing",
		"override: ok", "admit by override: ok", "admit by override: override",
	} {
		if h.outcomes[needed] == 0 {
			h.t.Errorf("no call came out as %q", needed)
		}
	}
}

// tell logs the longest order that was found, and what does not fit behind it.
func (h *history) tell(info porcupine.LinearizationInfo) {
	var longest []int
	for _, orders := range info.PartialLinearizations() {
		for _, order := range orders {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	h.t.Logf("of %d calls %d fit:", len(h.operations), len(longest))
	for _, at := range longest[max(0, len(longest)-20):] {
		h.t.Logf("   %s", h.line(h.operations[at]))
	}
	h.t.Log("then none of these:")
	for at, o := range h.operations {
		if !slices.Contains(longest, at) {
			h.t.Logf("   %s", h.line(o))
		}
	}
}

func (h *history) line(o porcupine.Operation) string {
	return fmt.Sprintf("client %d, %s to %s: %+v → %+v", o.ClientId, time.Duration(o.Call), time.Duration(o.Return), o.Input, o.Output)
}

// step returns what may be after a call that was answered so; nothing: it could
// not have been.
func (d ledger) step(q question, a answer) []any {
	next, want := d.apply(q)
	switch {
	case a.outcome == "lost":
		return []any{d, next} // Equal when the call changes nothing.
	case a != want:
		return nil
	}
	return []any{next}
}

// apply is the partition after a call, and the call's answer.
func (d ledger) apply(q question) (ledger, answer) {
	next := d
	current := q.epoch == d.epoch
	switch q.kind {
	case "acquire":
		next.epoch++
		next.doubt = d.open
		return next, answer{"ok", next.epoch}
	case "pin":
		next.pins++
		next.revision++
		return next, answer{"ok", next.pins}
	case "approve":
		next.approved = withPair(d.approved, q.approvalKey(), q.validity())
		next.revision++
		return next, answer{"ok", 0}
	case "reject":
		next.rejected = withPair(d.rejected, q.approvalKey(), q.validity())
		next.revision++
		return next, answer{"ok", 0}
	case "withdraw":
		if names(d.rejected)[q.approvalKey()] == "" {
			return d, answer{outcome: nothing}
		}
		next.rejected = withoutKeys(d.rejected, q.approvalKey())
		next.revision++
		return next, answer{"ok", 0}
	case "override":
		next.lifted = withPair(d.lifted, q.asset, q.validity())
		next.revision++
		return next, answer{"ok", 0}
	case "read":
		return next, answer{"ok", d.revision}
	case "publish":
		if !current || q.base != d.head {
			return d, answer{outcome: "conflict"}
		}
		next.head++
		next.revision++
		return next, answer{"ok", next.head}
	case "close":
		if !current {
			return d, answer{outcome: "conflict"}
		}
		next.open, next.doubt, next.used = withoutValue(d.open, q.push), withoutValue(d.doubt, q.push), withoutValue(d.used, q.push)
		return next, answer{"ok", 0}
	}
	switch {
	case !current:
		return d, answer{outcome: "conflict"}
	case q.revision != d.revision:
		return d, answer{outcome: string(intent.WaitStale)}
	case names(d.doubt)[q.asset] != "":
		return d, answer{outcome: string(intent.WaitSettling)}
	case names(d.open)[q.asset] != "":
		return d, answer{outcome: string(intent.WaitTurn)}
	case len(keysInForce(d.rejected, q.asset)) > 0:
		return d, answer{outcome: string(intent.WaitRejected)}
	case q.lifted && names(d.lifted)[q.asset] != inForce:
		return d, answer{outcome: notLifted}
	case q.budget && len(names(d.used)) >= budgetLimit:
		return d, answer{outcome: string(intent.WaitBudget)}
	case len(keysInForce(d.approved, q.asset)) < q.people:
		return d, answer{outcome: string(intent.WaitApproval)}
	}
	next.open = withPair(d.open, q.asset, q.push)
	if q.budget {
		next.used = withPair(d.used, q.asset, q.push)
	}
	if q.people > 0 {
		next.approved = withoutKeys(d.approved, keysInForce(d.approved, q.asset)...)
	}
	return next, answer{"ok", 0}
}

// approvalKey is by which key it is known what a person said of an asset's plan.
func (q question) approvalKey() string { return q.asset + "/" + q.person }

func (q question) validity() string {
	if q.expired {
		return hasEnded
	}
	return inForce
}

// keysInForce lists the keys of what is in force of an asset.
func keysInForce(encoded, asset string) (keys []string) {
	for key, validity := range names(encoded) {
		if strings.HasPrefix(key, asset+"/") && validity == inForce {
			keys = append(keys, key)
		}
	}
	return keys
}

// Sets of pairs as text, for states are compared: "asset=push;asset=push".

func names(encoded string) map[string]string {
	pairs := map[string]string{}
	for pair := range strings.SplitSeq(encoded, ";") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			pairs[key] = value
		}
	}
	return pairs
}

func text(pairs map[string]string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		list = append(list, key+"="+pairs[key])
	}
	return strings.Join(list, ";")
}

func withPair(encoded, key, value string) string {
	pairs := names(encoded)
	pairs[key] = value
	return text(pairs)
}

// withoutKeys leaves out keys.
func withoutKeys(encoded string, keys ...string) string {
	pairs := names(encoded)
	maps.DeleteFunc(pairs, func(key, _ string) bool { return slices.Contains(keys, key) })
	return text(pairs)
}

// withoutValue leaves out what has the value.
func withoutValue(encoded, value string) string {
	pairs := names(encoded)
	maps.DeleteFunc(pairs, func(_, v string) bool { return v == value })
	return text(pairs)
}
