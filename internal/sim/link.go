package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// link is a replica's connection to its store: it may be slow, break before a
// call or after it was carried out, or tell of changes late. It looks at what
// goes over it, for the marks.
type link struct {
	store.All
	replica *Replica
	lab     *Lab
}

func newLink(s store.All, r *Replica) *link { return &link{All: s, replica: r, lab: r.lab} }

// storeTrouble is what is wrong with the store.
type storeTrouble struct {
	// refuse, lose: the calls that fail before, and after they were carried
	// out; left counts them down.
	refuse, lose bool
	left         int
	// only calls whose name has this in it; empty: all.
	only string
	// full: nothing can be written until then.
	full time.Time
	// hung: writes are not answered before then; they are carried out.
	hung time.Time
	// lag is how late changes are told, until then.
	lag      time.Duration
	lagUntil time.Time
}

// touches reports whether the trouble befalls a call, and counts it down.
func (t *storeTrouble) touches(on *bool, call string) bool {
	if !*on || t.left <= 0 || !strings.Contains(call, t.only) {
		return false
	}
	t.left--
	if t.left == 0 {
		t.refuse, t.lose = false, false
	}
	return true
}

// read makes a call that changes nothing.
func read[T any](ctx context.Context, l *link, call string, do func() (T, error)) (T, error) {
	var none T
	if err, _ := l.severed(ctx, call); err != nil {
		return none, err
	}
	if l.lab.store.touches(&l.lab.store.refuse, call) {
		l.lab.mark("store: a read failed")
		return none, fault.New(fault.Unavailable, "%s: the connection to the store is lost", call)
	}
	return do()
}

// write makes a call that changes something.
func write[T any](ctx context.Context, l *link, call string, do func() (T, error)) (T, error) {
	var none T
	if err, ok := l.severed(ctx, call); err != nil {
		if ok {
			_, _ = do()
		}
		return none, err
	}
	s := &l.lab.store
	if hung := s.hung.Sub(l.lab.Now()); hung > 0 {
		l.lab.mark("store: a write hung")
		if l.replica.Wait(ctx, hung, nil) != nil {
			return none, fault.New(fault.Unavailable, "%s: the store does not answer", call)
		}
	}
	switch {
	case s.full.After(l.lab.Now()):
		l.lab.mark("store: full")
		return none, fault.New(fault.Unavailable, "%s: the store is full", call)
	case s.touches(&s.refuse, call):
		l.lab.mark("store: a write failed")
		return none, fault.New(fault.Unavailable, "%s: the connection to the store is lost", call)
	}
	value, err := do()
	if err == nil && s.touches(&s.lose, call) {
		l.lab.mark("store: a reply was lost after the commit of " + call)
		l.lab.tell("the store carried out %s, and the reply is lost", call)
		return none, fault.New(fault.Unavailable, "%s: the connection to the store was lost; it is not known whether it was carried out", call)
	}
	return value, err
}

