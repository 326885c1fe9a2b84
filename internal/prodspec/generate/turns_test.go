package generate

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lehr.dev/internal/ground/intent"
)

// TestManyRunsDelayNoOther: a partition with thousands of runs has its cores
// taken after half a second, and one with few is served in its own time.
func TestManyRunsDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(2)
		ctx, cancel := context.WithCancel(t.Context())
		// Three partitions that could fill the cores for ever.
		for _, partition := range []intent.PartitionID{"a", "b", "c"} {
			go func() { serve(ctx, turns, partition, 1<<30, 20*time.Millisecond) }()
		}
		time.Sleep(10 * time.Second)
		began := time.Now()
		serve(ctx, turns, "small", 5, 20*time.Millisecond)
		if took := time.Since(began); took > 100*time.Millisecond+slice+20*time.Millisecond {
			t.Errorf("five runs of 20 ms took %s", took)
		}
		cancel()
		time.Sleep(time.Minute) // Until all have noticed.
	})
}

// serve has runs of a length, one after the other, as a runner does.
func serve(ctx context.Context, turns *Turns, partition intent.PartitionID, runs int, each time.Duration) {
	for runs > 0 && ctx.Err() == nil {
		turn, err := turns.Take(ctx, partition)
		if err != nil {
			return
		}
		for runs > 0 && ctx.Err() == nil {
			turn.Begin(0)
			time.Sleep(each)
			turn.Done()
			runs--
			if turn.Over() {
				break
			}
		}
		turn.End()
	}
}

// TestEndlessRunsDelayNoOther: what takes long goes on beside, and its
// partition gets no core again before a run of it was quick.
func TestEndlessRunsDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(2)
		ctx, cancel := context.WithCancel(t.Context())
		for _, partition := range []intent.PartitionID{"a", "b", "c", "d", "e", "f", "g"} {
			go func() { serve(ctx, turns, partition, 1<<30, 10*time.Second) }()
		}
		// Four have places beside, and the others find out one after the other
		// that they are to wait for one.
		time.Sleep(time.Minute)
		for range 20 {
			began := time.Now()
			serve(ctx, turns, "small", 5, 20*time.Millisecond)
			if took := time.Since(began); took != 100*time.Millisecond {
				t.Errorf("five runs of 20 ms took %s", took)
			}
			time.Sleep(3 * time.Second)
		}
		cancel()
		time.Sleep(time.Minute) // Until all have noticed.
	})
}

// TestAPartitionThatMendedIsQuickAgain: one run in time is enough.
func TestAPartitionThatMendedIsQuickAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		serve(t.Context(), turns, "a", 1, 5*time.Second)
		if !turns.lingers["a"] {
			t.Error("a run of five seconds was not long")
		}
		serve(t.Context(), turns, "a", 1, time.Millisecond)
		if turns.lingers["a"] || turns.cores != 1 || turns.background != 2 || len(turns.making) != 0 {
			t.Errorf("after a short run: %+v", turns)
		}
	})
}

// TestWhoHadLeastGoesFirst: each of many that wait gets as much.
func TestWhoHadLeastGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := map[intent.PartitionID]*int{}
		for _, partition := range []intent.PartitionID{"a", "b", "c", "d"} {
			done[partition] = new(int)
			go func() {
				for ctx.Err() == nil {
					// A greedy one does nothing but to ask again at once.
					serve(ctx, turns, partition, 10, 100*time.Millisecond)
					*done[partition] += 10
				}
			}()
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if since, before := turns.Waiting("zoo"); !since.IsZero() || before != 0 {
			t.Errorf("who did not ask waits since %s behind %d", since, before)
		}
		waits := 0
		for partition, runs := range done {
			if *runs < 80 || *runs > 120 {
				t.Errorf("%s had %d runs of 400", partition, *runs)
			}
			if since, before := turns.Waiting(partition); !since.IsZero() {
				waits++
				if before > 2 || time.Since(since) > 2*time.Second {
					t.Errorf("%s waits since %s behind %d", partition, time.Since(since), before)
				}
			}
		}
		if waits != 3 {
			t.Errorf("%d wait, want 3", waits)
		}
		cause := errors.New("over")
		cancel(cause)
		time.Sleep(time.Minute)
		if _, err := turns.Take(ctx, "a"); err != nil && !errors.Is(err, cause) {
			t.Errorf("an end of the context is told as %v", err)
		}
	})
}

// A module that was compiled has the time of a run from then on, not what was
// left of the time for compiling, however little of a core it gets beside others.
func TestACompiledModuleHasTheTimeOfARun(t *testing.T) {
	command := exec.Command("sleep", "1000")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	turn := &Turn{turns: NewTurns(1), inBackground: true, pid: command.Process.Pid}
	s := &session{command: command, turn: turn}
	w := s.watch(time.Hour)
	w.anew(time.Millisecond)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = command.Process.Kill()
		t.Fatal("it was not killed")
	}
	if !w.late.Load() {
		t.Error("it was not the watch that killed it")
	}
	w.stop()
}
