package enforcer

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/pushlog"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

const (
	shop        intent.PartitionID = "shop"
	commandType intent.TypeName    = "lehr.command.v1.Command"
	jobType     intent.TypeName    = "lehr.process.v1.Job"
)

// tester does all but write what is published, which is author's.
var (
	tester = intent.Actor{Name: "tester", Origin: "test"}
	author = intent.Actor{Name: "author", Origin: "test"}
)

// world is a partition, its store and a production that a test can break, in
// virtual time.
type world struct {
	t     *testing.T
	ctx   context.Context
	store *sqlite.Store
	lease store.Lease
	// since is the first epoch of the process; 0: each start is another one.
	since      uint64
	production *production
	// other serves what is bound to the program of that name.
	other *production
	// hinting takes the place of production; nil: it gives no hints. alter changes the
	// options of each enforcer.
	hinting  *hintingProduction
	alter    []func(*Options)
	enforcer *Enforcer
	limits   Limits
	pushLog  pushlog.Book
	runtime  loop.Runtime
	// stores is what the enforcer is given for the store.
	stores Stores
	// outside answers checks; nil: nobody does.
	outside func(context.Context, check.Question) (check.Answer, error)
	policy  *intentpb.Policy
	// sources of what is published next.
	sources []intent.SourceRevision
	// undone: what is published next only undoes edits.
	undone bool
	base   map[intent.AssetID]intent.Member
	head   intent.IncarnationID
	stop   func() error
}

// simulate runs a test in a bubble of virtual time.
func simulate(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db, err := sqlite.Memory()
		if err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Open(ctx, sqlite.Options{DB: db, Log: quietLog()})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{
			t: t, ctx: ctx, store: s, stores: s, limits: DefaultLimits(), runtime: loop.Real(), base: map[intent.AssetID]intent.Member{},
			policy: &intentpb.Policy{
				Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE,
				Plugins: []*intentpb.PluginBinding{
					{Type: string(commandType), Run: []string{"fake"}},
					{Type: string(jobType), Run: []string{"fake"}},
				},
			},
		}
		w.production, w.other = newProduction(s), newProduction(s)
		w.must(s.AddPartition(ctx, shop, "/shop/lehr.yaml", "a try", tester))
		w.start()
		defer func() {
			w.stop()
			s.Close()
			db.Close()
		}()
		test(w)
	})
}

func quietLog() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// start runs an enforcer under a new lease.
func (w *world) start() {
	w.t.Helper()
	lease, err := w.store.Acquire(w.ctx, shop, "test")
	w.must(err)
	w.lease = lease
	since := w.since
	if since == 0 {
		since = lease.Epoch
	}
	options := Options{
		Partition: shop, Since: since, Store: w.stores, Runtime: w.runtime, Log: quietLog(), Limits: w.limits, PushLog: &w.pushLog,
		Plugins: func(binding *intentpb.PluginBinding) plugin.Plugin {
			if slices.Equal(binding.Run, []string{"other"}) {
				return w.other
			}
			if w.hinting != nil {
				return w.hinting
			}
			return w.production
		},
		Outside: w.outside,
	}
	for _, alter := range w.alter {
		alter(&options)
	}
	w.enforcer = New(options)
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	running := w.enforcer
	go func() { ended <- running.Run(ctx, lease) }()
	w.stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// gate holds up whoever comes to a point, once it is shut, until it opens.
type gate struct {
	loop.Runtime
	mu    sync.Mutex
	point string
	open  chan struct{}
}

func (g *gate) Point(name string) {
	g.mu.Lock()
	open := g.open
	if name != g.point {
		open = nil
	}
	g.mu.Unlock()
	if open != nil {
		<-open
	}
}

// shut closes the gate at a point and returns what opens it for good.
func (g *gate) shut(point string) (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.point, g.open = point, make(chan struct{})
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		close(g.open)
		g.open = nil
	})
}

// gated starts the enforcer anew, on a runtime with a gate.
func (w *world) gated() *gate {
	g := &gate{Runtime: loop.Real()}
	w.restart(func() { w.runtime = g })
	return g
}

// restart ends the enforcer, changes something, and starts the next.
func (w *world) restart(change func()) {
	w.t.Helper()
	w.stop()
	change()
	w.start()
}

