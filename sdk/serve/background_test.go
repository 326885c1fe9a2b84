package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	processpb "lehr.dev/gen/lehr/process/v1"
)

// slowShelf is a shelf whose reads take long.
type slowShelf struct {
	shelf
	mutex sync.Mutex
	takes time.Duration
	fails error
	// deaf reads do not heed their context.
	deaf bool
	// begun are when reads began, under those under way and most the most of them.
	begun       []time.Time
	under, most int
}

func (s *slowShelf) Read(ctx context.Context, assets []Asset[*processpb.Job]) ([]State[*processpb.Job], error) {
	s.mutex.Lock()
	s.begun = append(s.begun, time.Now())
	s.under++
	s.most = max(s.most, s.under)
	takes, fails, deaf := s.takes, s.fails, s.deaf
	s.mutex.Unlock()
	defer func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.under--
	}()
	if deaf {
		time.Sleep(takes)
	} else {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if fails != nil {
		return nil, fails
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.shelf.Read(ctx, assets)
}

func (s *slowShelf) set(do func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	do()
}

func (s *slowShelf) reads() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.begun)
}

// slowWorld is a kind that reads a slow shelf in the background, and the hints that came.
type slowWorld struct {
	t     *testing.T
	shelf *slowShelf
	kind  Kind

	mutex  sync.Mutex
	hinted []AssetID
}

// inBackground runs a test in a bubble of virtual time. Its cadence is 10 min, the limit of
// a read 4 min.
func inBackground(t *testing.T, atOnce int, test func(*slowWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &slowWorld{t: t, shelf: &slowShelf{takes: time.Minute, shelf: shelf{jobs: map[string]*processpb.Job{"a": {Name: "a", Replicas: 2}}}}}
		w.kind = For(w.shelf, Serving{Cadence: 10 * time.Minute, Background: &Background{Limit: 4 * time.Minute, AtOnce: atOnce}})
		ctx, cancel := context.WithCancel(t.Context())
		w.kind.(reader).beginReading(ctx)
		var watching sync.WaitGroup
		watching.Go(func() {
			_ = watchersOf(w.kind)[0].Watch(ctx, func(_ PartitionID, asset AssetID) {
				w.mutex.Lock()
				defer w.mutex.Unlock()
				w.hinted = append(w.hinted, asset)
			})
		})
		synctest.Wait()
		test(w)
		cancel()
		watching.Wait()
		time.Sleep(2 * time.Hour) // Reads that were given up end.
	})
}

// look asks about a job; since is as of Intent.ReadSince.
func (w *slowWorld) look(name string, since time.Time) Difference {
	w.t.Helper()
	asset := jobIntent(w.t, &processpb.Job{Name: name, Replicas: 2})
	asset.ID, asset.Incarnation.Partition, asset.ReadSince = AssetID(name), "shop", since
	return diffOne(w.kind, asset)
}

func (w *slowWorld) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *slowWorld) hints() (n int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.hinted)
}

// A look is answered pending until the first read ends, which is hinted, and then from what
// was read, with its age; it is read again each half of the cadence.
func TestBackgroundAnswersFromWhatItRead(t *testing.T) {
	inBackground(t, 0, func(w *slowWorld) {
		began := time.Now()
		d := w.look("a", time.Time{})
		if d.Outcome != Pending || !strings.HasPrefix(d.Reason, "reading since ") || !d.PendingSince.Equal(began) {
			t.Fatalf("at first it is %+v", d)
		}
		w.pass(30 * time.Second)
		if again := w.look("a", time.Time{}); again.Reason != d.Reason || w.shelf.reads() != 1 {
			t.Errorf("asked again it is %+v, after %d reads", again, w.shelf.reads())
		}
		w.pass(31 * time.Second)
		if w.hints() != 1 {
			t.Errorf("%d hints at the end of the read", w.hints())
		}
		if d := w.look("a", time.Time{}); d.Outcome != InSync || !d.At.Equal(began) {
			t.Errorf("after the read it is %+v", d)
		}
		// It is fresh for every look of ten hours, and what did not change is not hinted.
		for range 60 {
			w.pass(10 * time.Minute)
			if d := w.look("a", time.Time{}); d.Outcome != InSync || time.Since(d.At) > 10*time.Minute {
				t.Fatalf("later it is %+v, %s old", d, time.Since(d.At))
			}
		}
		if reads := w.shelf.reads(); reads < 115 || reads > 125 || w.hints() != 1 {
			t.Errorf("%d reads and %d hints in 10 h, want one each 5 min and no new hint", reads, w.hints())
		}
		w.shelf.set(func() { w.shelf.jobs["a"] = &processpb.Job{Name: "a", Replicas: 7} })
		w.pass(7 * time.Minute)
		if d := w.look("a", time.Time{}); w.hints() != 2 || d.Outcome != Differs {
			t.Errorf("after a change by somebody else: %d hints, %+v", w.hints(), d)
		}
	})
}

