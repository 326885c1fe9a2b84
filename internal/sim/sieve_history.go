package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/virtual"
	"lehr.dev/internal/sim/world"
)

// sieveEdits make the intents of the history, each from the one before. What
// production is after one of them follows from that intent alone, also when
// those before it were never seen.
var sieveEdits = []struct {
	what string
	make func(*Intent)
}{
	{"cluster a grows", resize("a", 5)},
	{"cluster a shrinks, which destroys upstreams", resize("a", 2)},
	{"a version that needs another schema", func(i *Intent) {
		i.find("job/a").Text, i.find("job/a").Needs = "v2", "v2"
		i.find("schema/main").Text = "v2"
	}},
	{"cluster b has one left, which destroys upstreams", resize("b", 1)},
	{"record/mail is turned down", func(i *Intent) { i.find("record/mail").Turndown = true }},
	{"job/b is called job/b-1", func(i *Intent) { i.find("job/b").ID = "job/b-1" }},
	{"record/www says something else, and comes after the schema", func(i *Intent) {
		record := i.find("record/www")
		record.Text, record.After = "b", append(record.After, "schema/main")
	}},
	{"back to the first intent", func(i *Intent) { *i = firstIntent() }},
}

func resize(scope string, size int) func(*Intent) {
	return func(i *Intent) { i.find("job/"+scope).Count, i.find("balancer/"+scope).Count = size, size }
}

// sieveIntents are the first intent and what the edits make of it.
func sieveIntents() []Intent {
	list := []Intent{firstIntent()}
	for _, edit := range sieveEdits {
		next := list[len(list)-1].clone()
		edit.make(&next)
		list = append(list, next)
	}
	return list
}

// history is one run: what it did, and what production was at rest after each
// intent. It uses one Lab, once.
type history struct {
	options   SieveOptions
	of        SieveCase
	reference *history

	*Lab
	done []sieved
	// rests by intent; one that nobody was given time for has no production.
	rests  []rest
	counts map[Event]int
	struck bool
	// over: what comes now, while all is taken down, does not count.
	over bool
	// wrong says what broke the oracle.
	wrong   []string
	retries int
	// serving are the intents of which effects may be now.
	serving []int
}

// sieved is an effect of Lehr's, and the digest of the incarnation that asked
// for it.
type sieved struct {
	world.Effect
	root intent.Digest
	// serving as it was then.
	serving []int
}

// rest is production at rest.
type rest struct {
	root       intent.Digest
	production map[intent.ResourceKey]string
}

// unfold goes through the history.
func (h *history) unfold(ctx context.Context) error {
	l, err := newLab(ctx, Options{Seed: h.options.Seed, Trace: h.options.Trace})
	if err != nil {
		return err
	}
	defer l.close()
	h.Lab, h.counts, h.rests = l, map[Event]int{}, make([]rest, len(sieveEdits)+1)
	l.Scheduler.Hook = h.hook
	watched := l.World.OnEffect
	l.World.OnEffect = func(e world.Effect) {
		watched(e)
		h.noted(e)
	}
	h.live()
	h.over = true
	if h.of.Pattern == StaleState {
		h.struck = l.World.Struck()[world.DiffStale] > 0 || l.marks["store: news came late"] > 0
	}
	for _, v := range l.Monitor.Violations() {
		h.fail("%s: %s", v.Property, v.What)
	}
	for _, v := range l.found {
		h.fail("%s: %s", v.Property, v.What)
	}
	for _, panicked := range l.Panics() {
		h.fail("a panic that nothing contained: %s", panicked)
	}
	return ctx.Err()
}

// live brings about each intent and lets it come to rest.
func (h *history) live() {
	h.supervised = true
	h.Begin()
	h.assist()
	intents := sieveIntents()
	h.serving = []int{0}
	if !h.comesToRest(0) {
		return
	}
	for at := 1; at < len(intents); at++ {
		h.meddle(at - 1)
		if h.of.From == at {
			h.follow(intents)
			at = h.of.To
		} else {
			h.serving = []int{at}
			h.save(at, intents[at].clone(), sieveEdits[at-1].what)
		}
		if !h.comesToRest(at) {
			return
		}
	}
	h.quiet()
}

// follow writes the edits that nobody is to see one by one.
func (h *history) follow(intents []Intent) {
	h.struck = true
	if r := h.replica(); h.of.Down && r != nil {
		r.Kill("the edits come while it is down")
	}
	h.serving = []int{h.of.From - 1, h.of.To}
	for at := h.of.From; at <= h.of.To; at++ {
		if h.of.Gap > 0 && at < h.of.To {
			// It may be seen, and then may be served; that it is superseded
			// when it is not head any more is for the monitor to hold (S2).
			h.serving = append(h.serving, at)
		}
		h.save(at, intents[at].clone(), sieveEdits[at-1].what)
		if h.of.Gap > 0 {
			h.run(h.Now().Add(h.of.Gap))
		}
	}
	// So that what was seen too early is not taken for rest.
	h.run(h.Now().Add(20 * time.Second))
}

// comesToRest waits until an intent is served and enforced, and notes what
// production is then.
func (h *history) comesToRest(at int) bool {
	const look = 5 * time.Second
	for end := h.Now().Add(patience); ; {
		h.run(h.Now().Add(look))
		if h.failed() || h.ctx.Err() != nil {
			return false
		}
		root, open := h.open(at)
		if len(open) == 0 {
			h.tell("all is in sync")
			h.rests[at] = rest{root, h.production()}
			return true
		}
		if h.Now().After(end) {
			h.fail("intent %d does not come to rest within %s: %s", at, patience, strings.Join(open, "; "))
			return false
		}
	}
}