// owned does something on the goroutine that owns the enforcer's state.
func (w *world) owned(do func(*Enforcer)) {
	done := make(chan struct{})
	w.enforcer.inbox.Put(func() {
		defer close(done)
		do(w.enforcer)
	})
	<-done
}

// wake has an asset looked at now.
func (w *world) wake(id intent.AssetID) {
	w.enforcer.inbox.Put(func() { w.enforcer.soon(w.enforcer.assets[id], loop.Fresh) })
}

// thing is an asset whose content is one word, or a job.
type thing struct {
	id     intent.AssetID
	word   string
	job    *processpb.Job
	addons []proto.Message
}

// publish makes an incarnation of exactly these things and the policy.
func (w *world) publish(things ...thing) {
	w.t.Helper()
	set := schema.Builtin()
	assets := []intent.Asset{w.asset(intent.PolicyAsset, w.policy)}
	for _, thing := range things {
		var payload proto.Message = &commandpb.Command{Diff: []string{"diff"}, Push: []string{"push"}, Input: thing.word}
		if thing.job != nil {
			payload = thing.job
		}
		assets = append(assets, w.asset(thing.id, payload, thing.addons...))
	}
	next := map[intent.AssetID]intent.Member{}
	var delta []store.Entry
	for _, asset := range assets {
		body, digest, err := set.Encode(asset)
		w.must(err)
		references, err := set.References(asset)
		w.must(err)
		fields, err := set.Fields(asset)
		w.must(err)
		member := intent.Member{Asset: asset.ID, Type: asset.Payload.Type, Digest: digest, Effective: digest}
		next[asset.ID] = member
		if w.base[asset.ID].Digest != digest {
			delta = append(delta, store.Entry{Asset: asset.ID, Member: member, Body: body, References: references, Fields: fields})
		}
	}
	for id := range w.base {
		if _, stays := next[id]; !stays {
			delta = append(delta, store.Entry{Asset: id, Removed: true})
		}
	}
	w.must(w.store.Unstage(w.ctx, w.lease))
	w.must(w.store.Stage(w.ctx, w.lease, w.head, delta))
	incarnation, err := w.store.Publish(w.ctx, w.lease, intent.Incarnation{
		ID: intent.IncarnationID{Partition: shop, Sequence: w.head.Sequence + 1}, Parent: w.head, Count: len(next), Author: author, Created: time.Now(),
		Sources: slices.Clone(w.sources), Back: w.undone,
	})
	w.must(err)
	w.head, w.base = incarnation.ID, next
}

func (w *world) asset(id intent.AssetID, payload proto.Message, addons ...proto.Message) intent.Asset {
	w.t.Helper()
	set := schema.Builtin()
	packed, err := set.Pack(payload)
	w.must(err)
	asset := intent.Asset{ID: id, Payload: packed}
	for _, addon := range addons {
		packed, err := set.Pack(addon)
		w.must(err)
		asset.Addons = append(asset.Addons, packed)
	}
	return asset
}

func after(ids ...string) proto.Message {
	d := &intentpb.Dependencies{}
	for _, id := range ids {
		d.Dependencies = append(d.Dependencies, &intentpb.Dependency{On: id, Rule: intentpb.Dependency_RULE_ORDER})
	}
	return d
}

// eventually waits in virtual time until a condition holds.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	for range 12_000 {
		synctest.Wait()
		if holds() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	reports, _ := w.store.ListReports(w.ctx, shop, store.ReportFilter{})
	for _, r := range reports {
		w.t.Logf("%s: %s %v %s", r.Asset, r.State, r.Waiting, r.PushNote)
	}
	w.t.Fatalf("within ten minutes not so: %s", what)
}

// pass lets virtual time go by.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) report(id intent.AssetID) intent.Report {
	report, err := w.store.Report(w.ctx, shop, id)
	if err != nil {
		return intent.Report{}
	}
	return report
}

// waitsOn waits until the first reason why an asset is not pushed is of the kind.
func (w *world) waitsOn(id intent.AssetID, kind intent.WaitingKind) intent.WaitingOn {
	w.t.Helper()
	var found intent.WaitingOn
	w.eventually(fmt.Sprintf("%s waits on %s", id, kind), func() bool {
		report := w.report(id)
		if report.State != intent.StateWaiting || len(report.Waiting) == 0 || report.Waiting[0].Kind != kind {
			return false
		}
		found = report.Waiting[0]
		return true
	})
	return found
}

