// Package storetest is the one suite that every engine of package store
// passes: each sentence of the contract, a file per role, and properties that
// compare an engine with a naive model. Only tests of engines use it.
package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Run runs the suite. open returns a new, empty store that it closes when the
// test ends.
func Run(t *testing.T, open func(t *testing.T) store.All) {
	for _, role := range []struct {
		name string
		test func(t *testing.T, open func(t *testing.T) store.All)
	}{
		{"Partitions", testPartitions},
		{"Leases", testLeases},
		{"Publisher", testPublisher},
		{"Snapshots", testSnapshots},
		{"SnapshotManyChanges", testManyChanges},
		{"SnapshotModel", testSnapshotModel},
		{"Candidates", testCandidates},
		{"Blobs", testBlobs},
		{"Brakes", testBrakes},
		{"Approvals", testApprovals},
		{"Admit", testAdmit},
		{"Journal", testJournal},
		{"Memos", testMemos},
		{"Deliveries", testDeliveries},
		{"Workflows", testWorkflows},
		{"CommonPolicy", testCommonPolicy},
		{"Enforced", testEnforced},
		{"Contention", testContention},
		{"RateModel", testRateModel},
		{"RateContention", testRateContention},
		{"Reports", testReports},
		{"ReportCounts", testReportCounts},
		{"SearchedNames", testSearchedNames},
		{"PastReports", testPastReports},
		{"PastReportsAreForgotten", testPastReportsAreForgotten},
		{"Arrivals", testArrivals},
		{"Groups", testGroups},
		{"Surveys", testSurveys},
		{"Grounds", testGrounds},
		{"PlanRecords", testPlanRecords},
		{"Audit", testAudit},
		{"Grants", testGrants},
		{"Tokens", testTokens},
		{"TokensAreCounted", testTokensAreCounted},
		{"Authority", testAuthority},
		{"ApproverSettles", testApproverSettles},
		{"Reading", testReading},
		{"EveryWriteAsks", testEveryWriteAsks},
		{"Collector", testCollector},
		{"CandidatesKeepTheirBase", testCandidatesKeepTheirBase},
		{"CollectorKeepsThePeriodsHead", testCollectorKeepsThePeriodsHead},
		{"Changed", testChanged},
		{"Claims", testClaims},
		{"ClaimModel", testClaimModel},
		{"Orphans", testOrphans},
		{"Rollouts", testRollouts},
		{"Size", testSize},
		{"Labels", testLabels},
		{"Origins", testOrigins},
		{"Documents", testDocuments},
		{"Spilled", testSpilled},
		{"SpilledRaces", testSpilledRaces},
		{"FindIncarnation", testFindIncarnation},
		{"FindModel", testFindModel},
	} {
		t.Run(role.name, func(t *testing.T) { role.test(t, open) })
	}
}

const (
	shop       = intent.PartitionID("shop")
	theatre    = intent.PartitionID("theatre")
	job        = intent.TypeName("lehr.test.v1.Job")
	schemaType = intent.TypeName("lehr.test.v1.Schema")
)

