// Package notify tells people when something is so of a partition or its assets, by the
// notifications of its policy. The Notifier is an actor of its own under the partition's
// lease: it reads past reports on from where it was, decides by itself (engine), stores
// what it knows and owes, and only then delivers. It never touches what the
// enforcer does, and a target that hangs delays only what it is told itself. App runs it.
package notify

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

const (
	// look is how often past reports and the partition are looked at while there are
	// notifications.
	look = 2 * time.Second
	// keep is how often what was read is stored when nothing is owed for it.
	keep = 10 * time.Second
	// viewPause is how often the partition itself is looked at.
	viewPause = 10 * time.Second
	// page of past reports.
	page = 1000
)

// again is how long to wait before a delivery that failed is tried again.
var again = loop.Backoff{First: 5 * time.Second, Most: 5 * time.Minute}

// Store is what the notifier reads and writes.
type Store interface {
	Reader
	store.Blobs
}

// Reader is what a rehearsal reads.
type Reader interface {
	Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error)
	Incarnation(ctx context.Context, id intent.IncarnationID) (intent.Incarnation, error)
	Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error)
	ListCandidates(ctx context.Context, partition intent.PartitionID, limit int) ([]intent.Candidate, error)
	Stops(ctx context.Context) ([]intent.Stop, error)
	Rollouts(ctx context.Context, partition intent.PartitionID, filter store.RolloutFilter) ([]intent.Rollout, error)
	OrphanCount(ctx context.Context, partition intent.PartitionID) (int, error)
	Report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (intent.Report, error)
	ListReports(ctx context.Context, partition intent.PartitionID, filter store.ReportFilter) ([]intent.Report, error)
	CountReports(ctx context.Context, partition intent.PartitionID) (map[intent.State]int, error)
	ReportHistory(ctx context.Context, partition intent.PartitionID, filter store.HistoryFilter) ([]store.PastReport, error)
	ReportsAfter(ctx context.Context, partition intent.PartitionID, cursor uint64, limit int) ([]store.PastReport, error)
	LastReport(ctx context.Context, partition intent.PartitionID) (uint64, error)
	DeliveryRecords(ctx context.Context, partition intent.PartitionID, filter store.DeliveryFilter) ([]intent.DeliveryRecord, error)
	WorkflowRuns(ctx context.Context, partition intent.PartitionID, filter store.WorkflowFilter) ([]intent.WorkflowRun, error)
	WorkflowEvents(ctx context.Context, partition intent.PartitionID, run uint64, filter store.WorkflowEventFilter) ([]intent.WorkflowEvent, error)
	Changed(partition intent.PartitionID) <-chan struct{}
}

// Options of a notifier.
type Options struct {
	Partition intent.PartitionID
	Store     Store
	Runtime   loop.Runtime
	Log       *slog.Logger
	// Send delivers a message; it may be called from several goroutines.
	Send func(ctx context.Context, target string, message Message) error
	// Links lead from messages to pages; nil: messages have none.
	Links Links
	// Measure is told how it goes; nil: nobody is.
	Measure *measure.Notifier
}

// Notifier of one partition.
type Notifier struct {
	Options
	lease  store.Lease
	inbox  *loop.Inbox[func()]
	engine engine
	// policy is the digest of the policy that the rules are of.
	policy intent.Digest
	// sending to these targets.
	sending map[string]bool
	// stored is when, and dirty: it is not as it was then; owing: messages are new.
	stored       time.Time
	dirty, owing bool
	viewed       time.Time
	lastErrors   map[string]string
}

// New returns a notifier.
func New(o Options) *Notifier {
	if o.Measure == nil {
		o.Measure = &measure.Notifier{}
	}
	return &Notifier{Options: o, inbox: loop.NewInbox[func()](), sending: map[string]bool{}, lastErrors: map[string]string{}}
}

