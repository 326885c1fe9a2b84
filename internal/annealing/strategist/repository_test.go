package strategist_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/landing"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// branch of a repository with one document, and a host of pull requests. Its commits are a line.
type branch struct {
	lock     sync.Mutex
	contents []string
	by       []string
	// built is the commit that head was built of; nothing is built while it is late.
	built string
	late  bool
	// pulls are pull requests by their keys; decided are those that are open no more.
	pulls   []landing.Landing
	decided map[string]landing.Request
	// away: it cannot be read; refuses: it takes nothing; lost: the answer to what lands next is.
	// meanwhile is done before that.
	away, refuses, lost bool
	meanwhile           func()
}

func commitAt(n int) string { return fmt.Sprintf("%07x", n+1) }

// number of a commit; -1: there is none.
func (b *branch) number(commit string) int {
	for n := range b.contents {
		if commitAt(n) == commit {
			return n
		}
	}
	return -1
}

func (b *branch) revision(n int) document.Revision {
	r := document.Revision{ID: commitAt(n), By: intent.Actor{Name: b.by[n], Origin: "git"}}
	if n > 0 {
		r.Changes, _ = document.Compare([]byte(b.contents[n-1]), []byte(b.contents[n]))
	}
	return r
}

func (b *branch) Read(ctx context.Context, partition intent.PartitionID, name string) (document.Document, error) {
	b.lock.Lock()
	n := len(b.contents) - 1
	b.lock.Unlock()
	return b.At(ctx, partition, name, commitAt(n))
}

func (b *branch) At(_ context.Context, _ intent.PartitionID, _, commit string) (document.Document, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	n := b.number(commit)
	switch {
	case b.away:
		return document.Document{}, fault.New(fault.Unavailable, "no route to git.example.com")
	case n < 0:
		return document.Document{}, fault.New(fault.NotFound, "no commit %s", commit)
	}
	return document.Document{Content: []byte(b.contents[n]), Revision: b.revision(n)}, nil
}

func (b *branch) Since(_ context.Context, _ intent.PartitionID, _, until, after string) (list []document.Revision, err error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.away {
		return nil, fault.New(fault.Unavailable, "no route to git.example.com")
	}
	for n := b.number(until); n > b.number(after); n-- {
		list = append(list, b.revision(n))
	}
	return list, nil
}

func (b *branch) Includes(_ context.Context, _ intent.PartitionID, _, commit, ancestor string) (bool, error) {
	return commit >= ancestor, nil
}

func (b *branch) Land(_ context.Context, _ intent.PartitionID, _ string, l landing.Landing) (landing.Request, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if meanwhile := b.meanwhile; meanwhile != nil {
		b.meanwhile = nil
		meanwhile()
	}
	if b.refuses {
		return landing.Request{}, fault.New(fault.Denied, "the branch is protected")
	}
	if l.Host != "" {
		return b.propose(l)
	}
	for _, o := range l.Edit.Operations {
		if fieldAt(b.contents[b.number(l.Edit.Base)], o.Path) != fieldAt(b.contents[len(b.contents)-1], o.Path) {
			return landing.Request{}, fault.New(fault.Conflict, "somebody else set it")
		}
	}
	b.commit(l.Actor.Name, l.Edit.Operations)
	return landing.Request{}, b.answer()
}

// answer is lost, if it is to be.
func (b *branch) answer() error {
	if !b.lost {
		return nil
	}
	b.lost = false
	return fault.New(fault.Unavailable, "the answer is lost")
}

func (b *branch) propose(l landing.Landing) (landing.Request, error) {
	if request, ok := b.decided[l.Key]; ok {
		return request, nil
	}
	at := slices.IndexFunc(b.pulls, func(p landing.Landing) bool { return p.Key == l.Key })
	if at < 0 {
		at, b.pulls = len(b.pulls), append(b.pulls, l)
	}
	return landing.Request{PullRequest: b.request(at)}, b.answer()
}

func (b *branch) request(at int) intent.PullRequest {
	return intent.PullRequest{Number: at + 1, Link: fmt.Sprintf("https://git.example.com/pull/%d", at+1)}
}

