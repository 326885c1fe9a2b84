// Package preview shows a partition as it would be with other content as head:
// a candidate, or an edit that was built and not committed. What is asked of
// intent is answered from a stored incarnation and the changes to it; all else
// is read from the store as it is. Nothing is written, ever (S21): what an
// enforcer says of the assets is handed to whoever asked, and no push is
// admitted. Package app has an enforcer act on it, to plan.
package preview

import (
	"context"
	"slices"
	"sync"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// First sequence of incarnations that are supposed: no store comes so far.
const First intent.Sequence = 1 << 62

// Real is what is read of the store beneath.
type Real interface {
	store.Partitions
	store.Snapshots
	store.Brakes
	store.Approvals
	store.Journal
	store.Memos
	store.Reports
	store.Blobs
	store.Documents
	CommonPolicy(ctx context.Context) (store.CommonPolicy, error)
	Verifications(ctx context.Context, partition intent.PartitionID) ([]intent.Verification, error)
}

// Supposed is what would be head.
type Supposed struct {
	// Incarnation with its schema and sources; its parent is what it changes, and
	// zero where there is nothing. Its id is given by New.
	Incarnation intent.Incarnation
	// Changes to the parent.
	Changes []store.Entry
	// Blob finds one that is not stored, by its kind and name; nil: all are.
	Blob func(kind, name string) ([]byte, bool)
	// Common policy of the server; nil: that of the store.
	Common *store.CommonPolicy
}

// Store is a partition's store in which something is supposed. It is safe for
// concurrent use.
type Store struct {
	*Snapshot
	real Real

	lock    sync.Mutex
	changed chan struct{}
	again   uint64
	led     func(intent.AssetID) bool
	reports map[intent.AssetID]intent.Report
}

// New returns a store in which the supposed incarnation is head, under a
// sequence that the caller uses once per process.
func New(real Real, supposed Supposed, sequence intent.Sequence) *Store {
	return &Store{
		Snapshot: NewSnapshot(real, supposed, sequence), real: real,
		changed: make(chan struct{}), reports: map[intent.AssetID]intent.Report{},
	}
}

// Reports are the newest ones, by asset.
func (s *Store) Reports() map[intent.AssetID]intent.Report {
	s.lock.Lock()
	defer s.lock.Unlock()
	reports := make(map[intent.AssetID]intent.Report, len(s.reports))
	for id, report := range s.reports {
		reports[id] = report
	}
	return reports
}

// Partition is that of the store, with the supposed head.
func (s *Store) Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error) {
	partition, err := s.real.Partition(ctx, id)
	if id != s.supposed.Incarnation.ID.Partition {
		return partition, err // A check may ask about another one.
	}
	if fault.Is(err, fault.NotFound) && s.base().IsZero() {
		partition, err = store.Partition{ID: id}, nil // It is not registered yet.
	}
	partition.Head, partition.Covered = s.Head(), s.supposed.Incarnation.Sources
	s.lock.Lock()
	defer s.lock.Unlock()
	partition.Revision += s.again
	return partition, err
}

// CommonPolicy is the supposed one, or that of the store.
func (s *Store) CommonPolicy(ctx context.Context) (store.CommonPolicy, error) {
	if common := s.supposed.Common; common != nil {
		return *common, nil
	}
	return s.real.CommonPolicy(ctx)
}

// Changed tells of nothing but Again: a plan is of one moment.
func (s *Store) Changed(intent.PartitionID) <-chan struct{} {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.changed
}

// Again has all that is not in sync judged anew, by what was seen meanwhile.
func (s *Store) Again() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.again++
	close(s.changed)
	s.changed = make(chan struct{})
}

// Check is nil: nobody else acts on what is supposed.
func (s *Store) Check(context.Context, store.Lease) error { return nil }

// Lead says which assets rollouts would bring to what is supposed: their pins are
// passed over, so that it is found how they differ from it. Nil: none.
func (s *Store) Lead(led func(intent.AssetID) bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.led = led
}

// Pins are those of the store, but of what is led.
func (s *Store) Pins(ctx context.Context, partition intent.PartitionID) ([]intent.Pin, error) {
	pins, err := s.real.Pins(ctx, partition)
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.DeleteFunc(pins, func(p intent.Pin) bool {
		return p.Rank == intent.RankRollout && s.led != nil && s.led(p.Asset)
	}), err
}

// Retries, Holds, Stops, Consents, Pushes and EnforcedPage are those of the store.
func (s *Store) Retries(ctx context.Context, partition intent.PartitionID, revision uint64) ([]intent.AssetID, error) {
	return s.real.Retries(ctx, partition, revision)
}

// Holds implements store.Brakes.
func (s *Store) Holds(ctx context.Context, partition intent.PartitionID) ([]intent.Hold, error) {
	return s.real.Holds(ctx, partition)
}

// Verifications implements store.Deliveries.
func (s *Store) Verifications(ctx context.Context, partition intent.PartitionID) ([]intent.Verification, error) {
	return s.real.Verifications(ctx, partition)
}

// Consents implements store.Approvals.
func (s *Store) Consents(ctx context.Context, partition intent.PartitionID) (store.Consents, error) {
	return s.real.Consents(ctx, partition)
}