// Whoever asks for a fact of now gets what began to be read since, and asks for no second
// read meanwhile.
func TestBackgroundReadsSince(t *testing.T) {
	inBackground(t, 0, func(w *slowWorld) {
		w.look("a", time.Time{})
		w.pass(2 * time.Minute)
		asked := time.Now()
		if d := w.look("a", asked); d.Outcome != Pending || !d.PendingSince.Equal(asked) {
			t.Errorf("asked for now it is %+v", d)
		}
		w.pass(61 * time.Second)
		if d := w.look("a", asked); d.Outcome != InSync || !d.At.Equal(asked) || w.shelf.reads() != 2 {
			t.Errorf("asked again it is %+v, after %d reads", d, w.shelf.reads())
		}
	})
}

// An error is told with its age, and tried again with pauses; what was read before is told
// as long as it is fresh.
func TestBackgroundErrors(t *testing.T) {
	inBackground(t, 0, func(w *slowWorld) {
		w.shelf.set(func() { w.shelf.fails, w.shelf.takes = errors.New("no such host"), time.Second })
		w.look("a", time.Time{})
		w.pass(3 * time.Second)
		d := w.look("a", time.Time{})
		if d.Outcome != Unknown || !strings.Contains(d.Reason, "began 3s ago failed: no such host") || w.hints() != 1 {
			t.Errorf("it is %+v, after %d hints", d, w.hints())
		}
		if w.look("a", time.Now()).Outcome != Unknown || w.shelf.reads() != 1 {
			t.Errorf("it is read again without a pause")
		}
		w.pass(15 * time.Minute)
		if reads := w.shelf.reads(); reads < 6 || reads > 10 {
			t.Errorf("%d reads in 15 min, want pauses of 5 s, doubled up to 5 min", reads)
		}
		w.shelf.set(func() { w.shelf.fails = nil })
		w.pass(6 * time.Minute)
		d = w.look("a", time.Time{})
		if d.Outcome != InSync || w.hints() != 2 {
			t.Errorf("when it can be read again: %+v, %d hints", d, w.hints())
		}
		w.shelf.set(func() { w.shelf.fails = errors.New("no such host") })
		w.pass(time.Until(d.At.Add(9 * time.Minute)))
		if d := w.look("a", time.Time{}); d.Outcome != InSync {
			t.Errorf("what was read 9 min ago is fresh still, and it is %+v", d)
		}
		w.pass(3 * time.Minute)
		if d := w.look("a", time.Time{}); d.Outcome != Unknown {
			t.Errorf("what was read 12 min ago is told: %+v", d)
		}
	})
}

// A read that hangs is cut by its limit. One that does not heed that holds no place, and
// is not begun a second time.
func TestBackgroundReadThatHangs(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf %v", deaf), func(t *testing.T) {
			inBackground(t, 1, func(w *slowWorld) {
				w.shelf.set(func() { w.shelf.takes, w.shelf.deaf = time.Hour, deaf })
				w.look("a", time.Time{})
				w.pass(time.Second)
				w.shelf.set(func() { w.shelf.takes = time.Second })
				w.shelf.jobs["b"] = &processpb.Job{Name: "b", Replicas: 2}
				if d := w.look("b", time.Time{}); d.Outcome != Pending || !strings.HasPrefix(d.Reason, "waits for its turn") {
					t.Errorf("behind a read that hangs: %+v", d)
				}
				w.pass(4*time.Minute + 3*time.Second)
				if d := w.look("b", time.Time{}); d.Outcome != InSync {
					t.Errorf("b is %+v after the limit of the read of a", d)
				}
				if d := w.look("a", time.Time{}); d.Outcome != Unknown || !strings.Contains(d.Reason, "it took longer than 4m0s") {
					t.Errorf("a is %+v after its limit", d)
				}
				w.pass(30 * time.Minute)
				w.look("a", time.Time{})
				w.pass(time.Minute)
				d := w.look("a", time.Time{})
				if deaf && (w.shelf.most != 2 || d.Outcome != Unknown) || !deaf && d.Outcome != InSync {
					t.Errorf("half an hour later a is %+v; %d reads at once", d, w.shelf.most)
				}
				w.pass(time.Hour)
				w.look("a", time.Time{})
				w.pass(time.Minute)
				if d := w.look("a", time.Time{}); d.Outcome != InSync {
					t.Errorf("after the read that hung has ended, a is %+v", d)
				}
			})
		})
	}
}