func wrote(ctx context.Context, l *link, call string, do func() error) error {
	_, err := write(ctx, l, call, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// Changed tells late when the store lags.
func (l *link) Changed(partition intent.PartitionID) <-chan struct{} {
	changed := l.All.Changed(partition)
	if !l.lab.store.lagUntil.After(l.lab.Now()) {
		return changed
	}
	late := make(chan struct{})
	l.replica.Go("late news", func() {
		_ = l.replica.Wait(l.lab.ctx, -1, changed)
		_ = l.replica.Wait(l.lab.ctx, l.lab.store.lag, nil)
		close(late)
	})
	l.lab.mark("store: news came late")
	return late
}

func (l *link) Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error) {
	return read(ctx, l, "Partition", func() (store.Partition, error) { return l.All.Partition(ctx, id) })
}

// ListPartitions leaves out the one that is served elsewhere.
func (l *link) ListPartitions(ctx context.Context) ([]store.Partition, error) {
	list, err := read(ctx, l, "ListPartitions", func() ([]store.Partition, error) { return l.All.ListPartitions(ctx) })
	return slices.DeleteFunc(list, func(p store.Partition) bool { return p.ID == elsewhere }), err
}

// SurveyStandings leaves out the partition that is served elsewhere, as do the other surveys.
func (l *link) SurveyStandings(ctx context.Context) ([]store.Standing, error) {
	list, err := read(ctx, l, "SurveyStandings", func() ([]store.Standing, error) { return l.All.SurveyStandings(ctx) })
	return slices.DeleteFunc(list, func(s store.Standing) bool { return s.ID == elsewhere }), err
}

func (l *link) SurveyMatters(ctx context.Context, filter store.MattersFilter) (map[intent.PartitionID]*store.Matters, error) {
	matters, err := read(ctx, l, "SurveyMatters", func() (map[intent.PartitionID]*store.Matters, error) { return l.All.SurveyMatters(ctx, filter) })
	delete(matters, elsewhere)
	return matters, err
}

func (l *link) HeadContents(ctx context.Context, asset intent.AssetID) (map[intent.PartitionID]store.HeadContent, error) {
	contents, err := read(ctx, l, "HeadContents", func() (map[intent.PartitionID]store.HeadContent, error) { return l.All.HeadContents(ctx, asset) })
	delete(contents, elsewhere)
	return contents, err
}

func (l *link) Check(ctx context.Context, lease store.Lease) error {
	_, err := read(ctx, l, "Check", func() (struct{}, error) { return struct{}{}, l.All.Check(ctx, lease) })
	if fault.Is(err, fault.Conflict) {
		l.lab.mark("lease: lost, and noticed")
	}
	return err
}

func (l *link) Member(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, error) {
	return read(ctx, l, "Member", func() (intent.Member, error) { return l.All.Member(ctx, id, asset) })
}

func (l *link) Members(ctx context.Context, id intent.IncarnationID, filter store.AssetFilter) ([]intent.Member, error) {
	return read(ctx, l, "Members", func() ([]intent.Member, error) { return l.All.Members(ctx, id, filter) })
}

func (l *link) Changes(ctx context.Context, base, target intent.IncarnationID, cursor intent.AssetID, limit int) ([]store.Change, error) {
	return read(ctx, l, "Changes", func() ([]store.Change, error) { return l.All.Changes(ctx, base, target, cursor, limit) })
}

func (l *link) Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (m intent.Member, body []byte, err error) {
	body, err = read(ctx, l, "Content", func() (body []byte, err error) {
		m, body, err = l.All.Content(ctx, id, asset)
		return body, err
	})
	return m, body, err
}

func (l *link) Contents(ctx context.Context, id intent.IncarnationID, assets []intent.AssetID) (map[intent.AssetID][]byte, error) {
	return read(ctx, l, "Contents", func() (map[intent.AssetID][]byte, error) { return l.All.Contents(ctx, id, assets) })
}

func (l *link) EdgesFrom(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error) {
	return read(ctx, l, "EdgesFrom", func() ([]store.Edge, error) { return l.All.EdgesFrom(ctx, id, asset) })
}

func (l *link) EdgesTo(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error) {
	return read(ctx, l, "EdgesTo", func() ([]store.Edge, error) { return l.All.EdgesTo(ctx, id, asset) })
}

func (l *link) GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error) {
	return read(ctx, l, "GetBlob", func() ([]byte, error) { return l.All.GetBlob(ctx, partition, kind, name) })
}

func (l *link) Pins(ctx context.Context, partition intent.PartitionID) ([]intent.Pin, error) {
	return read(ctx, l, "Pins", func() ([]intent.Pin, error) { return l.All.Pins(ctx, partition) })
}

func (l *link) Retries(ctx context.Context, partition intent.PartitionID, since uint64) ([]intent.AssetID, error) {
	return read(ctx, l, "Retries", func() ([]intent.AssetID, error) { return l.All.Retries(ctx, partition, since) })
}

func (l *link) Holds(ctx context.Context, partition intent.PartitionID) ([]intent.Hold, error) {
	return read(ctx, l, "Holds", func() ([]intent.Hold, error) { return l.All.Holds(ctx, partition) })
}

