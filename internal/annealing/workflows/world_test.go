package workflows

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	commandpb "lehr.dev/gen/lehr/command/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

const shop intent.PartitionID = "shop"

var ann = intent.Actor{Name: "ann", Origin: "test"}

// world is a real store with a partition, in which the test plays who builds, who enforces and
// who answers calls. Each pass is made by a driver that remembers nothing, unless a test keeps
// one.
type world struct {
	t     *testing.T
	store *sqlite.Store
	clock time.Time
	// ticks guards clock, which the store's goroutines read.
	ticks   sync.Mutex
	lease   store.Lease
	entries map[intent.AssetID]store.Entry
	refused byte
	// call answers calls; nil: nobody does.
	call func(context.Context, Call) (Answer, error)
	// lost: the answer to the next step is.
	lost bool
	// rival steps the run before the driver does.
	rival func(step store.WorkflowStep)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, clock: time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC), entries: map[intent.AssetID]store.Entry{}}
	db, err := sqlite.Memory()
	w.must(err)
	w.store, err = sqlite.Open(t.Context(), sqlite.Options{DB: db, Runtime: clock{loop.Real(), w}, Log: slog.New(slog.DiscardHandler)})
	w.must(err)
	t.Cleanup(func() { w.store.Close(); db.Close() })
	w.must(w.store.AddPartition(t.Context(), shop, "/shop/lehr.yaml", "a try", ann))
	w.lease, err = w.store.Acquire(t.Context(), shop, "server")
	w.must(err)
	_, err = w.store.CreateDocument(t.Context(), shop, "knobs", []byte(`{"web":"1","db":"1","count":3}`), "from the wiki", ann)
	w.must(err)
	w.build()
	w.enforce()
	return w
}

type clock struct {
	loop.Runtime
	*world
}

func (c clock) Now() time.Time {
	c.ticks.Lock()
	defer c.ticks.Unlock()
	return c.clock
}

func (w *world) tick(d time.Duration) {
	w.ticks.Lock()
	defer w.ticks.Unlock()
	w.clock = w.clock.Add(d)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) document() document.Document {
	w.t.Helper()
	doc, err := w.store.Document(w.t.Context(), shop, "knobs", "")
	w.must(err)
	return doc
}

// build publishes an asset for each field of the document.
func (w *world) build() {
	w.t.Helper()
	doc := w.document()
	var content map[string]any
	w.must(json.Unmarshal(doc.Content, &content))
	next := map[intent.AssetID]store.Entry{}
	for name, value := range content {
		set := schema.Builtin()
		packed, err := set.Pack(&commandpb.Command{Diff: []string{"diff"}, Push: []string{"push"}, Input: string(document.Canonical(value))})
		if number, ok := value.(float64); ok {
			packed, err = set.Pack(&commandpb.Command{Diff: []string{"diff"}, Push: []string{"push"}, Input: time.Duration(number).String()})
		}
		w.must(err)
		id := intent.AssetID(name)
		body, digest, err := set.Encode(intent.Asset{ID: id, Payload: packed})
		w.must(err)
		next[id] = store.Entry{Asset: id, Body: body, Member: intent.Member{Asset: id, Type: packed.Type, Digest: digest, Effective: digest}}
	}
	var delta []store.Entry
	for _, asset := range slices.Sorted(maps.Keys(next)) {
		if w.entries[asset].Member.Digest != next[asset].Member.Digest {
			delta = append(delta, next[asset])
		}
	}
	if len(delta) == 0 {
		return
	}
	partition := w.partition()
	w.must(w.store.Unstage(w.t.Context(), w.lease))
	w.must(w.store.Stage(w.t.Context(), w.lease, partition.Head, delta))
	_, err := w.store.Publish(w.t.Context(), w.lease, intent.Incarnation{
		ID: intent.IncarnationID{Partition: shop, Sequence: partition.Head.Sequence + 1}, Parent: partition.Head, Count: len(next), Author: ann, Created: w.clock,
		Schema: schema.Builtin().Digest(), Sources: []intent.SourceRevision{{Source: "knobs", Revision: doc.Revision.ID}},
	})
	w.must(err)
	w.entries = next
}

func (w *world) partition() store.Partition {
	w.t.Helper()
	partition, err := w.store.Partition(w.t.Context(), shop)
	w.must(err)
	return partition
}

// enforce reports all assets in sync with head, but those that wait.
func (w *world) enforce(waiting ...intent.AssetID) {
	w.t.Helper()
	var reports []intent.Report
	for asset, e := range w.entries {
		report := intent.Report{Partition: shop, Asset: asset, Type: e.Member.Type, At: w.clock, State: intent.StateInSync, Effective: e.Member.Effective}
		if slices.Contains(waiting, asset) {
			report.State, report.Waiting = intent.StateWaiting, []intent.WaitingOn{{Kind: intent.WaitHold, Reason: "ann looks"}}
		}
		reports = append(reports, report)
	}
	w.must(w.store.SaveReports(w.t.Context(), w.lease, reports))
}