func (b *branch) Withdraw(_ context.Context, _ intent.PartitionID, _ string, l landing.Landing) error {
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.refuses {
		return fault.New(fault.Unavailable, "the host is away")
	}
	for at, p := range b.pulls {
		if _, ok := b.decided[l.Key]; p.Key == l.Key && !ok {
			b.decided[l.Key] = landing.Request{PullRequest: b.request(at), Closed: true}
		}
	}
	return nil
}

func (b *branch) commit(by string, operations []document.Operation) {
	next, err := document.Apply([]byte(b.contents[len(b.contents)-1]), operations)
	if err != nil {
		panic(err)
	}
	if string(next) != b.contents[len(b.contents)-1] {
		b.contents, b.by = append(b.contents, string(next)), append(b.by, by)
	}
}

// person sets a field by a commit.
func (b *branch) person(pointer, value string) {
	b.commit("Bo <bo@example.com>", []document.Operation{{Path: pointer, Value: json.RawMessage(value)}})
}

// decide on the newest pull request: what is merged is one commit of whoever merged it.
func (b *branch) decide(merge bool) {
	b.lock.Lock()
	defer b.lock.Unlock()
	at := len(b.pulls) - 1
	b.decided[b.pulls[at].Key] = landing.Request{PullRequest: b.request(at), Closed: !merge, Merged: merge}
	if merge {
		b.commit("Bo <bo@example.com>", b.pulls[at].Edit.Operations)
	}
}

func fieldAt(content, pointer string) string {
	value, err := document.Parse([]byte(content))
	if err != nil {
		panic(err)
	}
	path, err := document.ParsePath(pointer)
	if err != nil {
		panic(err)
	}
	found, _ := document.At(value, path)
	return string(document.Canonical(found))
}

func (b *branch) now() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.contents[len(b.contents)-1]
}

// buildBranch publishes what the newest commit makes.
func (w *world) buildBranch() {
	b := w.branch
	if b == nil || w.head.Sequence == 0 || b.late || w.store.Check(w.ctx, w.lease) != nil {
		return
	}
	b.lock.Lock()
	newest, content := commitAt(len(b.contents)-1), b.contents[len(b.contents)-1]
	b.lock.Unlock()
	if newest == b.built {
		return
	}
	b.built = newest
	w.publish(map[intent.AssetID]word{"x1": {text: fieldAt(content, "/x1")}, "y1": {text: fieldAt(content, "/y1")}}, w.policy)
}

// inGit runs a test of a rollout of x1 and then y1, which sets their fields in a repository.
func inGit(t *testing.T, host string, test func(*world, *branch)) {
	t.Helper()
	simulate(t, 1, setting{}, func(w *world) {
		w.branch = &branch{built: commitAt(0), contents: []string{`{"x1":1,"y1":1}`}, by: []string{"Ann <ann@example.com>"}, decided: map[string]landing.Request{}}
		w.calm = true
		w.stop()
		w.begin(false)
		w.publish(map[intent.AssetID]word{"x1": {text: "1"}, "y1": {text: "1"}}, &intentpb.Policy{
			Plugins: []*intentpb.PluginBinding{{Type: string(commandType), Run: []string{"lehr-command"}}},
			Rollouts: []*intentpb.Rollout{{
				Name: "flags", Select: "true", Stages: []*intentpb.RolloutStage{{Name: "first", Where: "id.startsWith('x')"}, {Name: "rest"}},
				Field: &intentpb.DocumentField{Document: "knobs", Pointer: "/{id}", Source: "knobs", InRepository: true, PullRequest: host},
			}},
		})
		w.pass(5 * time.Second)
		w.ask(intent.OrderStart, "2")
		test(w, w.branch)
	})
}

func (w *world) ask(kind intent.OrderKind, value string) {
	w.t.Helper()
	_, err := w.store.OrderRollout(w.ctx, intent.RolloutOrder{Partition: shop, Name: "flags", Kind: kind, Value: []byte(value), Reason: "spring", By: ann, At: w.now()})
	w.must(err)
}

func (w *world) newestRun() intent.Rollout {
	w.t.Helper()
	runs, err := w.store.Rollouts(w.ctx, shop, store.RolloutFilter{Name: "flags", Limit: 1})
	w.must(err)
	if len(runs) == 0 {
		return intent.Rollout{}
	}
	return runs[0]
}