func (l *link) Consents(ctx context.Context, partition intent.PartitionID) (store.Consents, error) {
	return read(ctx, l, "Approvals", func() (store.Consents, error) { return l.All.Consents(ctx, partition) })
}

func (l *link) Authors(ctx context.Context, target intent.IncarnationID, asset intent.AssetID, now time.Time) ([]string, error) {
	return read(ctx, l, "Authors", func() ([]string, error) { return l.All.Authors(ctx, target, asset, now) })
}

func (l *link) HasMade(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, key intent.ResourceKey) (bool, error) {
	return read(ctx, l, "HasMade", func() (bool, error) { return l.All.HasMade(ctx, partition, asset, key) })
}

func (l *link) OpenPushes(ctx context.Context, partition intent.PartitionID) ([]store.OpenPush, error) {
	return read(ctx, l, "OpenPushes", func() ([]store.OpenPush, error) { return l.All.OpenPushes(ctx, partition) })
}

func (l *link) EnforcedPage(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) ([]store.Enforced, error) {
	return read(ctx, l, "EnforcedPage", func() ([]store.Enforced, error) { return l.All.EnforcedPage(ctx, partition, cursor, limit) })
}

// SetStop fails only where stops count before the store has them.
func (l *link) SetStop(ctx context.Context, stop intent.Stop) error {
	if !l.lab.braked() {
		return l.All.SetStop(ctx, stop)
	}
	return wrote(ctx, l, "SetStop", func() error { return l.All.SetStop(ctx, stop) })
}

// Resume fails only where stops count before the store has them.
func (l *link) Resume(ctx context.Context, partition intent.PartitionID, reason string, actor intent.Actor) error {
	if !l.lab.braked() {
		return l.All.Resume(ctx, partition, reason, actor)
	}
	return wrote(ctx, l, "Resume", func() error { return l.All.Resume(ctx, partition, reason, actor) })
}

func (l *link) Acquire(ctx context.Context, partition intent.PartitionID, holder string) (store.Lease, error) {
	return write(ctx, l, "Acquire", func() (store.Lease, error) {
		lease, err := l.All.Acquire(ctx, partition, holder)
		if err == nil && partition == l.lab.partition {
			l.took(lease.Epoch)
		}
		return lease, err
	})
}

func (l *link) Release(ctx context.Context, lease store.Lease) error {
	return wrote(ctx, l, "Release", func() error {
		if lease.Partition == l.lab.partition {
			l.replica.holds = false
		}
		return l.All.Release(ctx, lease)
	})
}

func (l *link) Unstage(ctx context.Context, lease store.Lease) error {
	return wrote(ctx, l, "Unstage", func() error { return l.All.Unstage(ctx, lease) })
}

func (l *link) Stage(ctx context.Context, lease store.Lease, base intent.IncarnationID, delta []store.Entry) error {
	return wrote(ctx, l, "Stage", func() error { return l.All.Stage(ctx, lease, base, delta) })
}

func (l *link) Publish(ctx context.Context, lease store.Lease, incarnation intent.Incarnation) (intent.Incarnation, error) {
	return write(ctx, l, "Publish", func() (intent.Incarnation, error) {
		published, err := l.All.Publish(ctx, lease, incarnation)
		if lease.Partition == l.lab.partition {
			l.lab.published(published, err)
		}
		return published, err
	})
}

func (l *link) Cover(ctx context.Context, lease store.Lease, head intent.IncarnationID, sources []intent.SourceRevision) error {
	return wrote(ctx, l, "Cover", func() error { return l.All.Cover(ctx, lease, head, sources) })
}

func (l *link) SaveCandidate(ctx context.Context, lease store.Lease, candidate intent.Candidate, delta []store.Entry) error {
	return wrote(ctx, l, "SaveCandidate", func() error {
		err := l.All.SaveCandidate(ctx, lease, candidate, delta)
		if err == nil {
			l.lab.mark("candidate: " + string(candidate.State))
			if candidate.State == intent.CandidateRejected && (l.lab.delivers() || l.lab.releases() || l.lab.upgrades()) && len(candidate.Findings) > 0 {
				l.lab.tell("a candidate is rejected: %s", candidate.Findings[0].Message)
			}
		}
		return err
	})
}

