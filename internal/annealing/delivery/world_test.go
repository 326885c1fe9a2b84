package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

const (
	shop intent.PartitionID = "shop"
	eu   intent.PartitionID = "eu"
)

var ann = intent.Actor{Name: "ann", Origin: "test"}

// world is a real store with partitions, in which the test plays who builds and who enforces.
// Delivery is stepped pass by pass, each time by an actor that remembers nothing.
type world struct {
	t     *testing.T
	store *sqlite.Store
	clock time.Time
	// ticks guards clock, which the store's goroutines read.
	ticks  sync.Mutex
	leases map[intent.PartitionID]store.Lease
	// policies of partitions, and what was published of them last.
	policies map[intent.PartitionID]*intentpb.Policy
	entries  map[intent.PartitionID]map[intent.AssetID]store.Entry
	// meanwhile is done once, between what an actor read and what it writes.
	meanwhile func()
	// lost: the answer to the next step is.
	lost bool
	// knob is what else the assets of the environment test are made of.
	knob string
	// refused counts the candidates that were refused.
	refused byte
	// repository has the document of that partition; nil: the store has all.
	repository   *repository
	repositoryOf intent.PartitionID
	// reader of the actors; nil: each pass has one of its own.
	reader *Reader
}

func newWorld(t *testing.T, spec *intentpb.Delivery) *world {
	w := &world{
		t: t, clock: time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC), leases: map[intent.PartitionID]store.Lease{}, policies: map[intent.PartitionID]*intentpb.Policy{},
		entries: map[intent.PartitionID]map[intent.AssetID]store.Entry{},
	}
	db, err := sqlite.Memory()
	w.must(err)
	w.store, err = sqlite.Open(t.Context(), sqlite.Options{DB: db, Runtime: clock{loop.Real(), w}, Log: slog.New(slog.DiscardHandler)})
	w.must(err)
	t.Cleanup(func() { w.store.Close(); db.Close() })
	w.open(shop, &intentpb.Policy{Deliveries: []*intentpb.Delivery{spec}})
	return w
}

// clock of the store is the world's.
type clock struct {
	loop.Runtime
	*world
}

func (c clock) Now() time.Time {
	c.ticks.Lock()
	defer c.ticks.Unlock()
	return c.clock
}

// tick moves the clock on.
func (w *world) tick(d time.Duration) {
	w.ticks.Lock()
	defer w.ticks.Unlock()
	w.clock = w.clock.Add(d)
}

// open registers a partition, with a document of versions.
func (w *world) open(id intent.PartitionID, policy *intentpb.Policy) {
	w.t.Helper()
	ctx := w.t.Context()
	w.must(w.store.AddPartition(ctx, id, "/"+string(id)+"/lehr.yaml", "a try", ann))
	lease, err := w.store.Acquire(ctx, id, "server")
	w.must(err)
	w.leases[id], w.policies[id] = lease, policy
	_, err = w.store.CreateDocument(ctx, id, "knobs", []byte(`{"test":{"version":"1.0.0"},"production":{"version":"1.0.0"}}`), "from the wiki", ann)
	w.must(err)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) entry(id intent.AssetID, payload proto.Message) store.Entry {
	set := schema.Builtin()
	packed, err := set.Pack(payload)
	w.must(err)
	body, digest, err := set.Encode(intent.Asset{ID: id, Payload: packed})
	w.must(err)
	return store.Entry{Asset: id, Body: body, Member: intent.Member{Asset: id, Type: packed.Type, Digest: digest, Effective: digest}}
}