// Pushes implements store.Journal.
func (s *Store) Pushes(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, limit int) ([]store.PushRecord, error) {
	return s.real.Pushes(ctx, partition, asset, limit)
}

// EnforcedPage implements store.Journal.
func (s *Store) EnforcedPage(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) ([]store.Enforced, error) {
	return s.real.EnforcedPage(ctx, partition, cursor, limit)
}

// Ended is what really counts under rate limits.
func (s *Store) Ended(ctx context.Context, partition intent.PartitionID, keys []string, most int) (map[string][]store.EndedPush, error) {
	return s.real.Ended(ctx, partition, keys, most)
}

// Report is the real one, of another partition.
func (s *Store) Report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (intent.Report, error) {
	return s.real.Report(ctx, partition, asset)
}

// CountReports are the real ones, of another partition.
func (s *Store) CountReports(ctx context.Context, partition intent.PartitionID) (map[intent.State]int, error) {
	return s.real.CountReports(ctx, partition)
}

// Beside are the real pushes that are under way.
func (s *Store) Beside(ctx context.Context) ([]store.OpenPush, error) {
	return s.real.OpenPushes(ctx, s.Head().Partition)
}

// HasMade is as the store knows.
func (s *Store) HasMade(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, key intent.ResourceKey) (bool, error) {
	return s.real.HasMade(ctx, partition, asset, key)
}

// OpenPushes are none that an enforcer of this store began: Beside are those of others.
func (s *Store) OpenPushes(context.Context, intent.PartitionID) ([]store.OpenPush, error) {
	return nil, nil
}

// Authors of what is supposed are not known; those of what it changes are.
func (s *Store) Authors(ctx context.Context, target intent.IncarnationID, asset intent.AssetID, now time.Time) ([]string, error) {
	if target != s.Head() {
		return s.real.Authors(ctx, target, asset, now)
	}
	if s.base().IsZero() {
		return nil, nil
	}
	authors, err := s.real.Authors(ctx, s.base(), asset, now)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return authors, err
}

// ListReports are those of the store, of which only health counts: each asset is
// looked at anew.
func (s *Store) ListReports(ctx context.Context, partition intent.PartitionID, filter store.ReportFilter) ([]intent.Report, error) {
	reports, err := s.real.ListReports(ctx, partition, filter)
	for i, r := range reports {
		reports[i] = intent.Report{Partition: r.Partition, Asset: r.Asset, Type: r.Type, State: intent.StateGone, Health: r.Health}
	}
	return reports, err
}

// SaveReports keeps them for whoever plans.
func (s *Store) SaveReports(_ context.Context, _ store.Lease, reports []intent.Report) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, report := range reports {
		s.reports[report.Asset] = report
	}
	return nil
}

// Admit admits nothing.
func (s *Store) Admit(_ context.Context, _ store.Lease, admissions []store.Admission) ([]*store.Refusal, error) {
	refusals := make([]*store.Refusal, len(admissions))
	for i := range refusals {
		refusals[i] = &store.Refusal{Waiting: intent.WaitingOn{Kind: intent.WaitPlan, Reason: "nothing is in the way: it would be pushed now"}}
	}
	return refusals, nil
}

// SaveEnforced records nothing.
func (s *Store) SaveEnforced(context.Context, store.Lease, []store.Enforced) (map[intent.AssetID]store.Claim, error) {
	return nil, nil
}

// Permit, ClosePushes and SaveMemo refuse: there is no push.
func (s *Store) Permit(context.Context, store.Lease, intent.PushID, time.Time) error {
	return errNothing
}

// ClosePushes implements store.Journal.
func (s *Store) ClosePushes(context.Context, store.Lease, []store.Closing) error { return errNothing }

// SaveMemo implements store.Memos.
func (s *Store) SaveMemo(context.Context, store.Lease, intent.PushID, intent.Memo) error {
	return errNothing
}

// Memos are those of the store: what a plan shows is what a look of the plugin tells.
func (s *Store) Memos(ctx context.Context, partition intent.PartitionID, assets []intent.AssetID) (map[intent.AssetID][]intent.Memo, error) {
	return s.real.Memos(ctx, partition, assets)
}

// MemoAssets implements store.Memos.
func (s *Store) MemoAssets(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) ([]intent.AssetID, error) {
	return s.real.MemoAssets(ctx, partition, cursor, limit)
}

// Document is that of the store.
func (s *Store) Document(ctx context.Context, partition intent.PartitionID, name, revision string) (document.Document, error) {
	return s.real.Document(ctx, partition, name, revision)
}

// DocumentRevisions are those of the store.
func (s *Store) DocumentRevisions(ctx context.Context, partition intent.PartitionID, name, before string, limit int) ([]document.Revision, error) {
	return s.real.DocumentRevisions(ctx, partition, name, before, limit)
}

// SaveOutputs refuses: what a plan's plugins tell is written by who pushes.
func (s *Store) SaveOutputs(context.Context, store.Lease, document.Edit) (document.Document, error) {
	return document.Document{}, errNothing
}

var errNothing = fault.New(fault.Denied, "a plan changes nothing")
