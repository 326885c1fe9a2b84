package landing

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// branch is a document in memory. It counts what was carried out.
type branch struct {
	content   string
	err       error
	landed    []string
	withdrawn []string
	// entered is closed, and gate is waited for, within Land; nil: neither.
	entered, gate chan struct{}
	asked         int
}

func (b *branch) Read(context.Context, intent.PartitionID, string) (document.Document, error) {
	return document.Document{Content: []byte(b.content)}, b.err
}

func (b *branch) Land(_ context.Context, _ intent.PartitionID, _ string, l Landing) (Request, error) {
	if b.gate != nil {
		close(b.entered)
		<-b.gate
	}
	b.landed = append(b.landed, l.ID)
	next, err := document.Apply([]byte(b.content), l.Edit.Operations)
	if err == nil && l.Host == "" {
		b.content = string(next)
	}
	return Request{PullRequest: intent.PullRequest{Number: len(b.landed)}}, err
}

func (b *branch) Withdraw(_ context.Context, _ intent.PartitionID, _ string, l Landing) error {
	b.withdrawn = append(b.withdrawn, l.ID)
	return nil
}

func (b *branch) Includes(context.Context, intent.PartitionID, string, string, string) (bool, error) {
	b.asked++
	return true, b.err
}

func (b *branch) At(context.Context, intent.PartitionID, string, string) (document.Document, error) {
	return document.Document{}, b.err
}

func (b *branch) Since(context.Context, intent.PartitionID, string, string, string) ([]document.Revision, error) {
	return nil, b.err
}

func newVisits(t *testing.T, b *branch) *Visits {
	return New(Options{Partition: "shop", Repositories: b, Runtime: loop.Real(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
}

// setting is a landing that sets a field.
func setting(id, host string, decided bool) Landing {
	return Landing{
		ID: id, Owner: "owner", Document: "knobs", Host: host, Edit: document.Edit{Operations: []document.Operation{{Path: "/size", Value: []byte("2")}}},
		Decided: func(context.Context) bool { return decided },
	}
}

// visitOnce begins a visit that is due, and waits for its end.
func visitOnce(t *testing.T, v *Visits) *Visit {
	t.Helper()
	v.Soon("knobs")
	if next := v.Go(t.Context(), "knobs"); next != soon {
		t.Fatalf("a visit that is due does not begin: the next is in %s", next)
	}
	if err := v.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	last, ok := v.Last("knobs")
	if !ok {
		t.Fatal("the visit is not over")
	}
	return last
}

func TestALandingIsCarriedOutOnce(t *testing.T) {
	b := &branch{content: `{"size":1}`}
	v := newVisits(t, b)
	v.Add(setting("a", "", true))
	last := visitOnce(t, v)
	if o, ok := last.Outcomes["a"]; !ok || o.Err != nil || b.content != `{"size":2}` || string(last.Document.Content) != b.content {
		t.Errorf("%+v, the branch has %s, read %s", last.Outcomes, b.content, last.Document.Content)
	}
	// What is asked for again is there already.
	v.Add(setting("a", "", true))
	if last := visitOnce(t, v); len(last.Outcomes) > 0 || len(b.landed) != 1 {
		t.Errorf("%+v, landed %v", last.Outcomes, b.landed)
	}
	if last := visitOnce(t, v); len(last.Outcomes) > 0 || len(b.landed) != 1 {
		t.Errorf("a landing outlives its visit: %+v, landed %v", last.Outcomes, b.landed)
	}
}

func TestAnOutdatedDecisionIsNotCarriedOut(t *testing.T) {
	b := &branch{content: `{"size":1}`}
	v := newVisits(t, b)
	v.Add(setting("a", "", false))
	v.Add(setting("b", "hub", false))
	if last := visitOnce(t, v); len(last.Outcomes) > 0 || len(b.landed) > 0 || last.Acted() {
		t.Errorf("%+v, landed %v", last.Outcomes, b.landed)
	}
	if next := v.Go(t.Context(), "knobs"); next > visitPause {
		t.Errorf("the next visit is in %s", next)
	}
}

func TestForgottenAndWithdrawn(t *testing.T) {
	b := &branch{content: `{"size":1}`}
	v := newVisits(t, b)
	v.Add(setting("a", "", true))
	v.Forget("owner")
	l := setting("b", "hub", true)
	l.Withdraw = true
	v.Add(l)
	last := visitOnce(t, v)
	if !last.Outcomes["b"].Withdrawn || !slices.Equal(b.withdrawn, []string{"b"}) || len(b.landed) > 0 {
		t.Errorf("%+v, landed %v, withdrawn %v", last.Outcomes, b.landed, b.withdrawn)
	}
}

// A decision must not be made upon what was before a landing that is under way.
func TestRecallTellsWhatHasBegun(t *testing.T) {
	b := &branch{content: `{"size":1}`, entered: make(chan struct{}), gate: make(chan struct{})}
	v := newVisits(t, b)
	v.Add(setting("a", "", true))
	if !v.Recall("owner") {
		t.Error("nothing has begun")
	}
	v.Add(setting("a", "", true))
	v.Soon("knobs")
	v.Go(t.Context(), "knobs")
	<-b.entered
	if v.Recall("owner") {
		t.Error("a landing is under way")
	}
	if !v.Recall("another") {
		t.Error("nothing of another owner has begun")
	}
	close(b.gate)
	if err := v.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v.Recall("owner") {
		t.Error("nobody has read what came of the landing")
	}
	v.Last("knobs")
	if !v.Recall("owner") {
		t.Error("the results were read")
	}
}

func TestFailedVisitsComeSeldom(t *testing.T) {
	b := &branch{err: errors.New("away")}
	v := newVisits(t, b)
	for i := range 8 {
		if last := visitOnce(t, v); !last.Unread() {
			t.Fatalf("visit %d: %+v", i, last)
		}
	}
	v.Go(t.Context(), "knobs")
	if err := v.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.Hurry("knobs")
	if next := v.Go(t.Context(), "knobs"); next < mostVisitPause-time.Minute || next > mostVisitPause {
		t.Errorf("after 8 failures the next visit is in %s", next)
	}
	b.err = nil
	visitOnce(t, v)
	visitOnce(t, v)
	if next := v.Go(t.Context(), "knobs"); next > visitPause {
		t.Errorf("after a good visit the next is in %s", next)
	}
}

func TestQuestionsAreAnsweredOnce(t *testing.T) {
	b := &branch{content: `{}`}
	v := newVisits(t, b)
	if _, ok := v.Includes("knobs", "new", "old"); ok {
		t.Error("nobody has looked yet")
	}
	visitOnce(t, v)
	for range 2 {
		if includes, ok := v.Includes("knobs", "new", "old"); !ok || !includes {
			t.Errorf("includes %t, ok %t", includes, ok)
		}
		visitOnce(t, v)
	}
	if b.asked != 1 {
		t.Errorf("the repository was asked %d times", b.asked)
	}
}
