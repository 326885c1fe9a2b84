package allowance_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/prodspec/generate/allowance"
)

// TestLoadEndsNoRun: a run ends when it had its time on a core, or waits, and not
// because others have the cores.
func TestLoadEndsNoRun(t *testing.T) {
	const limit = 10 * time.Second
	for name, c := range map[string]struct {
		// share of a core that the run has, and that it waits for, in percent.
		has, wants int
		unknown    bool
		after      time.Duration
		why        string
	}{
		"alone":                 {has: 100, after: limit, why: "had a core for that long"},
		"with two cores":        {has: 200, after: limit, why: "had a core for that long"},
		"beside one":            {has: 50, wants: 50, after: 2 * limit, why: "had a core for that long"},
		"beside twenty":         {has: 5, wants: 95, after: 20 * limit, why: "had a core for that long"},
		"beside a hundred":      {has: 1, wants: 99, after: 30 * limit, why: "it had a core for 3s only"},
		"asleep":                {after: limit, why: "waits for something"},
		"asleep, and not known": {unknown: true, after: 6 * limit, why: "waits for something"},
		"now and then":          {has: 1, after: limit, why: "waits for something"},
	} {
		now := time.Unix(0, 0)
		use := func(took time.Duration) allowance.Use {
			return allowance.Use{Had: time.Hour + took*time.Duration(c.has)/100, Wanted: time.Hour + took*time.Duration(c.wants)/100, Known: !c.unknown}
		}
		a := allowance.New(limit, now, use(0).Had)
		took, looks := a.FirstLook(), 0
		for {
			why, wait := a.Look(now.Add(took), use(took))
			if looks++; why != "" {
				if took < c.after || took > c.after+limit || !strings.Contains(why, c.why) {
					t.Errorf("%s: ended after %s: %s; want %s: %s", name, took, why, c.after, c.why)
				}
				break
			}
			if took += wait; wait <= 0 || looks > 1000 {
				t.Fatalf("%s: looks for ever", name)
			}
		}
	}
}

// TestWhoStopsComputing: a run that computed, and then waits, ends soon after.
func TestWhoStopsComputing(t *testing.T) {
	const limit = 10 * time.Second
	now := time.Unix(0, 0)
	a := allowance.New(limit, now, 0)
	for took := a.FirstLook(); ; {
		why, wait := a.Look(now.Add(took), allowance.Use{Had: 9 * time.Second, Known: true})
		if why != "" {
			if took > 2*limit {
				t.Errorf("it ended after %s", took)
			}
			return
		}
		took += wait
	}
}

// TestAFirstLookThatIsLateEndsNothing: where even the first look had to wait for a core,
// it is not known yet whether the run did; nor what it wanted before it began.
func TestAFirstLookThatIsLateEndsNothing(t *testing.T) {
	const limit = 10 * time.Second
	now, before := time.Unix(0, 0), allowance.Use{Had: time.Hour, Wanted: time.Hour, Known: true}
	a := allowance.New(limit, now, before.Had)
	why, wait := a.Look(now.Add(2*limit), before)
	if why != "" {
		t.Fatalf("it was ended at the first look: %s", why)
	}
	if why, _ = a.Look(now.Add(2*limit+wait), before); !strings.Contains(why, "waits for something") {
		t.Errorf("asleep as ever %s later, it goes on: %q", wait, why)
	}
}

// TestUseIsSeen: what this process computes is seen.
func TestUseIsSeen(t *testing.T) {
	before := allowance.Of(os.Getpid())
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if allowance.Of(os.Getpid()).Had >= before.Had+50*time.Millisecond {
			return
		}
	}
	t.Errorf("nothing is seen after %+v", before)
}