// inSync waits until production has these words and the reports say so.
func (w *world) inSync(things ...thing) {
	w.t.Helper()
	for _, thing := range things {
		w.eventually(fmt.Sprintf("%s is %q in production and reported in sync", thing.id, thing.word), func() bool {
			return w.production.word(thing.id) == thing.word && w.report(thing.id).State == intent.StateInSync
		})
	}
}

// behaviour is how production treats one asset.
type behaviour struct {
	destructive bool
	unknown     string
	// breaks makes every batch with the asset fail.
	breaks bool
	key    intent.ResourceKey
	// says alters what a diff finds; reads does too, and knows since when production may
	// have been read.
	says  func(*intent.Difference)
	reads func(since time.Time, d *intent.Difference)
	// push replaces what a push does.
	push func(ctx context.Context, apply func(), push plugin.Push) plugin.PushResult
}

// production is a plugin and its world: one word per asset.
type production struct {
	store  *sqlite.Store
	mu     sync.Mutex
	down   error
	alone  <-chan struct{}
	state  map[intent.AssetID]string
	behave map[intent.AssetID]behaviour
	pushed []intent.AssetID
	diffed int
	// cadence that it declares.
	cadence time.Duration
	// version that it says it has.
	version string
	// calls of Diff, those under way, and the most of these at once.
	calls, looking, crowd int
	// slow is how long a diff takes.
	slow time.Duration
	// each is how long an asset takes more.
	each time.Duration
	// effect is told of every change, with production locked.
	effect func(id intent.AssetID)
	// under counts pushes under way, most the most at once.
	under, most int
	// handed are the memos of each asset's last look.
	handed map[intent.AssetID][]intent.Memo
}

func newProduction(s *sqlite.Store) *production {
	return &production{store: s, version: "1", state: map[intent.AssetID]string{}, behave: map[intent.AssetID]behaviour{}, handed: map[intent.AssetID][]intent.Memo{}}
}

// access reads or sets what production and the test share.
func (p *production) access(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
}

// onEffect has every change told from now on.
func (p *production) onEffect(effect func(intent.AssetID)) { p.access(func() { p.effect = effect }) }

// asks counts the calls of Diff.
func (p *production) asks() (calls int) {
	p.access(func() { calls = p.calls })
	return calls
}

// mostAtOnce is how many pushes were under way at once.
func (p *production) mostAtOnce() (most int) {
	p.access(func() { most = p.most })
	return most
}

// order is of whom the pushes were.
func (p *production) order() (pushed []intent.AssetID) {
	p.access(func() { pushed = slices.Clone(p.pushed) })
	return pushed
}

// memos are those that the last look at each asset was handed.
func (p *production) memos() map[intent.AssetID][]intent.Memo {
	all := map[intent.AssetID][]intent.Memo{}
	p.access(func() {
		for id, memos := range p.handed {
			if len(memos) > 0 {
				all[id] = memos
			}
		}
	})
	return all
}

func (p *production) word(id intent.AssetID) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state[id]
}

func (p *production) set(id intent.AssetID, word string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state[id] = word
}

func (p *production) does(id intent.AssetID, b behaviour) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behave[id] = b
}

func (p *production) breakDown(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = err
}

// pushes counts the pushes of an asset, or all when it is empty.
func (p *production) pushes(id intent.AssetID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id == "" {
		return len(p.pushed)
	}
	return len(slices.DeleteFunc(slices.Clone(p.pushed), func(other intent.AssetID) bool { return other != id }))
}

// asked counts the assets looked at.
func (p *production) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.diffed
}

func (p *production) Alone() <-chan struct{} { return p.alone }

func (p *production) Describe() (plugin.Description, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return plugin.Description{Name: "fake", Version: p.version, Types: []plugin.Served{
		{Type: commandType, Guarantee: plugin.Unguarded, LongestEffect: time.Second, Cadence: p.cadence},
		{Type: jobType, Guarantee: plugin.Unguarded, LongestEffect: time.Second, Cadence: p.cadence},
	}}, p.down
}