// until a condition holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for range 200 {
		if holds() {
			return
		}
		w.pass(time.Second)
	}
	w.t.Fatalf("never: %s; the branch is %v of %v; the run is %+v", what, w.branch.contents, w.branch.by, w.newestRun())
}

func (w *world) restart() {
	w.stop()
	w.begin(true)
}

func (w *world) opens(number int) func() bool {
	return func() bool {
		list := w.newestRun().Proposals
		return len(list) > 0 && list[len(list)-1].Request.Number == number
	}
}

// Each stage is one commit, though the answer to it is lost and the server ends, and a stage waits
// until head is built of the commit of the one before.
func TestStagesComeByCommits(t *testing.T) {
	inGit(t, "", func(w *world, b *branch) {
		b.lost, b.late = true, true
		w.until("the first is committed", func() bool { return b.now() == `{"x1":2,"y1":1}` })
		w.restart()
		w.pass(time.Minute)
		run := w.newestRun()
		if b.now() != `{"x1":2,"y1":1}` || !strings.Contains(run.Progress.Waits, "head does not have revision 0000002 of knobs yet") {
			t.Fatalf("nothing is built of the first, and the branch is %s; it waits %q", b.now(), run.Progress.Waits)
		}
		b.late = false
		w.until("it is done", func() bool { return w.newestRun().State == intent.RolloutDone })
		if len(b.contents) != 3 || b.now() != `{"x1":2,"y1":2}` || b.by[1] != "rollout/flags" || b.by[2] != "rollout/flags" {
			t.Errorf("commits %v of %v", b.contents, b.by)
		}
		for _, e := range w.newestRun().Edits {
			if e.Changed != "" || e.Landed.Sequence == 0 {
				t.Errorf("%+v", e)
			}
		}
		w.ask(intent.OrderRollback, "")
		w.until("it is back", func() bool { return w.newestRun().State == intent.RolloutRolledBack })
		if len(b.contents) != 4 || b.now() != `{"x1":1,"y1":1}` {
			t.Errorf("commits %v", b.contents)
		}
	})
}

// What people set while a commit is made, or before the run came to it, is kept.
func TestWhatPeopleSetInRepositoriesIsKept(t *testing.T) {
	inGit(t, "", func(w *world, b *branch) {
		b.meanwhile = func() { b.person("/x1", "7"); b.person("/y1", "9") }
		w.until("it is done", func() bool { return w.newestRun().State == intent.RolloutDone })
		if b.now() != `{"x1":7,"y1":9}` {
			t.Errorf("the branch is %s", b.now())
		}
		for _, e := range w.newestRun().Edits {
			if !strings.Contains(e.Changed, "Bo <bo@example.com>") {
				t.Errorf("%+v", e)
			}
		}
	})
}

// A pull request is opened once for each stage and followed; merged, also as a commit of whoever
// merged it, is landed. One that is closed is a verdict, and what had landed goes back by one.
func TestStagesComeByPullRequests(t *testing.T) {
	inGit(t, "hub", func(w *world, b *branch) {
		b.lost = true
		w.until("the first is open", w.opens(1))
		w.restart()
		w.pass(30 * time.Second)
		if run := w.newestRun(); len(b.pulls) != 1 || !strings.Contains(run.Progress.Waits, "for the pull request #1 to be merged: https://git.example.com/pull/1") {
			t.Fatalf("%d pull requests, %q", len(b.pulls), run.Progress.Waits)
		}
		b.decide(true)
		w.until("the second is open", w.opens(2))
		b.decide(false)
		w.until("it goes back", w.opens(3))
		run := w.newestRun()
		if run.State != intent.RolloutRollingBack || run.Bad != "the pull request #2 was closed without being merged" || !strings.Contains(run.Progress.Waits, "#3 to be merged") {
			t.Errorf("%s, %q, %q", run.State, run.Bad, run.Progress.Waits)
		}
		b.decide(true)
		w.until("it is back", func() bool { return w.newestRun().State == intent.RolloutRolledBack })
		if b.now() != `{"x1":1,"y1":1}` || len(b.pulls) != 3 {
			t.Errorf("%s, %d pull requests", b.now(), len(b.pulls))
		}
	})
}