// build publishes what the documents of a partition say: an asset for each environment in them.
func (w *world) build(id intent.PartitionID) {
	w.t.Helper()
	ctx := w.t.Context()
	doc, err := w.store.Document(ctx, id, "knobs", "")
	if w.repository != nil && id == w.repositoryOf {
		doc, err = w.repository.Read(ctx, id, "knobs")
	}
	w.must(err)
	var content map[string]struct {
		Version string `json:"version"`
	}
	w.must(json.Unmarshal(doc.Content, &content))
	next := map[intent.AssetID]store.Entry{intent.PolicyAsset: w.entry(intent.PolicyAsset, w.policies[id])}
	for name, e := range content {
		asset := intent.AssetID("web/" + name)
		if name == "test" {
			e.Version += w.knob
		}
		next[asset] = w.entry(asset, &commandpb.Command{Diff: []string{"diff"}, Push: []string{"push"}, Input: e.Version})
	}
	var delta []store.Entry
	for _, asset := range slices.Sorted(maps.Keys(next)) {
		if w.entries[id][asset].Member.Digest != next[asset].Member.Digest {
			delta = append(delta, next[asset])
		}
	}
	partition, err := w.store.Partition(ctx, id)
	w.must(err)
	sources := []intent.SourceRevision{{Source: "knobs", Revision: doc.Revision.ID}}
	if len(delta) == 0 {
		return
	}
	w.must(w.store.Unstage(ctx, w.leases[id]))
	w.must(w.store.Stage(ctx, w.leases[id], partition.Head, delta))
	_, err = w.store.Publish(ctx, w.leases[id], intent.Incarnation{
		ID: intent.IncarnationID{Partition: id, Sequence: partition.Head.Sequence + 1}, Parent: partition.Head, Count: len(next), Author: ann, Created: w.clock,
		Policy: next[intent.PolicyAsset].Member.Digest, Schema: schema.Builtin().Digest(), Sources: sources,
	})
	w.must(err)
	w.entries[id] = next
}

// refuse has what is built of a partition's document refused for findings; none: nothing is built.
func (w *world) refuse(findings []intent.Finding) {
	w.t.Helper()
	if len(findings) == 0 {
		return
	}
	doc, err := w.store.Document(w.t.Context(), shop, "knobs", "")
	w.must(err)
	partition, err := w.store.Partition(w.t.Context(), shop)
	w.must(err)
	w.refused++
	w.must(w.store.SaveCandidate(w.t.Context(), w.leases[shop], intent.Candidate{
		ID: intent.CandidateID{Partition: shop, Digest: intent.Digest{w.refused}}, Base: partition.Head, State: intent.CandidateRejected,
		Sources: []intent.SourceRevision{{Source: "knobs", Revision: doc.Revision.ID}}, Findings: findings, Created: w.clock,
	}, nil))
}

// enforce reports all assets of a partition in sync with head, but those that fail.
func (w *world) enforce(id intent.PartitionID, failing ...intent.AssetID) {
	w.t.Helper()
	var reports []intent.Report
	for asset, e := range w.entries[id] {
		report := intent.Report{Partition: id, Asset: asset, Type: e.Member.Type, At: w.clock, State: intent.StateInSync, Effective: e.Member.Effective}
		if slices.Contains(failing, asset) {
			report.State, report.Waiting = intent.StateWaiting, []intent.WaitingOn{{Kind: intent.WaitBackoff}}
		}
		reports = append(reports, report)
	}
	w.must(w.store.SaveReports(w.t.Context(), w.leases[id], reports))
}

// interposed lets something happen between reading and writing, and loses answers.
type interposed struct {
	*sqlite.Store
	w *world
}

var errLost = fault.New(fault.Unavailable, "the answer was lost")

func (i interposed) Promote(ctx context.Context, lease store.Lease, step store.PromotionStep) error {
	if meanwhile := i.w.meanwhile; meanwhile != nil {
		i.w.meanwhile = nil
		meanwhile()
	}
	err := i.Store.Promote(ctx, lease, step)
	if err == nil && i.w.lost {
		i.w.lost = false
		return errLost
	}
	return err
}

type schemas struct{}

func (schemas) Schema(context.Context, intent.PartitionID, intent.Digest) (*schema.Set, error) {
	return schema.Builtin(), nil
}

// pass has the actor of a partition look once, as one that was just started.
func (w *world) pass(id intent.PartitionID) (time.Duration, error) {
	d := New(Options{
		Partition: id, Store: interposed{w.store, w}, Reader: w.readerOfNow(), Runtime: clock{loop.Real(), w}, Log: slog.New(slog.DiscardHandler),
	})
	d.lease = w.leases[id]
	return d.pass(w.t.Context())
}

func (w *world) readerOfNow() *Reader {
	if w.reader != nil {
		return w.reader
	}
	return &Reader{Store: w.store, Schemas: schemas{}}
}

// goOn has all partitions built, enforced and delivered until nothing is left to do now.
func (w *world) goOn() {
	w.t.Helper()
	const most = 100
	for range most {
		quietEverywhere := true
		for _, id := range slices.Sorted(maps.Keys(w.leases)) {
			w.build(id)
			w.enforce(id)
			pause, err := w.pass(id)
			if err != nil && !fault.Is(err, fault.Conflict) {
				w.t.Fatal(err)
			}
			quietEverywhere = quietEverywhere && err == nil && pause != 0
		}
		if w.tick(time.Second); quietEverywhere {
			return
		}
	}
	w.t.Fatal("delivery does not come to rest")
}