// No more reads are under way than are allowed, and all come to an end.
func TestBackgroundReadsAtOnce(t *testing.T) {
	inBackground(t, 3, func(w *slowWorld) {
		const n = 20
		for i := range n {
			name := fmt.Sprint(i)
			w.shelf.jobs[name] = &processpb.Job{Name: name, Replicas: 2}
		}
		for i := range n {
			w.look(fmt.Sprint(i), time.Time{})
		}
		w.pass(7*time.Minute + time.Second)
		for i := range n {
			if d := w.look(fmt.Sprint(i), time.Time{}); d.Outcome != InSync {
				t.Errorf("%d is %+v", i, d)
			}
		}
		if w.shelf.most != 3 {
			t.Errorf("%d reads at once", w.shelf.most)
		}
	})
}

// What nobody asks about is read no more after two cadences, and forgotten after three.
func TestBackgroundForgets(t *testing.T) {
	inBackground(t, 0, func(w *slowWorld) {
		w.look("a", time.Time{})
		w.pass(25 * time.Minute)
		reads := w.shelf.reads()
		w.pass(10 * time.Hour)
		b := w.kind.(*resourceKind[*processpb.Job]).background
		if w.shelf.reads() != reads || len(b.readings) != 0 || len(b.queue) != 0 {
			t.Errorf("%d reads after %d, %d readings are kept", w.shelf.reads(), reads, len(b.readings))
		}
	})
}

// Another intent is another question; what was read for one of before is no answer to it.
func TestBackgroundOfAnotherIntent(t *testing.T) {
	inBackground(t, 0, func(w *slowWorld) {
		w.look("a", time.Time{})
		w.pass(2 * time.Minute)
		asset := jobIntent(t, &processpb.Job{Name: "a", Replicas: 3})
		asset.ID, asset.Incarnation.Partition = "a", "shop"
		if d := diffOne(w.kind, asset); d.Outcome != Pending {
			t.Errorf("another intent finds %+v", d)
		}
		w.pass(2 * time.Minute)
		if d := diffOne(w.kind, asset); d.Outcome != Differs {
			t.Errorf("once it was read it is %+v", d)
		}
		if n := len(w.kind.(*resourceKind[*processpb.Job]).background.readings[hinted{"shop", "a"}]); n != 1 {
			t.Errorf("%d readings of one asset are kept", n)
		}
	})
}

// What was read before a push is no answer after it, also of a read that began before.
func TestBackgroundAfterAPush(t *testing.T) {
	inBackground(t, 0, func(w *slowWorld) {
		w.look("a", time.Time{})
		w.pass(2 * time.Minute)
		asset := jobIntent(t, &processpb.Job{Name: "a", Replicas: 3})
		asset.ID, asset.Incarnation.Partition = "a", "shop"
		diffOne(w.kind, asset)
		w.pass(2 * time.Minute)
		d := diffOne(w.kind, asset)
		if d.Outcome != Differs {
			t.Fatalf("before the push: %+v", d)
		}
		w.pass(5 * time.Minute) // It is due, and a read of a minute begins.
		outcome := w.kind.Push(w.t.Context(), Push{Asset: asset, Plan: d.Plan.Digest(), Base: d.Base, Progress: func(string) {}}, &freely{})
		if outcome.Ending != Pushed {
			t.Fatalf("the push ended %s: %s", outcome.Ending, outcome.Reason)
		}
		pushed := time.Now()
		if d := diffOne(w.kind, asset); d.Outcome != Pending {
			t.Errorf("right after the push: %+v", d)
		}
		w.pass(2*time.Minute + time.Second)
		if d := diffOne(w.kind, asset); d.Outcome != InSync || d.At.Before(pushed) {
			t.Errorf("after the push: %+v", d)
		}
	})
}

// Options that cannot hold are refused when the plugin begins to serve.
func TestBackgroundOptions(t *testing.T) {
	for name, serving := range map[string]Serving{
		"no cadence":      {Background: &Background{Limit: time.Minute}},
		"no limit":        {Cadence: time.Hour, Background: &Background{}},
		"a limit as long": {Cadence: time.Hour, Background: &Background{Limit: time.Hour}},
		"a negative size": {Cadence: time.Hour, Background: &Background{Limit: time.Minute, AtOnce: -1}},
	} {
		if _, err := (Plugin{Name: "p", Resources: []Kind{For(&shelf{}, serving)}}).kinds(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := (Plugin{Name: "p", Resources: []Kind{For(&shelf{}, Serving{Cadence: time.Hour, Background: &Background{Limit: time.Minute}})}}).kinds(); err != nil {
		t.Error(err)
	}
}

// The time since when is told in whole seconds, as the reason tells it: of two reads that begin
// within one second, the second would else be told by the same words with another time.
func TestPendingSinceIsOfItsReason(t *testing.T) {
	inBackground(t, 0, func(w *slowWorld) {
		w.pass(300 * time.Millisecond)
		d := w.look("a", time.Time{})
		if want := time.Now().Truncate(time.Second); !d.PendingSince.Equal(want) || d.Reason != "reading since "+want.UTC().Format(time.RFC3339) {
			t.Errorf("it is pending since %v: %s", d.PendingSince, d.Reason)
		}
	})
}