var (
	alice = intent.Actor{Name: "alice", Origin: "cli"}
	bob   = intent.Actor{Name: "bob", Origin: "api"}
	// noon is now for all that takes the time as a value.
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// world is a store with a partition whose lease is held.
type world struct {
	t *testing.T
	store.All
	lease store.Lease
}

func newWorld(t *testing.T, open func(t *testing.T) store.All) *world {
	t.Helper()
	w := &world{t: t, All: open(t)}
	w.lease = w.register(shop)
	return w
}

func (w *world) register(partition intent.PartitionID) store.Lease {
	w.t.Helper()
	w.must(w.AddPartition(w.t.Context(), partition, "/srv/"+string(partition)+"/lehr.yaml", "a try", alice))
	lease, err := w.Acquire(w.t.Context(), partition, "server-1")
	w.must(err)
	return lease
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// refused fails the test unless the error is of the kind.
func (w *world) refused(err error, kind fault.Kind) {
	w.t.Helper()
	if !fault.Is(err, kind) {
		w.t.Fatalf("got error %v, want one of kind %q", err, kind)
	}
}

func (w *world) partition(id intent.PartitionID) store.Partition {
	w.t.Helper()
	p, err := w.Partition(w.t.Context(), id)
	w.must(err)
	return p
}

func (w *world) revision() uint64 { w.t.Helper(); return w.partition(shop).Revision }

func at(sequence int) intent.IncarnationID {
	return intent.IncarnationID{Partition: shop, Sequence: intent.Sequence(sequence)}
}

// digestOf is the digest of the body with the text.
func digestOf(text string) intent.Digest { return intent.BodyDigest([]byte(text)) }

// entry sets an asset to a text as its content.
func entry(asset, text string, references ...intent.Reference) store.Entry {
	digest := digestOf(text)
	return store.Entry{
		Asset:  intent.AssetID(asset),
		Member: intent.Member{Asset: intent.AssetID(asset), Type: job, Digest: digest, Effective: digest},
		Body:   []byte(text), References: references,
	}
}

// entryWith is an entry with indexed fields: pairs of a path and a value.
func entryWith(asset, text string, pairs ...string) store.Entry {
	e := entry(asset, text)
	for pair := range slices.Chunk(pairs, 2) {
		e.Fields = append(e.Fields, intent.Field{Path: pair[0], Value: pair[1]})
	}
	return e
}

func removal(asset string) store.Entry {
	return store.Entry{Asset: intent.AssetID(asset), Removed: true}
}

// next is the incarnation that follows head.
func (w *world) next() intent.Incarnation {
	w.t.Helper()
	head := w.partition(shop).Head
	return intent.Incarnation{
		ID: at(int(head.Sequence) + 1), Parent: head, Author: alice, Created: noon,
		Sources: []intent.SourceRevision{{Source: "dir", Revision: fmt.Sprint(head.Sequence + 1)}},
	}
}

// publish makes the next incarnation of a delta on head.
func (w *world) publish(delta ...store.Entry) intent.Incarnation {
	w.t.Helper()
	next := w.next()
	w.must(w.Stage(w.t.Context(), w.lease, next.Parent, delta))
	published, err := w.Publish(w.t.Context(), w.lease, next)
	w.must(err)
	return published
}

// content is what an incarnation says, read back through members and bodies.
func content(t interface {
	Helper()
	Fatal(arguments ...any)
}, s store.All, id intent.IncarnationID) map[intent.AssetID]string {
	t.Helper()
	contents := map[intent.AssetID]string{}
	for cursor := intent.AssetID(""); ; {
		page, err := s.Members(context.Background(), id, store.AssetFilter{After: cursor, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			body, err := s.Body(context.Background(), m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			contents[m.Asset] = string(body)
			cursor = m.Asset
		}
		if len(page) == 0 {
			return contents
		}
	}
}

// selectAssets lists, page by page, the assets that a filter selects.
func selectAssets(t interface {
	Helper()
	Fatal(arguments ...any)
}, s store.All, id intent.IncarnationID, filter store.AssetFilter) (assets []intent.AssetID) {
	t.Helper()
	for {
		page, err := s.Members(context.Background(), id, filter)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			assets = append(assets, m.Asset)
			filter.After = m.Asset
		}
		if len(page) == 0 {
			return assets
		}
	}
}

// admission of a push of an asset of shop to the incarnation.
func (w *world) admission(push, asset string, target intent.IncarnationID) store.Admission {
	w.t.Helper()
	return store.Admission{
		Push: intent.PushID(push), Asset: intent.AssetID(asset), Target: target,
		Effective: digestOf("x"), Plan: intent.Sum("test.plan", []byte(asset)),
		Revision: w.revision(), Checks: []string{"order", "hold"}, At: noon,
	}
}

// admitted fails the test unless the admission is granted.
func (w *world) admitted(a store.Admission) {
	w.t.Helper()
	refusals, err := w.Admit(w.t.Context(), w.lease, []store.Admission{a})
	w.must(err)
	if len(refusals) != 1 || refusals[0] != nil {
		w.t.Fatalf("push %s of %q was refused: %+v", a.Push, a.Asset, refusals[0].Waiting)
	}
}

// waits fails the test unless the admission is refused for the reason.
func (w *world) waits(a store.Admission, kind intent.WaitingKind) intent.WaitingOn {
	w.t.Helper()
	refusals, err := w.Admit(w.t.Context(), w.lease, []store.Admission{a})
	w.must(err)
	if len(refusals) != 1 || refusals[0] == nil {
		w.t.Fatalf("push %s of %q was admitted, it should wait for %q", a.Push, a.Asset, kind)
	}
	waiting := refusals[0].Waiting
	if waiting.Kind != kind || waiting.Reason == "" {
		w.t.Fatalf("push %s of %q waits for %q (%s), want %q and a reason", a.Push, a.Asset, waiting.Kind, waiting.Reason, kind)
	}
	return waiting
}

func (w *world) closePush(push, ending string) {
	w.t.Helper()
	w.must(w.ClosePushes(w.t.Context(), w.lease, []store.Closing{{Push: intent.PushID(push), Ending: ending, At: noon}}))
}