func (p *production) Diff(ctx context.Context, request plugin.DiffRequest) ([]intent.Difference, error) {
	incarnation, ids := request.Incarnation, request.Assets
	p.mu.Lock()
	slow, each := p.slow, p.each
	p.calls++
	p.looking++
	p.crowd = max(p.crowd, p.looking)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.looking--
		p.mu.Unlock()
	}()
	at := time.Now()
	time.Sleep(max(slow, time.Millisecond) + time.Duration(len(ids))*each)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.diffed += len(ids)
	for _, id := range ids {
		p.handed[id] = request.Memos[id]
	}
	if p.down != nil {
		return nil, p.down
	}
	var differences []intent.Difference
	for _, id := range ids {
		b := p.behave[id]
		if b.breaks {
			return nil, fault.New(fault.Unavailable, "the plugin crashed")
		}
		want, job, err := p.wanted(ctx, incarnation, id)
		d := intent.Difference{Asset: id, At: at, Outcome: intent.InSync, ResourceKey: cmpOr(b.key, intent.ResourceKey("fake/"+id))}
		switch {
		case err != nil:
			return nil, err
		case b.unknown != "":
			d.Outcome, d.Reason = intent.Unknown, b.unknown
		case p.state[id] != want:
			d.Outcome = intent.Differs
			d.Plan = intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{Path: "word", Current: p.state[id], Target: want, Destructive: b.destructive}}}
			if job {
				d.Plan.Action = actionTo(p.state[id], want)
			}
		}
		if job && p.state[id] != "" {
			d.Current, _ = proto.Marshal(jobOf(p.state[id]))
		}
		if b.says != nil {
			b.says(&d)
		}
		if b.reads != nil {
			b.reads(request.Since, &d)
		}
		differences = append(differences, d)
	}
	return differences, nil
}

func cmpOr(a, b intent.ResourceKey) intent.ResourceKey {
	if a != "" {
		return a
	}
	return b
}

// wanted is the word that intent asks for: that of a job is made of its
// replicas and version, and is empty when the job is to go.
func (p *production) wanted(ctx context.Context, incarnation intent.IncarnationID, id intent.AssetID) (word string, job bool, err error) {
	content, err := newReader(Options{Store: p.store}, &knownWindows{}).asset(ctx, incarnation, id)
	if err != nil {
		return "", false, err
	}
	if content.Payload.Type == jobType {
		job := &processpb.Job{}
		if err := schema.Payload(content, job); err != nil {
			return "", true, err
		}
		if down, err := schema.Addon(content, &intentpb.Turndown{}); err != nil || down {
			return "", true, err
		}
		return wordOf(job), true, nil
	}
	command := &commandpb.Command{}
	if err := schema.Payload(content, command); err != nil {
		return "", false, err
	}
	return command.Input, false, nil
}

func wordOf(job *processpb.Job) string { return fmt.Sprintf("%d %s", job.Replicas, job.Version) }

// jobOf reads a word of production.
func jobOf(word string) *processpb.Job {
	job := &processpb.Job{}
	fmt.Sscanf(word, "%d %s", &job.Replicas, &job.Version)
	return job
}

func actionTo(current, target string) intent.Action {
	switch {
	case current == "":
		return intent.ActionCreate
	case target == "":
		return intent.ActionDelete
	}
	return intent.ActionUpdate
}

func (p *production) Push(ctx context.Context, push plugin.Push) plugin.PushResult {
	want, _, err := p.wanted(ctx, push.Incarnation, push.Asset)
	if err != nil {
		return plugin.PushResult{Ending: plugin.Failed, Reason: err.Error()}
	}
	p.mu.Lock()
	p.pushed = append(p.pushed, push.Asset)
	p.under++
	p.most = max(p.most, p.under)
	b := p.behave[push.Asset]
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.under--
		p.mu.Unlock()
	}()
	apply := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.state[push.Asset] = want
		if p.effect != nil {
			p.effect(push.Asset)
		}
	}
	if b.push != nil {
		return b.push(ctx, apply, push)
	}
	time.Sleep(10 * time.Millisecond)
	apply()
	return plugin.PushResult{Ending: plugin.Pushed}
}

// audited counts the audit's records of a verb.
func (w *world) audited(verb string) int {
	w.t.Helper()
	records, err := w.store.AuditRecords(w.ctx, shop, 0, 10_000)
	w.must(err)
	count := 0
	for _, record := range records {
		if strings.Contains(record.Verb, verb) {
			count++
		}
	}
	return count
}
