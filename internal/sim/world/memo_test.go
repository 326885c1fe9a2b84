package world

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// inSteps is a bench where pushes take several effects, and so are runs.
func inSteps(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, 2)
	b.world.options.Steps = 3
	return b
}

// cutOff is a push of the job that ends in its middle.
func (b *bench) cutOff() {
	b.t.Helper()
	b.trouble(PushPartialThenFail, job, 0, 1)
	if result := b.push(b.diff(1, job)); result.Ending != plugin.Failed {
		b.t.Fatalf("%+v", result)
	}
}

func TestARunIsNumberedByItsMemo(t *testing.T) {
	b := inSteps(t)
	b.cutOff()
	b.enforce(1, job)
	if len(b.runs) != 2 || b.runs[0].Number != 1 || b.runs[1].Number != 2 || b.runs[0].Push == b.runs[1].Push {
		t.Errorf("%+v", b.runs)
	}
	if memos := b.memos[job]; len(memos) != 1 || string(memos[0].Bytes) != string(job)+" 2" || MemoAsset(memos[0].Bytes) != job {
		t.Errorf("%q", memos)
	}
}

func TestARunThatWasNotKeptDoesNotBegin(t *testing.T) {
	b := inSteps(t)
	b.keeps = errors.New("the store is away")
	result := b.push(b.diff(1, job))
	if result.Ending != plugin.Failed || !result.Retryable || !strings.Contains(result.Reason, "the store is away") || len(b.runs)+len(b.effects) != 0 {
		t.Errorf("%+v, %+v, %+v", result, b.runs, b.effects)
	}
}

// TestALostMemoIsNotActedOn: while production does not tell of the run.
func TestALostMemoIsNotActedOn(t *testing.T) {
	b := inSteps(t)
	b.cutOff()
	d := b.diff(1, job)
	effects := len(b.effects)
	kept := b.memos[job]
	delete(b.memos, job)
	if lost := b.diff(1, job); lost.Outcome != intent.Unknown || !strings.Contains(lost.Reason, "is lost") {
		t.Errorf("%+v", lost)
	}
	if result := b.push(d); result.Ending != plugin.Failed || !strings.Contains(result.Reason, "is lost") || len(b.effects) != effects {
		t.Errorf("%+v", result)
	}
	b.run(runLasts) // Then production tells.
	b.enforce(1, job)
	if len(b.runs) != 2 || b.runs[1].Number != 2 {
		t.Errorf("kept was %q, and runs are %+v", kept, b.runs)
	}
}

// TestFaultsOfMemos: each comes about, and no run begins twice.
func TestFaultsOfMemos(t *testing.T) {
	b := inSteps(t)
	b.world.memoFaults = rand.New(rand.NewPCG(1, 1))
	var lost, stopped, refused int
	for range 300 {
		d := b.diff(1, job)
		if d.Outcome == intent.Unknown {
			lost++
			continue
		}
		result := b.push(d)
		switch {
		case result.Ending == plugin.Stopped:
			stopped++
		case strings.Contains(result.Reason, "too many memos"):
			refused++
		}
		b.run(runLasts)
		b.do(func() { b.world.Vanish(d.ResourceKey) })
	}
	seen := map[uint64]bool{}
	for _, run := range b.runs {
		if seen[run.Number] {
			t.Errorf("run %d began twice", run.Number)
		}
		seen[run.Number] = true
	}
	if stopped == 0 || refused == 0 || len(b.runs) < 100 {
		t.Errorf("%d answers were lost, %d memos refused, %d looks told of a loss, %d runs", stopped, refused, lost, len(b.runs))
	}
}