func (l *link) Govern(ctx context.Context, lease store.Lease, base intent.IncarnationID, governed []store.Governed) error {
	return wrote(ctx, l, "Govern", func() error { return l.All.Govern(ctx, lease, base, governed) })
}

func (l *link) SaveRollout(ctx context.Context, lease store.Lease, step store.RolloutStep) error {
	return wrote(ctx, l, "SaveRollout", func() error {
		err := l.All.SaveRollout(ctx, lease, step)
		if err == nil {
			l.lab.rolledOn(step)
		}
		return err
	})
}

func (l *link) SetFields(ctx context.Context, lease store.Lease, revision uint64, name string, edit document.Edit, actor intent.Actor) (document.Document, error) {
	return write(ctx, l, "SetFields", func() (document.Document, error) {
		made, err := l.All.SetFields(ctx, lease, revision, name, edit, actor)
		l.lab.fieldSet(err)
		return made, err
	})
}

func (l *link) SaveOutputs(ctx context.Context, lease store.Lease, edit document.Edit) (document.Document, error) {
	return write(ctx, l, "SaveOutputs", func() (document.Document, error) {
		saved, err := l.All.SaveOutputs(ctx, lease, edit)
		l.lab.outputsSaved(err, l.replica)
		return saved, err
	})
}

func (l *link) SavePreviews(ctx context.Context, lease store.Lease, rule string, edit document.Edit) (document.Document, error) {
	return write(ctx, l, "SavePreviews", func() (document.Document, error) { return l.All.SavePreviews(ctx, lease, rule, edit) })
}

func (l *link) Promote(ctx context.Context, lease store.Lease, step store.PromotionStep) error {
	return wrote(ctx, l, "Promote", func() error {
		err := l.All.Promote(ctx, lease, step)
		l.lab.promoted(step, err)
		return err
	})
}

func (l *link) EndVerification(ctx context.Context, lease store.Lease, v intent.Verification) error {
	return wrote(ctx, l, "EndVerification", func() error { return l.All.EndVerification(ctx, lease, v) })
}

func (l *link) RecordDelivery(ctx context.Context, record intent.DeliveryRecord, may store.DeliveryAuthority) (intent.DeliveryRecord, error) {
	return write(ctx, l, "RecordDelivery", func() (intent.DeliveryRecord, error) { return l.All.RecordDelivery(ctx, record, may) })
}

func (l *link) StartWorkflow(ctx context.Context, run intent.WorkflowRun, events []intent.WorkflowEvent, role intent.Role) (intent.WorkflowRun, error) {
	return write(ctx, l, "StartWorkflow", func() (intent.WorkflowRun, error) { return l.All.StartWorkflow(ctx, run, events, role) })
}

func (l *link) StepWorkflowAs(ctx context.Context, step store.WorkflowStep, anyOf []intent.Role, verb, reason string) (intent.WorkflowRun, error) {
	return write(ctx, l, "StepWorkflowAs", func() (intent.WorkflowRun, error) {
		return l.All.StepWorkflowAs(ctx, step, anyOf, verb, reason)
	})
}

func (l *link) StepWorkflow(ctx context.Context, lease store.Lease, step store.WorkflowStep) (intent.WorkflowRun, error) {
	return write(ctx, l, "StepWorkflow", func() (intent.WorkflowRun, error) {
		stored, err := l.All.StepWorkflow(ctx, lease, step)
		l.lab.runStepped(step, stored, err)
		return stored, err
	})
}

func (l *link) Observations(ctx context.Context, partition intent.PartitionID, rollout string) ([]intent.Observation, error) {
	return read(ctx, l, "Observations", func() ([]intent.Observation, error) { return l.All.Observations(ctx, partition, rollout) })
}