// Run tells until the context ends or the lease is lost.
func (n *Notifier) Run(ctx context.Context, lease store.Lease) error {
	n.lease = lease
	state, err := n.load(ctx)
	if err != nil {
		return err
	}
	n.engine = engine{partition: n.Partition, State: state, problem: n.trouble, links: n.Links}
	for ctx.Err() == nil {
		changed := n.Store.Changed(n.Partition)
		next, err := n.pass(ctx)
		if err != nil {
			return err
		}
		wake := n.inbox.Wake()
		pause := time.Duration(-1)
		if !next.IsZero() {
			pause = max(0, next.Sub(n.Runtime.Now()))
		}
		if len(n.engine.rules) > 0 {
			if pause < 0 || pause > look {
				pause = look
			}
		} else if len(n.sending) == 0 {
			wake = changed // Nothing is asked for until a policy does.
		}
		if err := n.Runtime.Wait(ctx, pause, wake); err != nil {
			return err
		}
		for _, step := range n.inbox.Take() {
			step()
		}
	}
	return ctx.Err()
}

// load what was stored. What cannot be read is begun anew, and said.
func (n *Notifier) load(ctx context.Context) (*State, error) {
	state, err := Load(ctx, n.Store, n.Partition)
	if errors.Is(err, errUnreadable) {
		n.Log.Error("what was told of a partition cannot be read: notifications begin anew", "partition", n.Partition, "error", err)
		return NewState(), nil
	}
	return state, err
}

// pass reads, decides, stores, and starts deliveries. It returns when it is due again.
func (n *Notifier) pass(ctx context.Context) (next time.Time, err error) {
	partition, err := n.Store.Partition(ctx, n.Partition)
	if err != nil {
		return next, err
	}
	if err := n.readPolicy(ctx, partition); err != nil {
		return next, err
	}
	n.engine.reportOf = reports(ctx, n.Store, n.Partition)
	if err := n.readDeliveries(ctx); err != nil {
		return next, err
	}
	if err := n.readWorkflows(ctx); err != nil {
		return next, err
	}
	if len(n.engine.rules) > 0 {
		if err := n.read(ctx); err != nil {
			return next, err
		}
		now := n.Runtime.Now()
		ofPartition := slices.ContainsFunc(n.engine.rules, func(c *compiled) bool { return c.OfPartition })
		if age := now.Sub(n.viewed); ofPartition && (age < 0 || age >= viewPause) {
			n.viewed = now
			view, err := n.view(ctx, partition)
			if err != nil {
				return next, err
			}
			n.engine.look(view, now)
		}
	}
	n.dirty = n.dirty || n.engine.changed
	n.engine.changed = false
	now, owed := n.Runtime.Now(), len(n.engine.Outbox)
	n.engine.restrain(now)
	next = n.engine.tick(now)
	n.owing = n.owing || len(n.engine.Outbox) != owed
	if n.owing || n.dirty && now.Sub(n.stored) >= keep {
		if err := n.save(ctx, now); err != nil {
			return next, err
		}
	}
	n.measure()
	return earliest(next, n.deliver(ctx, now)), nil
}