// list says which versions the source has.
func (w *world) list(names ...string) {
	w.t.Helper()
	var versions []intent.Version
	for _, name := range names {
		versions = append(versions, intent.Version{VersionName: intent.VersionName{Name: name, Digest: "sha256:" + name}})
	}
	w.must(w.store.SaveVersions(w.t.Context(), w.leases[shop], "images", versions))
}

// say adds a row of a person.
func (w *world) say(row intent.DeliveryRecord) {
	w.t.Helper()
	row.Partition, row.Application, row.By, row.Reason = shop, "web", ann, "I say so"
	if row.Version.Name != "" {
		row.Version.Digest = "sha256:" + row.Version.Name
	}
	_, err := w.store.RecordDelivery(w.t.Context(), row, store.DeliveryAuthority{Partition: shop, AnyOf: []intent.Role{intent.Operator}})
	w.must(err)
	w.tick(time.Second)
}

func (w *world) act(act, environment, version string) {
	w.t.Helper()
	w.say(intent.DeliveryRecord{Kind: intent.DeliveryAct, Act: act, Environment: environment, Version: intent.VersionName{Name: version}})
}

func (w *world) approve(version string) {
	w.t.Helper()
	w.say(intent.DeliveryRecord{Kind: intent.DeliveryVote, Environment: "production", Constraint: "people", Version: intent.VersionName{Name: version}, Good: true})
}

// expectVersion fails the test unless a field of a partition's document holds a version.
func (w *world) expectVersion(id intent.PartitionID, environment, want string) {
	w.t.Helper()
	doc, err := w.store.Document(w.t.Context(), id, "knobs", "")
	w.must(err)
	have, _, err := fieldOf(doc.Content, "/"+environment+"/version")
	w.must(err)
	if have != want {
		w.t.Fatalf("%s of %s has %s, want %s", environment, id, have, want)
	}
}

// set a field as a person does.
func (w *world) set(id intent.PartitionID, environment, version string) {
	w.t.Helper()
	doc, err := w.store.Document(w.t.Context(), id, "knobs", "")
	w.must(err)
	_, err = w.store.EditDocument(w.t.Context(), id, "knobs", document.Edit{
		Base: doc.Revision.ID, Reason: "a try", Operations: []document.Operation{{Path: "/" + environment + "/version", Value: fmt.Appendf(nil, "%q", version)}},
	}, ann)
	w.must(err)
	w.tick(time.Second)
}

// edits counts those that delivery made of a partition's document.
func (w *world) edits(id intent.PartitionID) (count int) {
	w.t.Helper()
	revisions, err := w.store.DocumentRevisions(w.t.Context(), id, "knobs", "", 0)
	w.must(err)
	for _, r := range revisions {
		if r.By == intent.DeliveryHolder(shop, "web") {
			count++
		}
	}
	return count
}

// moment reads the application as it is.
func (w *world) moment() *Moment {
	w.t.Helper()
	home, err := w.store.Partition(w.t.Context(), shop)
	w.must(err)
	m, err := w.readerOfNow().Read(w.t.Context(), home, w.policies[shop].GetDeliveries()[0])
	w.must(err)
	m.Facts.Now = w.clock
	return m
}

// explained is all that is to say of a version in an environment.
func (w *world) explained(environment, version string) *promotion.Explanation {
	w.t.Helper()
	m := w.moment()
	x, err := m.Application.Decide(m.Catalogue, m.Facts).Explain(environment, m.named(version))
	w.must(err)
	return x
}

// chain is test, then production where people approve.
func chain() *intentpb.Delivery {
	return &intentpb.Delivery{
		Name: "web", Versions: "images", Order: &intentpb.VersionOrder{}, Environments: []*intentpb.DeliveryEnvironment{
			{Name: "test", Document: "knobs", Pointer: "/test/version", Source: "knobs", Assets: `id == "web/test"`},
			{
				Name: "production", Document: "knobs", Pointer: "/production/version", Source: "knobs", Assets: `id == "web/production"`,
				Constraints: []*intentpb.DeliveryConstraint{
					{Name: "tested", Kind: &intentpb.DeliveryConstraint_DependsOn{DependsOn: &intentpb.DependsOn{Environments: []string{"test"}}}},
					{Name: "people", Kind: &intentpb.DeliveryConstraint_Judgement{Judgement: &intentpb.Judgement{}}},
				},
			},
		},
	}
}