// What goes back by a pull request that people close stays, until somebody asks again.
func TestPeopleKeepWhatWouldGoBack(t *testing.T) {
	inGit(t, "hub", func(w *world, b *branch) {
		w.until("the first is open", w.opens(1))
		b.decide(true)
		w.until("the second is open", w.opens(2))
		w.ask(intent.OrderRollback, "")
		w.until("the third is open", w.opens(3))
		if !b.decided[b.pulls[1].Key].Closed {
			t.Error("the pull request of the second stage is open while the first goes back")
		}
		b.decide(false)
		w.until("it is stopped", func() bool { return w.newestRun().State == intent.RolloutStopped })
		w.ask(intent.OrderRollback, "")
		w.until("the fourth is open", w.opens(4))
		b.decide(true)
		w.until("it is back", func() bool { return w.newestRun().State == intent.RolloutRolledBack })
	})
}

// A run that is aborted, or takes the place of another, leaves no pull request open; also where the
// host is away and the server ends meanwhile.
func TestNoPullRequestIsLeftOpen(t *testing.T) {
	inGit(t, "hub", func(w *world, b *branch) {
		w.until("the first is open", w.opens(1))
		b.refuses = true
		w.ask(intent.OrderAbort, "")
		w.until("it is stopped", func() bool { return !w.newestRun().State.Open() })
		w.restart()
		w.pass(30 * time.Second)
		b.refuses = false
		w.until("it is closed", func() bool { return b.decided[b.pulls[0].Key].Closed })
		w.ask(intent.OrderStart, "3")
		w.until("the second is open", w.opens(2))
		b.refuses = true
		w.ask(intent.OrderStart, "4")
		w.pass(30 * time.Second)
		if len(b.pulls) != 2 {
			t.Errorf("a third was opened before the second was closed")
		}
		b.refuses = false
		w.until("the third is open", w.opens(3))
		if !b.decided[b.pulls[1].Key].Closed || b.decided[b.pulls[2].Key].Closed {
			t.Errorf("%v", b.decided)
		}
		// Somebody sets the field beside it.
		b.lock.Lock()
		b.person("/x1", "8")
		b.lock.Unlock()
		w.until("the third is closed", func() bool { return b.decided[b.pulls[2].Key].Closed })
	})
}

// A rollout that lehr.yaml drops has its pull request closed, though its run had ended before and
// the host refused then, and though the process starts anew meanwhile.
func TestADroppedRolloutLeavesNoPullRequestOpen(t *testing.T) {
	inGit(t, "hub", func(w *world, b *branch) {
		w.until("the first is open", w.opens(1))
		b.refuses = true
		w.ask(intent.OrderAbort, "")
		w.until("it is stopped", func() bool { return !w.newestRun().State.Open() })
		w.publish(map[intent.AssetID]word{"x1": {text: "1"}, "y1": {text: "1"}}, &intentpb.Policy{
			Plugins: []*intentpb.PluginBinding{{Type: string(commandType), Run: []string{"lehr-command"}}},
		})
		w.pass(30 * time.Second)
		w.restart()
		w.pass(30 * time.Second)
		if b.decided[b.pulls[0].Key].Closed {
			t.Fatal("it was closed, though the host refuses")
		}
		b.refuses = false
		w.until("it is closed", func() bool { return b.decided[b.pulls[0].Key].Closed })
		w.until("it is recorded", func() bool { return w.newestRun().Proposals[0].State == intent.ProposalWithdrawn })
	})
}

// A repository that is away is told, and gone on with.
func TestRolloutsWaitForRepositories(t *testing.T) {
	inGit(t, "", func(w *world, b *branch) {
		b.lock.Lock()
		b.away = true
		b.lock.Unlock()
		w.restart()
		w.until("it is told", func() bool { return strings.Contains(w.newestRun().Progress.Waits, "no route to git.example.com") })
		b.lock.Lock()
		b.away = false
		b.lock.Unlock()
		w.until("it is done", func() bool { return w.newestRun().State == intent.RolloutDone })
		if len(b.contents) != 3 {
			t.Errorf("commits %v", b.contents)
		}
	})
}