// refuse what is built of the document.
func (w *world) refuse(message string) {
	w.t.Helper()
	w.refused++
	w.must(w.store.SaveCandidate(w.t.Context(), w.lease, intent.Candidate{
		ID: intent.CandidateID{Partition: shop, Digest: intent.Digest{w.refused}}, Base: w.partition().Head, State: intent.CandidateRejected, Created: w.clock,
		Sources:  []intent.SourceRevision{{Source: "knobs", Revision: w.document().Revision.ID}},
		Findings: []intent.Finding{{Rule: "limit", Severity: intent.Error, Message: message}},
	}, nil))
}

// set a field of knobs to a text, as a person does.
func (w *world) set(field, value string) {
	w.t.Helper()
	text, err := json.Marshal(value)
	w.must(err)
	w.edit("knobs", field, string(text))
}

func (w *world) edit(name, field, value string) {
	w.t.Helper()
	doc, err := w.store.Document(w.t.Context(), shop, name, "")
	w.must(err)
	_, err = w.store.EditDocument(w.t.Context(), shop, name, document.Edit{
		Base: doc.Revision.ID, Reason: "a try", Operations: []document.Operation{{Path: field, Value: json.RawMessage(value)}},
	}, ann)
	w.must(err)
}

// start a run of a definition, as the server does.
func (w *world) start(text string, inputs map[string]workflow.Value) intent.WorkflowRun {
	w.t.Helper()
	definition, findings := workflow.Read("try.yaml", []byte(text))
	if definition == nil {
		w.t.Fatalf("%+v", findings)
	}
	result, err := definition.Start(inputs, nil, w.clock)
	w.must(err)
	run := intent.WorkflowRun{
		Partition: shop, Workflow: definition.Name, Digest: definition.Digest(), Text: text, Started: w.clock, By: ann, Sources: map[string]string{"knobs": "knobs"},
	}
	w.must(workflow.UpdateRow(&run, result, w.clock))
	rows := workflow.Record(definition, workflow.Run{}, workflow.Event{}, result, ann)
	run, err = w.store.StartWorkflow(w.t.Context(), run, rows, intent.Operator)
	w.must(err)
	return run
}

// interposed loses answers.
type interposed struct {
	*sqlite.Store
	w *world
}

var errLost = fault.New(fault.Unavailable, "the answer was lost")

func (i interposed) StepWorkflow(ctx context.Context, lease store.Lease, step store.WorkflowStep) (intent.WorkflowRun, error) {
	if i.w.rival != nil {
		i.w.rival(step)
	}
	run, err := i.Store.StepWorkflow(ctx, lease, step)
	if err == nil && i.w.lost {
		i.w.lost = false
		return intent.WorkflowRun{}, errLost
	}
	return run, err
}

// driver that was just started.
func (w *world) driver() *Driver {
	d := New(Options{Partition: shop, Store: interposed{w.store, w}, Runtime: clock{loop.Real(), w}, Log: slog.New(slog.DiscardHandler), Call: w.call})
	d.lease = w.lease
	return d
}

// pass of a new driver.
func (w *world) pass() {
	w.t.Helper()
	_, err := w.driver().pass(w.t.Context())
	w.must(err)
}

func (w *world) run(number uint64) intent.WorkflowRun {
	w.t.Helper()
	run, err := w.store.WorkflowRun(w.t.Context(), shop, number)
	w.must(err)
	return run
}

// expectState fails the test unless a machine of a run is in a state.
func (w *world) expectState(number uint64, machine, want string) {
	w.t.Helper()
	run := w.run(number)
	definition, _ := workflow.Read("try.yaml", []byte(run.Text))
	state, err := workflow.StateOf(run)
	w.must(err)
	for i, m := range definition.Machines {
		if m.Name == machine && state.Machines[i].State != want {
			w.t.Fatalf("%s is %s (%s %s), want %s; it waits: %+v", machine, state.Machines[i].State, state.Machines[i].Outcome, state.Machines[i].Reason, want, run.Actions)
		}
	}
}

// waiting is what an action of a run waits for.
func (w *world) waiting(number uint64, key string) string {
	w.t.Helper()
	return w.run(number).Actions[key].Waiting
}

// events counts the rows of a kind in a run's history.
func (w *world) events(number uint64, kind intent.WorkflowEventKind) (count int) {
	w.t.Helper()
	rows, err := w.store.WorkflowEvents(w.t.Context(), shop, number, store.WorkflowEventFilter{})
	w.must(err)
	for _, row := range rows {
		if row.Kind == kind {
			count++
		}
	}
	return count
}

// revisions of the document.
func (w *world) revisions() int {
	w.t.Helper()
	all, err := w.store.DocumentRevisions(w.t.Context(), shop, "knobs", "", 0)
	w.must(err)
	return len(all)
}