// measure tells of each target that there is, or was.
func (n *Notifier) measure() {
	waiting := map[string]int64{}
	for _, d := range n.engine.Outbox {
		waiting[d.Target]++
	}
	for _, c := range n.engine.rules {
		for _, name := range c.To {
			n.Measure.Targets.Of(name)
		}
	}
	for name := range waiting { // Also to those that no notification names any more.
		n.Measure.Targets.Of(name)
	}
	for name, gauge := range n.Measure.Targets.All() {
		t := n.engine.Targets[name]
		gauge.Failing.Store(t != nil && t.Problem != "")
		gauge.Waiting.Store(waiting[name])
	}
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (n *Notifier) save(ctx context.Context, now time.Time) error {
	rows, err := n.engine.Rows()
	if err != nil {
		return err
	}
	n.Runtime.Point("save notifications")
	if err := n.Store.PutBlobs(ctx, n.lease, BlobKind, rows); err != nil {
		return err
	}
	n.engine.Saved()
	n.stored, n.dirty, n.owing = now, false, false
	return nil
}

// trouble is logged once for each notification and problem.
func (n *Notifier) trouble(name string, err error) {
	if n.lastErrors[name] != err.Error() {
		n.lastErrors[name] = err.Error()
		n.Log.Warn("a notification has no answer", "partition", n.Partition, "notification", name, "error", err)
	}
}

// readPolicy takes up the notifications of head's policy.
func (n *Notifier) readPolicy(ctx context.Context, partition store.Partition) error {
	policy, digest, err := policyOf(ctx, n.Store, partition.Head)
	if err != nil || digest == n.policy && n.engine.rules != nil {
		return err
	}
	rules, problems := compile(policy)
	for _, problem := range problems {
		n.Log.Warn("a notification is left out", "partition", n.Partition, "error", problem)
	}
	if rules == nil {
		rules = []*compiled{}
	}
	n.policy, n.viewed = digest, time.Time{}
	count := len(n.engine.Known)
	anew := n.engine.adopt(rules)
	n.dirty = n.dirty || len(anew) > 0 || len(n.engine.Known) != count
	if len(anew) == 0 {
		return nil
	}
	n.engine.reportOf = reports(ctx, n.Store, n.Partition)
	if count == 0 {
		// What comes after is read on from here.
		if n.engine.Cursor, err = n.Store.LastReport(ctx, n.Partition); err != nil {
			return err
		}
	}
	return n.showAll(ctx, anew)
}

// policyOf an incarnation, and its digest; none: the zero policy.
func policyOf(ctx context.Context, s Reader, head intent.IncarnationID) (*intentpb.Policy, intent.Digest, error) {
	policy := &intentpb.Policy{}
	if head.IsZero() {
		return policy, intent.Digest{}, nil
	}
	member, body, err := s.Content(ctx, head, intent.PolicyAsset)
	if fault.Is(err, fault.NotFound) {
		return policy, intent.Digest{}, nil
	}
	if err != nil {
		return nil, intent.Digest{}, err
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return nil, intent.Digest{}, err
	}
	return policy, member.Digest, schema.Payload(asset, policy)
}

// showAll shows the reports of all assets to some notifications.
func (n *Notifier) showAll(ctx context.Context, rules []*compiled) error {
	filter := store.ReportFilter{Limit: page}
	for {
		reports, err := n.Store.ListReports(ctx, n.Partition, filter)
		if err != nil {
			return err
		}
		for _, r := range reports {
			n.engine.report(rules, r, nil, n.Runtime.Now())
		}
		if len(reports) < page {
			return nil
		}
		filter.After = reports[len(reports)-1].Asset
	}
}

// read shows past reports, on from where it was. Where some were forgotten meanwhile, all
// assets are looked at as they are.
func (n *Notifier) read(ctx context.Context) error {
	for {
		history, err := n.Store.ReportsAfter(ctx, n.Partition, n.engine.Cursor, page)
		if err != nil || len(history) == 0 {
			return err
		}
		if history[0].Number != n.engine.Cursor+1 {
			if n.engine.Cursor, err = n.Store.LastReport(ctx, n.Partition); err != nil {
				return err
			}
			n.dirty = true
			return n.showAll(ctx, n.engine.rules)
		}
		if err := show(ctx, n.Store, &n.engine, n.Partition, history, n.Runtime.Now()); err != nil {
			return err
		}
		n.engine.Cursor, n.dirty = history[len(history)-1].Number, true
		if len(history) < page {
			return nil
		}
	}
}

// show past reports to the engine, each with the one before it.
func show(ctx context.Context, s Reader, e *engine, partition intent.PartitionID, history []store.PastReport, now time.Time) error {
	compares := slices.ContainsFunc(e.rules, func(c *compiled) bool { return strings.Contains(c.When+c.Text+c.Group, "before") })
	for i := range history {
		var previous *intent.Report
		if compares {
			earlier, err := s.ReportHistory(ctx, partition, store.HistoryFilter{Asset: history[i].Asset, Before: history[i].Number, Limit: 1})
			if err != nil {
				return err
			}
			if len(earlier) > 0 {
				previous = &earlier[0].Report
			}
		}
		e.report(e.rules, history[i].Report, previous, now)
	}
	return nil
}

// reports reads the last report of an asset, each once for a pass.
func reports(ctx context.Context, s Reader, partition intent.PartitionID) func(intent.AssetID) *intent.Report {
	cached := map[intent.AssetID]*intent.Report{}
	return func(asset intent.AssetID) *intent.Report {
		if r, ok := cached[asset]; ok {
			return r
		}
		cached[asset] = nil
		if r, err := s.Report(ctx, partition, asset); err == nil {
			cached[asset] = &r
		}
		return cached[asset]
	}
}

// view of the partition for expressions.
func (n *Notifier) view(ctx context.Context, p store.Partition) (*intentpb.NotedPartition, error) {
	view := &intentpb.NotedPartition{Id: string(p.ID), Head: incarnation(p.Head), States: map[string]int64{}}
	if !p.Head.IsZero() {
		head, err := n.Store.Incarnation(ctx, p.Head)
		if err != nil {
			return nil, err
		}
		view.Published = moment(head.Created)
	}
	stops, err := n.Store.Stops(ctx)
	if err != nil {
		return nil, err
	}
	for _, stop := range stops {
		if stop.Partition == "" || stop.Partition == p.ID && view.Stop == nil {
			view.Stop = &intentpb.NotedStop{Owner: stop.Owner.Name, Reason: stop.Reason, Since: moment(stop.Since)}
		}
	}
	newest, err := n.Store.ListCandidates(ctx, p.ID, 1)
	if err != nil {
		return nil, err
	}
	for _, c := range newest {
		if c.State == intent.CandidateHeld || c.State == intent.CandidateRejected {
			view.Candidate = &intentpb.NotedCandidate{Id: c.ID.String(), State: string(c.State), Made: moment(c.Created)}
			if len(c.Findings) > 0 {
				view.Candidate.Finding = c.Findings[0].Message
			}
		}
	}
	if view.Rollouts, err = n.rollouts(ctx, p); err != nil {
		return nil, err
	}
	orphans, err := n.Store.OrphanCount(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	view.Orphans = int64(orphans)
	counts, err := n.Store.CountReports(ctx, p.ID)
	for state, count := range counts {
		view.States[string(state)] = int64(count)
	}
	return view, err
}

// rollouts that head has, by their newest runs.
func (n *Notifier) rollouts(ctx context.Context, p store.Partition) (noted []*intentpb.NotedRollout, err error) {
	policy, _, err := policyOf(ctx, n.Store, p.Head)
	if err != nil || len(policy.GetRollouts()) == 0 {
		return nil, err
	}
	runs, err := n.Store.Rollouts(ctx, p.ID, store.RolloutFilter{Newest: true, Limit: page})
	for _, run := range runs {
		if slices.ContainsFunc(policy.Rollouts, func(r *intentpb.Rollout) bool { return r.Name == run.Name }) {
			noted = append(noted, notedRollout(&run))
		}
	}
	return noted, err
}

// notedRollout is a run as expressions find it.
func notedRollout(run *intent.Rollout) *intentpb.NotedRollout {
	noted := &intentpb.NotedRollout{
		Name: run.Name, Run: int64(run.Run), State: string(run.State), Bad: run.Bad, Waits: run.Progress.Waits, Cause: string(run.Progress.Cause), Began: moment(run.Began), Ended: moment(run.Ended),
	}
	for _, stage := range run.Progress.Stages {
		if run.State.Open() && stage.Approval != nil && stage.Approval.State == intent.ApprovalAsked && noted.Stage == "" {
			noted.Stage = stage.Name
		}
	}
	for _, proposal := range run.Proposals {
		if proposal.State == intent.ProposalOpen && proposal.Request.Link != "" {
			noted.Requests = append(noted.Requests, proposal.Request.Link)
		}
	}
	return noted
}

// deliver starts what may be tried now: of each target one, in its order.
func (n *Notifier) deliver(ctx context.Context, now time.Time) (next time.Time) {
	ready, next := n.engine.upTo(now)
	for _, d := range ready {
		if n.sending[d.Target] {
			continue
		}
		n.sending[d.Target] = true
		d.Message.Dropped = n.engine.target(d.Target).Dropped
		message := d.Message
		n.Runtime.Go("notify "+d.Target, func() {
			n.Runtime.Point("send a notification")
			err := n.Send(ctx, d.Target, message)
			n.inbox.Put(func() { n.finishDelivery(d, err) })
		})
	}
	return next
}

func (n *Notifier) finishDelivery(d *Delivery, err error) {
	delete(n.sending, d.Target)
	previous := n.engine.target(d.Target).Problem
	n.engine.delivered(d, err, n.Runtime.Now())
	n.dirty = true
	switch {
	case err != nil && previous == "":
		n.Log.Warn("a notification was not delivered, and is tried again", "partition", n.Partition, "target", d.Target, "error", err)
	case err == nil && previous != "":
		n.Log.Info("notifications are delivered again", "partition", n.Partition, "target", d.Target)
	}
	n.owing = n.owing || err == nil // A restart does not send it again.
}
