package app

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/annealing/enforcer"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/preview"
	"lehr.dev/internal/store/sqlite"
)

// planning has an enforcer look at what is supposed, and push nothing (S21).
type planning struct {
	runtime    loop.Runtime
	limits     enforcer.Limits
	schemas    enforcer.Schemas
	plugins    func(binding *intentpb.PluginBinding) plugin.Plugin
	askOutside func(context.Context, check.Question) (check.Answer, error)
	askTrain   func(context.Context, check.Environment) check.Train
	// progress is told how many were looked at; nil: nobody waits to see it.
	progress *measure.Progress
}

// planPatience is how long plugins may answer for no further asset.
const planPatience = 5 * time.Second

// pendingPatience is how long a plan waits for changes that are pending, such as a read
// that takes long. After that it says that they are.
const pendingPatience = 30 * time.Second

// run returns when each of the assets was looked at, or when no plugin answers
// for any of them any more: their reports say so.
func (p planning) run(ctx context.Context, supposed *preview.Store, assets []intent.AssetID) (map[intent.AssetID]intent.Report, error) {
	governed, err := p.governs(ctx, supposed, assets)
	if err != nil {
		return nil, err
	}
	supposed.Lead(func(id intent.AssetID) bool { return governed.courseByAsset[id] != nil })
	openPushes, err := supposed.Beside(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	partition := supposed.Head().Partition
	looking := enforcer.New(enforcer.Options{
		Partition: partition, Since: 1, Store: supposed, Plans: true, Beside: openPushes, Schemas: p.schemas, Plugins: p.plugins, Outside: p.askOutside, Train: p.askTrain,
		Runtime: p.runtime, Log: slog.New(slog.DiscardHandler), Limits: p.limits,
	})
	done := make(chan struct{})
	var failed error
	p.runtime.Go("plan of "+string(partition), func() {
		defer close(done)
		failed = looking.Run(ctx, store.Lease{Partition: partition, Holder: "plan", Epoch: 1})
	})
	err = p.await(ctx, supposed, assets, done)
	cancel()
	<-done
	if failed != nil && ctx.Err() == nil {
		err = failed
	}
	reports := supposed.Reports()
	governed.tell(reports, p.runtime.Now())
	return reports, err
}

func (p planning) await(ctx context.Context, supposed *preview.Store, assets []intent.AssetID, done <-chan struct{}) error {
	const look, pause = 50 * time.Millisecond, time.Second
	last, progressed := -1, p.runtime.Now()
	judged := progressed.Add(-pause / 2) // The first time soon.
	p.progress.BeginStep("compare assets with production", len(assets))
	for {
		left := countUnsettled(supposed.Reports(), assets)
		p.progress.SetDone(len(assets) - left.open)
		now := p.runtime.Now()
		if left.old == left.open && left.old > 0 && now.Sub(judged) >= pause {
			judged = now
			supposed.Again()
		}
		patience := planPatience
		if left.pending > 0 {
			patience = pendingPatience
		}
		switch {
		case left.open == 0:
			return nil
		case left.open != last:
			last, progressed = left.open, now
		case now.Sub(progressed) > patience && left.unseen == 0:
			return nil // The reports say what could not be told.
		case now.Sub(progressed) > patience:
			return fault.New(fault.Unavailable, "comparing %s with production: %d assets were not looked at, and none was within %s", supposed.Head().Partition, left.unseen, patience).
				WithHint("are its plugins well? lehr build works without them")
		}
		select {
		case <-done:
			return nil
		default:
		}
		if err := p.runtime.Wait(ctx, look, done); err != nil {
			return err
		}
	}
}

// unsettled counts assets of which is not known yet what a push would do, or what is in its
// way.
type unsettled struct {
	// open are all of them. Of these unseen were not looked at, pending have a change under
	// way, and old were judged before others beside them were looked at, which counted as
	// unhealthy then.
	open, unseen, pending, old int
}

func countUnsettled(reports map[intent.AssetID]intent.Report, assets []intent.AssetID) (count unsettled) {
	notIll := func(id intent.AssetID) bool {
		report, reported := reports[id]
		return !reported || report.Health.State == intent.Healthy && !report.Health.IsAfterPush()
	}
	for _, id := range assets {
		report, reported := reports[id]
		switch {
		case !reported:
			count.unseen++
			count.open++
		case slices.ContainsFunc(report.Waiting, func(w intent.WaitingOn) bool {
			return w.Kind == intent.WaitPlugin || w.Kind == intent.WaitTurn
		}):
			count.open++
		case slices.ContainsFunc(report.Waiting, func(w intent.WaitingOn) bool { return w.Kind == intent.WaitPending }):
			count.pending++
			count.open++
		case slices.ContainsFunc(report.Waiting, func(w intent.WaitingOn) bool {
			return w.Kind == intent.WaitBudget && slices.ContainsFunc(w.Blockers, notIll)
		}):
			count.open++
			count.old++
		}
	}
	return count
}

// Plan is what a definition would change.
type Plan struct {
	Built prodspec.Built
	server.Plan
}

// NewPlan builds a definition and compares it with production by plugins of its
// own. Of a partition that is in the store, what is known there counts: what was
// enforced, approvals, pins, brakes; else the holds given.
func NewPlan(ctx context.Context, building Building, partition intent.PartitionID, holds []intent.Hold, actor intent.Actor) (_ *Plan, err error) {
	current, end, err := knownOf(ctx, building.Store, partition, holds)
	if err != nil {
		return nil, err
	}
	defer end()
	head := intent.IncarnationID{}
	if registered, err := current.Partition(ctx, partition); err == nil {
		head = registered.Head
	} else if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	elsewhere, end, err := temporaryOptions(building.Sources)
	if err != nil {
		return nil, err
	}
	defer end()
	asked, err := building.takeCommon(ctx, current)
	if err != nil {
		return nil, err
	}
	plan := &Plan{}
	plan.Built, err = building.buildAgainst(ctx, elsewhere, &prodspec.Against{Store: current, Head: head}, prodspec.Build)
	if err != nil || !plan.Built.OK() {
		return plan, err
	}
	supposed := preview.New(current, preview.Supposed{
		Incarnation: intent.Incarnation{
			ID: intent.IncarnationID{Partition: partition}, Parent: head, Schema: plan.Built.Schema.Digest(),
			Sources: plan.Built.Sources, Created: loop.Real().Now(), Author: actor,
		},
		Changes: plan.Built.Delta, Blob: blobsOf(plan.Built), Common: &asked,
	}, preview.First)
	servers, err := readServers(building.PluginServers)
	if err != nil {
		return nil, err
	}
	plugins, err := newPool("", contents{supposed}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer plugins.close()
	plugins.useServers(servers)
	p := planning{
		runtime: loop.Real(), limits: enforcer.DefaultLimits(), schemas: newSchemas(supposed), progress: building.Progress,
		askOutside: asker(partition, building.ExternalChecks, plugins.judge),
		plugins:    func(binding *intentpb.PluginBinding) plugin.Plugin { return plugins.bound(partition, binding) },
	}
	assets := make([]intent.AssetID, len(plan.Built.Assets))
	for i := range plan.Built.Assets {
		assets[i] = plan.Built.Assets[i].ID
	}
	reports, err := p.run(ctx, supposed, assets)
	if err != nil {
		return nil, err
	}
	plan.Plan, err = p.summarize(ctx, supposed, head, plan.Built.Delta, reports)
	return plan, err
}

// blobsOf what was built: its types, and what its assets name.
func blobsOf(built prodspec.Built) func(kind, name string) ([]byte, bool) {
	return func(kind, name string) ([]byte, bool) {
		digest, err := intent.ParseDigest(name)
		switch {
		case err != nil:
		case kind == prodspec.SchemaBlobs && digest == built.Schema.Digest():
			return built.Schema.Files(), true
		case kind == store.SpillBlobs:
			content, ok := built.Blobs[digest]
			return content, ok
		}
		return nil, false
	}
}

// knownOf opens the store of that name beside its servers, or one that holds
// nothing but the holds.
func knownOf(ctx context.Context, name string, partition intent.PartitionID, holds []intent.Hold) (store.All, func(), error) {
	if name != "" {
		opened, err := openBeside(ctx, name)
		if err == nil {
			return opened, func() { opened.Close() }, nil
		}
		if !fault.Is(err, fault.NotFound) {
			return nil, nil, err
		}
	}
	memory, err := sqlite.Memory()
	if err != nil {
		return nil, nil, err
	}
	opened, err := sqlite.Open(ctx, sqlite.Options{DB: memory, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		memory.Close()
		return nil, nil, err
	}
	end := func() {
		opened.Close()
		memory.Close()
	}
	for _, hold := range holds {
		if err := opened.SetHold(ctx, partition, hold); err != nil {
			end()
			return nil, nil, err
		}
	}
	return opened, end, nil
}

// summarize puts together what a plan says: of each asset that is not in sync, in the
// order of their ids.
func (p planning) summarize(ctx context.Context, supposed *preview.Store, base intent.IncarnationID, delta []store.Entry, reports map[intent.AssetID]intent.Report) (plan server.Plan, err error) {
	plan.Base = base
	for _, id := range slices.Sorted(maps.Keys(reports)) {
		if reports[id].State != intent.StateGone {
			plan.Reports = append(plan.Reports, unnumbered(reports[id], supposed.Head()))
		}
	}
	for _, entry := range delta {
		if entry.Removed {
			plan.Removed = append(plan.Removed, entry.Asset)
		}
	}
	slices.Sort(plan.Removed)
	var policies [2]*intentpb.Policy
	for i, id := range []intent.IncarnationID{base, supposed.Head()} {
		if policies[i], err = policyOf(ctx, supposed, id); err != nil {
			return plan, err
		}
	}
	if policies[0] == nil || policies[1] == nil {
		return plan, nil
	}
	for _, text := range check.Loosened(policies[0], policies[1]) {
		plan.Loosened = append(plan.Loosened, text+". What was enforced with it is pushed under both policies until it is in sync, or an approver lets that go")
	}
	rollouts, err := p.loosenedRollouts(ctx, supposed, base, policies, delta)
	plan.Loosened = append(plan.Loosened, rollouts...)
	return plan, err
}

// unnumbered is a report in which what is supposed has no number, for nobody gave it one.
func unnumbered(r intent.Report, supposed intent.IncarnationID) intent.Report {
	if r.Target == supposed {
		r.Target = intent.IncarnationID{}
	}
	r.Waiting = slices.Clone(r.Waiting)
	for i := range r.Waiting {
		r.Waiting[i].Reason = strings.ReplaceAll(r.Waiting[i].Reason, supposed.String(), "what is planned")
	}
	return r
}

// policyOf an incarnation; nil: it has none.
func policyOf(ctx context.Context, s *preview.Store, id intent.IncarnationID) (*intentpb.Policy, error) {
	if id.IsZero() {
		return nil, nil
	}
	_, body, err := s.Content(ctx, id, intent.PolicyAsset)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	content, err := schema.Decode(body)
	if err != nil {
		return nil, err
	}
	policy := &intentpb.Policy{}
	return policy, schema.Payload(content, policy)
}

// previews are what plugins may be asked of beside what is stored.
type previews struct {
	contentStore
	lock sync.Mutex
	last intent.Sequence
	now  map[intent.Sequence]*preview.Store
}

func newPreviews(stored contentStore) *previews {
	return &previews{contentStore: stored, last: preview.First, now: map[intent.Sequence]*preview.Store{}}
}

// begin shows what is supposed until the end is called.
func (p *previews) begin(real preview.Real, supposed preview.Supposed) (_ *preview.Store, end func()) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.last++
	sequence := p.last
	previewed := preview.New(real, supposed, sequence)
	p.now[sequence] = previewed
	return previewed, func() {
		p.lock.Lock()
		defer p.lock.Unlock()
		delete(p.now, sequence)
	}
}

// snapshotsOf is where an incarnation is.
func (p *previews) snapshotsOf(id intent.IncarnationID) snapshots {
	p.lock.Lock()
	defer p.lock.Unlock()
	if previewed := p.now[id.Sequence]; previewed != nil {
		return previewed
	}
	return p.contentStore
}

// Incarnation implements contentStore.
func (p *previews) Incarnation(ctx context.Context, id intent.IncarnationID) (intent.Incarnation, error) {
	return p.snapshotsOf(id).Incarnation(ctx, id)
}

// Content implements contentStore.
func (p *previews) Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error) {
	return p.snapshotsOf(id).Content(ctx, id, asset)
}

// EdgesFrom implements contentStore.
func (p *previews) EdgesFrom(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error) {
	return p.snapshotsOf(id).EdgesFrom(ctx, id, asset)
}

// Changes implements contentStore. What differs from what is supposed is not told: no
// plugin is asked about it twice.
func (p *previews) Changes(ctx context.Context, base, target intent.IncarnationID, cursor intent.AssetID, limit int) ([]store.Change, error) {
	if max(base.Sequence, target.Sequence) >= preview.First {
		return nil, fault.New(fault.Unavailable, "%s is supposed for a plan: how it differs from %s is not told", target, base)
	}
	return p.contentStore.Changes(ctx, base, target, cursor, limit)
}

// notStarted is a plugin that only the candidate binds.
type notStarted struct{ name string }

func (n notStarted) err() error {
	return fault.New(fault.Unavailable, "the plugin %s is not bound in what is served: a plan starts no program", strings.TrimSpace(n.name))
}

// Describe implements plugin.Plugin.
func (n notStarted) Describe() (plugin.Description, error) { return plugin.Description{}, n.err() }

// Diff implements plugin.Plugin.
func (n notStarted) Diff(context.Context, plugin.DiffRequest) ([]intent.Difference, error) {
	return nil, n.err()
}

// Push implements plugin.Plugin.
func (n notStarted) Push(context.Context, plugin.Push) plugin.PushResult {
	return plugin.PushResult{Ending: plugin.Stopped, Reason: n.err().Error()}
}

// planCandidate looks at what a candidate would change, with the plugins that head has:
// also a rejected or superseded one, of which nothing is ever pushed, for to look is not
// to act (S21).
func (a *App) planCandidate(ctx context.Context, candidate intent.Candidate) (plan server.Plan, err error) {
	switch {
	case candidate.State == intent.CandidatePublished:
		return plan, fault.New(fault.Invalid, "candidate %s is published: nothing of it is still to be planned", candidate.ID).
			WithHint("lehr plan --head tells how production differs from what is served")
	case candidate.Schema.IsZero():
		return plan, fault.New(fault.Invalid, "candidate %s is %s, and was not generated to its end: there is nothing to compare", candidate.ID, candidate.State).
			WithHint("lehr describe candidate %s shows its findings", candidate.ID.Digest.Short())
	}
	partition := candidate.ID.Partition
	delta, err := a.store.CandidateDelta(ctx, candidate.ID)
	if err != nil {
		return plan, err
	}
	supposed, end := a.previews.begin(a.store, preview.Supposed{
		Incarnation: intent.Incarnation{
			ID: intent.IncarnationID{Partition: partition}, Parent: candidate.Base, Schema: candidate.Schema,
			Sources: candidate.Sources, Created: a.runtime.Now(),
		},
		Changes: delta,
	})
	defer end()
	bound, err := policyOf(ctx, supposed, candidate.Base)
	if err != nil {
		return plan, err
	}
	p := planning{runtime: a.runtime, limits: a.options.Limits, schemas: a.schemas, askOutside: a.answerer(partition), askTrain: a.trains(partition), plugins: func(binding *intentpb.PluginBinding) plugin.Plugin {
		if !slices.ContainsFunc(bound.GetPlugins(), func(b *intentpb.PluginBinding) bool {
			return b.Dial == binding.Dial && slices.Equal(b.Run, binding.Run)
		}) {
			return notStarted{strings.Join(append(binding.Run, binding.Dial), " ")}
		}
		return a.plugins(partition, binding)
	}}
	var assets []intent.AssetID
	changed := map[intent.AssetID]bool{}
	for _, entry := range delta {
		if !entry.Removed && entry.Asset != intent.PolicyAsset {
			assets, changed[entry.Asset] = append(assets, entry.Asset), true
		}
	}
	reports, err := p.run(ctx, supposed, assets)
	if err != nil {
		return plan, err
	}
	maps.DeleteFunc(reports, func(id intent.AssetID, _ intent.Report) bool { return !changed[id] })
	return p.summarize(ctx, supposed, candidate.Base, delta, reports)
}
