package world

import (
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

// What a plugin reads by itself shows what others changed, and says how old it is.
func TestReadAheadAnswersAreOldAndNew(t *testing.T) {
	b := newBench(t, 4)
	b.enforce(1, job)
	b.sim.Kill(b.replica)
	b.world.options.Cadence, b.world.options.ReadsAhead = 10*time.Minute, true
	b.start("north")
	if d := b.diff(1, job); d.Outcome != intent.InSync {
		t.Fatalf("%+v", d)
	}
	b.world.Drift(jobKey, 1)
	old := b.diff(1, job)
	for range 120 {
		if old.Outcome == intent.Differs {
			break
		}
		b.run(10 * time.Second)
		old = b.diff(1, job)
	}
	b.run(time.Minute)
	old = b.diff(1, job)
	if age := b.sim.Now().Sub(old.At); old.Outcome != intent.Differs || age < 30*time.Second || age > 10*time.Minute {
		t.Errorf("after it read by itself: outcome %d, %s old", old.Outcome, age)
	}
}