// open says what keeps an intent from rest, and the digest of head.
func (h *history) open(at int) (intent.Digest, []string) {
	partition, err := h.reading.Partition(h.ctx, h.partition)
	if err != nil || partition.Head.IsZero() {
		return intent.Digest{}, []string{"nothing is served"}
	}
	head, err := h.reading.Incarnation(h.ctx, partition.Head)
	if err != nil {
		return intent.Digest{}, []string{err.Error()}
	}
	served := at == 0 || head.Digest != h.rests[at-1].root
	if h.reference != nil {
		served = head.Digest == h.reference.rests[at].root
	}
	if !served {
		return head.Digest, []string{fmt.Sprintf("intent %d is not served: head is %s", at, partition.Head)}
	}
	return head.Digest, h.unsettled()
}

// quiet looks that nothing follows, and takes stock.
func (h *history) quiet() {
	before, last := len(h.done), len(h.rests)-1
	h.run(h.Now().Add(5 * time.Minute))
	if len(h.done) != before {
		h.fail("%d effects when all was at rest", len(h.done)-before)
	}
	h.meddle(last)
	h.rests[last].production = h.production()
	h.Monitor.End(h.ctx)
}

// meddle lets a test make production wrong behind Lehr's back.
func (h *history) meddle(at int) {
	if h.options.meddles != nil {
		h.options.meddles(h.Lab, at)
	}
}

// production is what exists.
func (h *history) production() map[intent.ResourceKey]string {
	there := map[intent.ResourceKey]string{}
	for _, r := range h.World.Resources() {
		if r.Exists {
			there[r.Key] = string(r.Type) + " " + string(r.Payload)
		}
	}
	return there
}

func (h *history) fail(format string, arguments ...any) {
	const most = 10
	if len(h.wrong) < most {
		h.wrong = append(h.wrong, fmt.Sprintf(format, arguments...))
	}
}

// hook counts commits and await points, and lets the disturbance come at one.
func (h *history) hook(p *virtual.Process, point string) virtual.Act {
	act := h.at(p, point)
	if h.options.breaks != nil {
		h.breakLinks()
	}
	strikes := false
	switch {
	case strings.Contains(p.Name(), "/"): // A plugin's.
		strikes = h.count(AtPluginPoint)
	case point == "store: after a commit":
		strikes = h.count(AtCommit)
		fallthrough
	default:
		strikes = h.count(AtPoint) || strikes
	}
	if strikes {
		act.Kill = h.strikes(p) || act.Kill
	}
	return act
}

// breakLinks puts the defect into links that have none yet.
func (h *history) breakLinks() {
	for _, r := range h.replicas {
		if r.link != nil && r.link.All == r.store {
			r.link.All = h.options.breaks(r.link.All)
		}
	}
}

// count one event, and say whether the disturbance comes after it.
func (h *history) count(event Event) bool {
	h.counts[event]++
	return h.of.Event == event && h.of.Number == h.counts[event]
}

// strikes does what the case says. It reports whether the process dies.
func (h *history) strikes(p *virtual.Process) bool {
	h.struck = true
	h.tell("%s", h.of)
	switch h.of.Pattern {
	case IntermediateState:
		if h.of.Orphans {
			p.Abandon()
		}
		return true
	case StaleState:
		h.becomeStale()
	case UnobservedState:
		h.blink()
	}
	return false
}

// noted keeps what Lehr did.
func (h *history) noted(e world.Effect) {
	if h.over || e.By != world.ByLehr || e.Refused != "" {
		return
	}
	of, err := h.reading.Incarnation(h.ctx, e.Incarnation)
	if err != nil {
		h.fail("effect %d is of %s, which cannot be read: %v", e.Number, e.Incarnation, err)
	}
	h.done = append(h.done, sieved{e, of.Digest, h.serving})
	if r := h.replica(); h.count(AtEffect) && r != nil && h.strikes(r.Process) {
		r.Kill(h.of.String())
	}
}

// becomeStale makes diffs, or news, old for a while.
func (h *history) becomeStale() {
	const lasts, many = time.Minute, 1000
	if h.of.Stale == News {
		h.store.lag, h.store.lagUntil = 15*time.Second, h.Now().Add(lasts)
		return
	}
	var types []intent.TypeName
	for _, class := range classes {
		if class.run == h.of.Stale {
			types = append(types, class.kind)
		}
	}
	for _, m := range h.headMembers() {
		if slices.Contains(types, m.Type) {
			h.World.Trouble(world.Trouble{Kind: world.DiffStale, Asset: m.Asset, Count: many, Seed: uint64(h.of.Number)})
		}
	}
	h.after(lasts, h.World.Heal)
}

// blink changes all jobs and at once changes them back.
func (h *history) blink() {
	for _, r := range h.World.Resources() {
		job := &processpb.Job{}
		if r.Type != "lehr.process.v1.Job" || !r.Exists || proto.Unmarshal(r.Payload, job) != nil {
			continue
		}
		if !h.World.Autoscale(r.Key, job.Replicas+1) || !h.World.Autoscale(r.Key, job.Replicas) {
			h.fail("%s cannot be changed and changed back", r.Key)
		}
	}
}