func (l *link) RolloutOrders(ctx context.Context, partition intent.PartitionID, cursor uint64) ([]intent.RolloutOrder, error) {
	return read(ctx, l, "RolloutOrders", func() ([]intent.RolloutOrder, error) { return l.All.RolloutOrders(ctx, partition, cursor) })
}

func (l *link) PutBlobs(ctx context.Context, lease store.Lease, kind string, blobs map[string][]byte) error {
	return wrote(ctx, l, "PutBlobs", func() error { return l.All.PutBlobs(ctx, lease, kind, blobs) })
}

func (l *link) Admit(ctx context.Context, lease store.Lease, admissions []store.Admission) ([]*store.Refusal, error) {
	return write(ctx, l, "Admit", func() ([]*store.Refusal, error) {
		requestTime := l.lab.Now()
		refusals, err := l.All.Admit(ctx, lease, admissions)
		l.lab.admitted(requestTime, admissions, refusals, err)
		return refusals, err
	})
}

func (l *link) Permit(ctx context.Context, lease store.Lease, push intent.PushID, now time.Time) error {
	_, err := read(ctx, l, "Permit", func() (struct{}, error) { return struct{}{}, l.All.Permit(ctx, lease, push, now) })
	if err != nil {
		l.lab.mark("permit refused: " + why(err))
	}
	return err
}

func (l *link) ClosePushes(ctx context.Context, lease store.Lease, closings []store.Closing) error {
	return wrote(ctx, l, "ClosePushes", func() error {
		err := l.All.ClosePushes(ctx, lease, closings)
		for _, closing := range closings {
			if err == nil {
				l.lab.mark("push ended: " + closing.Ending)
				l.lab.protected(closing.Ending, closing.Reason)
			}
		}
		return err
	})
}

func (l *link) SaveMemo(ctx context.Context, lease store.Lease, push intent.PushID, memo intent.Memo) error {
	err := wrote(ctx, l, "SaveMemo", func() error { return l.All.SaveMemo(ctx, lease, push, memo) })
	if err != nil {
		l.lab.mark("memo refused: " + why(err))
	}
	return err
}

func (l *link) Memos(ctx context.Context, partition intent.PartitionID, assets []intent.AssetID) (map[intent.AssetID][]intent.Memo, error) {
	return read(ctx, l, "Memos", func() (map[intent.AssetID][]intent.Memo, error) { return l.All.Memos(ctx, partition, assets) })
}

func (l *link) MemoAssets(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) ([]intent.AssetID, error) {
	return read(ctx, l, "MemoAssets", func() ([]intent.AssetID, error) { return l.All.MemoAssets(ctx, partition, cursor, limit) })
}

func (l *link) SaveEnforced(ctx context.Context, lease store.Lease, enforced []store.Enforced) (map[intent.AssetID]store.Claim, error) {
	return write(ctx, l, "SaveEnforced", func() (map[intent.AssetID]store.Claim, error) {
		start := l.lab.Now()
		claims, err := l.All.SaveEnforced(ctx, lease, enforced)
		for _, e := range enforced {
			if err == nil {
				l.lab.Monitor.Recorded(start, e.Asset, e.Effective)
			}
		}
		if len(claims) > 0 {
			l.lab.mark("claim: found in sync, and another's")
		}
		return claims, err
	})
}

func (l *link) SaveReports(ctx context.Context, lease store.Lease, reports []intent.Report) error {
	return wrote(ctx, l, "SaveReports", func() error {
		for _, report := range reports {
			l.lab.reported(report)
			l.lab.Monitor.Told(report)
			l.lab.showsValue("the report of "+string(report.Asset), report)
		}
		return l.All.SaveReports(ctx, lease, reports)
	})
}

func (l *link) Collect(ctx context.Context, lease store.Lease, keep store.Retention, now time.Time) (int, error) {
	return write(ctx, l, "Collect", func() (int, error) {
		removed, err := l.All.Collect(ctx, lease, keep, now)
		if err == nil {
			l.lab.collected(removed)
		}
		return removed, err
	})
}
