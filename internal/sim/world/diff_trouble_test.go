package world

import (
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

// trouble arms one kind for an asset and checks, in the end, that it struck.
func (b *bench) trouble(kind TroubleKind, asset intent.AssetID, lasts time.Duration, seed uint64) {
	b.t.Helper()
	b.world.Trouble(Trouble{Kind: kind, Asset: asset, For: lasts, Seed: seed})
	b.t.Cleanup(func() {
		if b.world.Struck()[kind] == 0 {
			b.t.Errorf("%s never struck", kind)
		}
	})
}

func TestDiffHangs(t *testing.T) {
	b := newBench(t, 1)
	b.up()
	b.trouble(DiffHang, job, time.Hour, 1)
	began, life := b.sim.Now(), b.world.children[0].life
	if _, err := b.diffs(1, job, command); err == nil || b.sim.Now().Sub(began) < diffTimeout {
		t.Fatalf("%v after %s", err, b.sim.Now().Sub(began))
	}
	b.run(hangGrace + time.Second)
	if life.process.Alive() {
		t.Error("a plugin that hangs goes on")
	}
	b.enforce(1, job)
}

func TestDiffIsSlow(t *testing.T) {
	b := newBench(t, 1)
	b.up()
	b.trouble(DiffSlow, job, 5*time.Second, 1)
	began := b.sim.Now()
	if d := b.diff(1, job); d.Outcome != intent.Differs || b.sim.Now().Sub(began) < 5*time.Second {
		t.Errorf("%+v after %s", d, b.sim.Now().Sub(began))
	}
}

func TestDiffFails(t *testing.T) {
	b := newBench(t, 1)
	b.trouble(DiffError, job, 0, 1)
	if _, err := b.diffs(1, command, job); err == nil {
		t.Error("no error")
	}
}

func TestDiffIsUnknown(t *testing.T) {
	b := newBench(t, 1)
	b.trouble(DiffUnknown, job, 0, 1)
	if both, err := b.diffs(1, command, job); err != nil || both[0].Outcome != intent.Differs || both[1].Outcome != intent.Unknown || both[1].Reason == "" {
		t.Errorf("%+v, %v", both, err)
	}
}

func TestDiffIsStale(t *testing.T) {
	b := newBench(t, 1)
	b.enforce(1, job)
	b.trouble(DiffStale, job, 0, 1)
	now, _ := b.world.Resource(jobKey)
	if d := b.diff(1, job); d.Outcome != intent.Differs || d.Base == (snapshot{version: now.Version}).base() {
		t.Errorf("%+v", d)
	}
}

func TestDiffIsGarbage(t *testing.T) {
	reasons := map[string]bool{}
	for seed := range uint64(60) {
		b := newBench(t, seed)
		b.trouble(DiffGarbage, job, 0, seed)
		d := b.diff(1, job)
		if d.Outcome != intent.Unknown || !strings.Contains(d.Reason, "refused") || d.ResourceKey != "" {
			t.Fatalf("%+v", d)
		}
		reasons[d.Reason] = true
	}
	// Two of them are refused in the same words.
	if len(reasons) != 9 {
		t.Errorf("%d kinds of garbage, want 9", len(reasons))
	}
}

func TestDiffLies(t *testing.T) {
	b := newBench(t, 1)
	b.trouble(DiffLiesInSync, job, 0, 1)
	if d := b.diff(1, job); d.Outcome != intent.InSync {
		t.Errorf("%+v", d)
	}
	b.enforce(1, job)
	b.trouble(DiffLiesDiffers, job, 0, 1)
	d, count := b.diff(1, job), len(b.effects)
	if d.Outcome != intent.Differs {
		t.Errorf("%+v", d)
	}
	if b.push(d); len(b.effects) != count {
		t.Error("it pushed what does not differ")
	}
}

func TestDiffForAnotherAsset(t *testing.T) {
	nobody, swapped := 0, 0
	told := map[intent.ResourceKey]int{}
	for seed := range uint64(8) {
		b := newBench(t, seed)
		b.world.OnSwap = func(asset intent.AssetID, key intent.ResourceKey) {
			if asset == command {
				told[key]++
			}
		}
		b.trouble(DiffForOtherAsset, job, 0, seed)
		both, err := b.diffs(1, job, command)
		if err != nil || both[0].Outcome != intent.Unknown {
			t.Fatalf("%+v, %v", both, err)
		}
		switch both[1].ResourceKey {
		case commandKey:
			nobody++
		case jobKey:
			swapped++
		}
	}
	if nobody != 2 || swapped != 6 || told[jobKey] != 6 || len(told) != 1 {
		t.Errorf("%d for nobody, %d for the other; those who listen heard %v", nobody, swapped, told)
	}
}

func TestDiffLeavesOneOut(t *testing.T) {
	b := newBench(t, 1)
	b.trouble(DiffMissing, job, 0, 1)
	if both, err := b.diffs(1, command, job); err != nil || both[0].Outcome != intent.Differs || both[1].Outcome != intent.Unknown {
		t.Errorf("%+v, %v", both, err)
	}
}

func TestDiffShowsLittle(t *testing.T) {
	b := newBench(t, 1)
	b.enforce(1, job)
	b.world.Drift(jobKey, 1)
	b.trouble(DiffBare, job, 0, 1)
	if d := b.diff(1, job); d.Outcome != intent.Differs || len(d.Current) > 0 || len(d.Impacts) > 0 {
		t.Errorf("%+v", d)
	}
	if d := b.diff(1, job); len(d.Current) == 0 || len(d.Impacts) == 0 {
		t.Errorf("%+v", d)
	}
}

func TestDiffIsTooBusy(t *testing.T) {
	b := newBench(t, 1)
	b.enforce(1, job)
	b.trouble(DiffBusy, job, 0, 1)
	if d := b.diff(1, job); d.Outcome != intent.Unknown || d.RetryAfter < 5*time.Second {
		t.Errorf("%+v", d)
	}
	if d := b.diff(1, job); d.Outcome != intent.InSync || d.RetryAfter != 0 {
		t.Errorf("%+v: what the trouble said stayed", d)
	}
}

func TestHealthIsGarbage(t *testing.T) {
	b := newBench(t, 1)
	b.enforce(1, job)
	b.trouble(DiffHealthGarbage, job, 0, 1)
	d := b.diff(1, job)
	if d.Outcome != intent.InSync || d.Health.State != intent.HealthUnknown || strings.Contains(d.Health.Reason, "\x1b") {
		t.Errorf("%+v", d)
	}
}

func TestAmountsThatAreNoNumbersAreRefused(t *testing.T) {
	b := newBench(t, 1)
	b.trouble(DiffNoNumber, job, 0, 1)
	if d := b.diff(1, job); d.Outcome != intent.Unknown || !strings.Contains(d.Reason, `the impact "tasks" is not two finite numbers`) {
		t.Errorf("%+v", d)
	}
}
