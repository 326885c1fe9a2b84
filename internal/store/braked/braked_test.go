package braked_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/braked"
	"lehr.dev/internal/store/sqlite"
)

const shop intent.PartitionID = "shop"

var operator = intent.Actor{Name: "operator", Origin: "test"}

// ill is a store that cannot take a stop: each call of SetStop ends with the error, or
// hangs until it is well.
type ill struct {
	store.All
	mu   sync.Mutex
	err  error
	hang chan struct{}
}

func (i *ill) is(err error, hang chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.err, i.hang = err, hang
}

func (i *ill) SetStop(ctx context.Context, stop intent.Stop) error {
	i.mu.Lock()
	err, hang := i.err, i.hang
	i.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if err != nil {
		return err
	}
	return i.All.SetStop(ctx, stop)
}

func (i *ill) TokenByID(ctx context.Context, id string) (store.Token, error) {
	if err := i.trouble(ctx); err != nil {
		return store.Token{}, err
	}
	return i.All.TokenByID(ctx, id)
}

func (i *ill) Authority(ctx context.Context) (store.Authority, error) {
	if err := i.trouble(ctx); err != nil {
		return store.Authority{}, err
	}
	return i.All.Authority(ctx)
}

// trouble is the error, or that it hung for as long as the context lets it.
func (i *ill) trouble(ctx context.Context) error {
	i.mu.Lock()
	err, hang := i.err, i.hang
	i.mu.Unlock()
	if hang == nil {
		return err
	}
	select {
	case <-hang:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "reading: %w", ctx.Err())
	}
}

func open(t *testing.T) (*ill, store.Lease) {
	t.Helper()
	db, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), sqlite.Options{DB: db, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		db.Close()
	})
	if err := s.AddPartition(t.Context(), shop, "/lehr.yaml", "test", operator); err != nil {
		t.Fatal(err)
	}
	lease, err := s.Acquire(t.Context(), shop, "test")
	if err != nil {
		t.Fatal(err)
	}
	return &ill{All: s}, lease
}

func brakedOf(t *testing.T, s store.All, beside string) *braked.Store {
	t.Helper()
	b, err := braked.New(s, braked.Options{Beside: beside, Runtime: loop.Real(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var full = fault.New(fault.Unavailable, "the disk is full")

func stopOf(partition intent.PartitionID) intent.Stop {
	return intent.Stop{Partition: partition, Owner: operator, Reason: "fire"}
}

// isStopped asks for a permit and for an admission.
func isStopped(t *testing.T, s *braked.Store, lease store.Lease) {
	t.Helper()
	if err := s.Permit(t.Context(), lease, "shop/1", time.Now()); !fault.Is(err, fault.Conflict) {
		t.Errorf("a permit: %v", err)
	}
	refusals, err := s.Admit(t.Context(), lease, []store.Admission{{Push: "shop/1", Asset: "a"}, {Push: "shop/2", Asset: "b"}})
	if err != nil || len(refusals) != 2 || refusals[0] == nil || refusals[0].Waiting.Kind != intent.WaitStop || refusals[1] == nil {
		t.Errorf("an admission: %v %v", refusals, err)
	}
}

func stops(t *testing.T, s store.All) []intent.Stop {
	t.Helper()
	found, err := s.Stops(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// run has the store mended in the background, until the test ends.
func run(t *testing.T, s *braked.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
}

// TestAStopCountsBeforeTheStoreHasIt: of one partition and of all; a server that starts
// finds it, the store takes it when it can, and it ends then, once.
func TestAStopCountsBeforeTheStoreHasIt(t *testing.T) {
	for name, scope := range map[string]intent.PartitionID{"all": "", "one": shop} {
		t.Run(name, func(t *testing.T) {
			below, lease := open(t)
			beside := filepath.Join(t.TempDir(), "lehr.db")
			s := brakedOf(t, below, beside)
			below.is(full, nil)
			if err := s.SetStop(t.Context(), stopOf(scope)); err != nil {
				t.Fatal(err)
			}
			isStopped(t, s, lease)
			if got := s.Unwritten(); len(got) != 1 || got[0].Reach != intent.ReachFile || len(stops(t, s)) != 1 || len(stops(t, below)) != 0 {
				t.Errorf("it got to %+v", got)
			}
			if err := s.Resume(t.Context(), scope, "over", operator); !fault.Is(err, fault.Unavailable) {
				t.Errorf("its end, which cannot be recorded: %v", err)
			}
			isStopped(t, s, lease)
			// The server ends, and another starts.
			next := brakedOf(t, below, beside)
			isStopped(t, next, lease)
			run(t, next)
			below.is(nil, nil)
			await(t, "the store takes it", func() bool { return len(stops(t, below)) == 1 && len(next.Unwritten()) == 0 })
			if err := next.Resume(t.Context(), scope, "over", operator); err != nil {
				t.Fatal(err)
			}
			if last := brakedOf(t, below, beside); len(last.Unwritten()) > 0 || len(stops(t, last)) > 0 || len(stops(t, next)) > 0 {
				t.Error("it came again")
			}
		})
	}
}

// TestAStopThatEndedDoesNotComeAgain ends a stop that the store has and that is still in the
// file: a server that starts then does not find it there.
func TestAStopThatEndedDoesNotComeAgain(t *testing.T) {
	below, _ := open(t)
	beside := filepath.Join(t.TempDir(), "lehr.db")
	s := brakedOf(t, below, beside)
	below.is(full, nil)
	if err := s.SetStop(t.Context(), stopOf(shop)); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(braked.FileOf(beside), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	withStop, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	below.is(nil, nil)
	await(t, "the store takes it", func() bool {
		return len(s.Unwritten()) == 0 && len(stops(t, below)) == 1 && len(brakedOf(t, below, beside).Unwritten()) == 0
	})
	if _, err := file.WriteAt(withStop, 0); err != nil { // As if its removal were still to come.
		t.Fatal(err)
	}
	if err := s.Resume(t.Context(), shop, "over", operator); err != nil {
		t.Fatal(err)
	}
	if last := brakedOf(t, below, beside); len(last.Unwritten()) > 0 || len(stops(t, last)) > 0 {
		t.Errorf("it came again: %+v", stops(t, last))
	}
}

// TestAStopWhereNothingCanBeWritten: with no file either, memory counts, and says that a
// restart forgets it.
func TestAStopWhereNothingCanBeWritten(t *testing.T) {
	below, lease := open(t)
	s := brakedOf(t, below, filepath.Join(t.TempDir(), "not", "there", "lehr.db"))
	run(t, s)
	below.is(full, nil)
	if err := s.SetStop(t.Context(), stopOf(shop)); err != nil {
		t.Fatal(err)
	}
	isStopped(t, s, lease)
	if got := s.Unwritten(); len(got) != 1 || got[0].Reach != intent.ReachMemory {
		t.Errorf("it got to %+v", got)
	}
	below.is(nil, nil)
	await(t, "the store takes it", func() bool { return len(stops(t, below)) == 1 && len(s.Unwritten()) == 0 })
}

// TestAStopOfAStoreThatHangs: it is in force at once, and answered.
func TestAStopOfAStoreThatHangs(t *testing.T) {
	below, lease := open(t)
	s := brakedOf(t, below, filepath.Join(t.TempDir(), "lehr.db"))
	well := make(chan struct{})
	below.is(nil, well)
	answered := make(chan error, 1)
	go func() { answered <- s.SetStop(t.Context(), stopOf("")) }()
	await(t, "it is in force", func() bool {
		return fault.Is(s.Permit(t.Context(), lease, "shop/1", time.Now()), fault.Conflict) && len(s.Unwritten()) == 1
	})
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	isStopped(t, s, lease)
	close(well)
	await(t, "the store takes it", func() bool { return len(stops(t, below)) == 1 && len(s.Unwritten()) == 0 })
}

// TestWhatTheStoreRefusesIsNoStop: of a partition that is not there, or by who may not.
func TestWhatTheStoreRefusesIsNoStop(t *testing.T) {
	below, _ := open(t)
	beside := filepath.Join(t.TempDir(), "lehr.db")
	s := brakedOf(t, below, beside)
	if err := s.SetStop(t.Context(), stopOf("another")); !fault.Is(err, fault.NotFound) {
		t.Errorf("of what is not there: %v", err)
	}
	below.is(fault.New(fault.Denied, "you may not"), nil)
	if err := s.SetStop(t.Context(), stopOf(shop)); !fault.Is(err, fault.Denied) {
		t.Errorf("by who may not: %v", err)
	}
	if len(s.Unwritten()) > 0 || len(brakedOf(t, below, beside).Unwritten()) > 0 {
		t.Error("it is in force")
	}
}

// TestAnotherProcessWritesAStop: as lehr stop does beside a server.
func TestAnotherProcessWritesAStop(t *testing.T) {
	below, lease := open(t)
	beside := filepath.Join(t.TempDir(), "lehr.db")
	s, other := brakedOf(t, below, beside), brakedOf(t, below, beside)
	below.is(errors.New("the disk is full"), nil)
	if err := other.SetStop(t.Context(), stopOf("")); err != nil {
		t.Fatal(err)
	}
	if refusals, err := s.Admit(t.Context(), lease, []store.Admission{{Push: "shop/1"}}); err != nil || refusals[0] == nil {
		t.Errorf("it is admitted: %v", err)
	}
	run(t, s)
	below.is(nil, nil)
	await(t, "the store takes it", func() bool { return len(stops(t, below)) == 1 && len(s.Unwritten()) == 0 })
}

// TestWorkflowsEditNothingWhileStopped: a step with an edit is refused by a stop that the store does
// not have yet; one without goes on.
func TestWorkflowsEditNothingWhileStopped(t *testing.T) {
	below, lease := open(t)
	s := brakedOf(t, below, filepath.Join(t.TempDir(), "lehr.db"))
	ctx := t.Context()
	if _, err := s.CreateDocument(ctx, shop, "knobs", []byte(`{"a":1}`), "begun", operator); err != nil {
		t.Fatal(err)
	}
	started, err := s.StartWorkflow(ctx, intent.WorkflowRun{Partition: shop, Workflow: "promote", Actions: map[string]intent.WorkflowAction{"set": {}}}, nil, intent.Operator)
	if err != nil {
		t.Fatal(err)
	}
	partition, err := s.Partition(ctx, shop)
	if err != nil {
		t.Fatal(err)
	}
	below.is(full, nil)
	if err := s.SetStop(ctx, stopOf(shop)); err != nil {
		t.Fatal(err)
	}
	if started, err = s.StepWorkflow(ctx, lease, store.WorkflowStep{Run: started}); err != nil {
		t.Fatalf("a step without an edit: %v", err)
	}
	edit := store.WorkflowStep{
		Run: started, Document: "knobs", EditKey: "set", Revision: partition.Revision, By: intent.WorkflowHolder(shop, "promote"),
		Edit: &document.Edit{Base: "1", Operations: []document.Operation{{Path: "/a", Value: []byte("2")}}, Reason: "promoted"},
	}
	if _, err := s.StepWorkflow(ctx, lease, edit); !fault.Is(err, fault.Conflict) {
		t.Errorf("a step with an edit: %v, want a conflict", err)
	}
	if doc, err := s.Document(ctx, shop, "knobs", ""); err != nil || doc.Revision.ID != "1" {
		t.Errorf("the document is at revision %s: %v", doc.Revision.ID, err)
	}
	below.is(nil, nil)
	if err := s.Resume(ctx, shop, "over", operator); err != nil {
		t.Fatal(err)
	}
	if partition, err = s.Partition(ctx, shop); err != nil {
		t.Fatal(err)
	}
	edit.Revision = partition.Revision
	if _, err := s.StepWorkflow(ctx, lease, edit); err != nil {
		t.Errorf("after the stop: %v", err)
	}
}

// TestAServerThatStoodStillReadsTheFileFirst: while it does, another process stops; once it
// goes on it permits nothing by what it knew before.
func TestAServerThatStoodStillReadsTheFileFirst(t *testing.T) {
	below, lease := open(t)
	beside := filepath.Join(t.TempDir(), "lehr.db")
	s, other := brakedOf(t, below, beside), brakedOf(t, below, beside)
	below.is(full, nil)
	if err := other.SetStop(t.Context(), stopOf(shop)); err != nil {
		t.Fatal(err)
	}
	await(t, "it reads the file, which nothing does for it", func() bool {
		err := s.Permit(t.Context(), lease, "shop/1", time.Now())
		return fault.Is(err, fault.Conflict) && len(s.Unwritten()) == 1
	})
}

// TestABrakeFileThatIsAPipe is not waited for.
func TestABrakeFileThatIsAPipe(t *testing.T) {
	below, _ := open(t)
	beside := filepath.Join(t.TempDir(), "lehr.db")
	if err := syscall.Mkfifo(braked.FileOf(beside), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := braked.New(below, braked.Options{Beside: beside, Runtime: loop.Real(), Log: slog.New(slog.DiscardHandler)})
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
}

// TestABrakeFileThatIsCutOff: whatever of the newer half is lost, the older counts; where
// neither is whole nobody serves by it.
func TestABrakeFileThatIsCutOff(t *testing.T) {
	below, _ := open(t)
	beside := filepath.Join(t.TempDir(), "lehr.db")
	s := brakedOf(t, below, beside)
	below.is(full, nil)
	for _, scope := range []intent.PartitionID{"", shop} {
		if err := s.SetStop(t.Context(), stopOf(scope)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(braked.FileOf(beside))
	if err != nil {
		t.Fatal(err)
	}
	half := len(whole) / 2
	read := func(content []byte) ([]intent.Stop, error) {
		if err := os.WriteFile(braked.FileOf(beside), content, 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := braked.New(below, braked.Options{Beside: beside, Runtime: loop.Real(), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, err
		}
		return b.Unwritten(), nil
	}
	for cut := 1; cut < 400; cut += 7 {
		torn := slices.Clone(whole)
		for i := half + cut; i < len(torn); i++ {
			torn[i] = 0
		}
		if got, err := read(torn); err != nil || len(got) == 0 || got[0].Partition != "" {
			t.Fatalf("cut at %d: %+v, %v", cut, got, err)
		}
	}
	torn := slices.Clone(whole)
	torn[20], torn[half+20] = torn[20]+1, torn[half+20]+1
	if got, err := read(torn); err == nil {
		t.Errorf("neither half is whole, and it says %+v", got)
	}
}

// TestWhoMayStopIsRemembered: while the store that has the tokens is lost, whoever might stop
// the day before may; nobody else may, and nothing else is allowed by it.
func TestWhoMayStopIsRemembered(t *testing.T) {
	below, _ := open(t)
	s := brakedOf(t, below, filepath.Join(t.TempDir(), "lehr.db"))
	grants := []intent.Grant{
		{Role: intent.Operator, Subject: "user:ann", Partition: shop}, {Role: intent.Viewer, Subject: "user:bob", Partition: shop}, {Role: intent.Operator, Subject: "user:late", Partition: shop},
	}
	if err := s.SetPolicy(t.Context(), grants, operator); err != nil {
		t.Fatal(err)
	}
	callers := map[string]context.Context{}
	for _, name := range []string{"ann", "bob", "late", "gone"} {
		token, err := s.CreateToken(t.Context(), store.Token{ID: name + "s", Owner: name, Hash: [32]byte{1}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		callers[name] = store.WithCaller(t.Context(), store.Caller{Actor: intent.Actor{Name: name, Origin: "cli"}, Token: token.ID})
	}
	for _, name := range []string{"ann", "bob", "gone"} { // late never called.
		if err := s.Authorize(callers[name], intent.Viewer, shop); (err == nil) != (name != "gone") {
			t.Fatalf("%s as a viewer: %v", name, err)
		}
	}
	for trouble, start := range map[string]func() (end func()){
		"fails": func() func() {
			below.is(fault.New(fault.Unavailable, "the database is gone"), nil)
			return func() { below.is(nil, nil) }
		},
		"hangs": func() func() {
			hang := make(chan struct{})
			below.is(nil, hang)
			return func() { close(hang); below.is(nil, nil) }
		},
	} {
		end := start()
		if token, err := s.TokenByID(t.Context(), "anns"); err != nil || token.Owner != "ann" {
			t.Errorf("%s: ann's token: %+v, %v", trouble, token, err)
		}
		if err := s.AuthorizeStop(callers["ann"], intent.Operator, shop); err != nil {
			t.Errorf("%s: ann stops her partition: %v", trouble, err)
		}
		if err := s.AuthorizeStop(callers["ann"], intent.Operator, ""); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: ann stops all: %v", trouble, err)
		}
		if err := s.AuthorizeStop(callers["bob"], intent.Operator, shop); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: a viewer stops: %v", trouble, err)
		}
		if trouble == "fails" {
			if err := s.AuthorizeStop(callers["late"], intent.Operator, shop); !fault.Is(err, fault.Unavailable) {
				t.Errorf("who never called: %v", err)
			}
			if _, err := s.TokenByID(t.Context(), "lates"); !fault.Is(err, fault.Unavailable) {
				t.Errorf("a token that nobody bore: %v", err)
			}
			if err := s.Authorize(callers["ann"], intent.Operator, shop); !fault.Is(err, fault.Unavailable) {
				t.Errorf("anything else than a stop: %v", err)
			}
		}
		end()
	}
	if _, err := s.RevokeToken(t.Context(), "anns", "she left"); err != nil {
		t.Fatal(err)
	}
	below.is(fault.New(fault.Unavailable, "the database is gone"), nil)
	if err := s.AuthorizeStop(callers["ann"], intent.Operator, shop); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a token that was revoked: %v", err)
	}
}
