package world

import (
	"testing"
	"time"
)

func TestHowLongTroubleLasts(t *testing.T) {
	for _, test := range []struct{ asked, least, most time.Duration }{
		{0, time.Second, time.Minute},
		{2 * time.Second, 2 * time.Second, 2 * time.Second},
		{time.Hour, time.Second, time.Minute},
	} {
		b := newBench(t, 1)
		b.world.Trouble(Trouble{Kind: PushSlow, For: test.asked})
		a := b.world.armed[0]
		for range 100 {
			if d := a.within(time.Second, time.Minute); d < test.least || d > test.most {
				t.Errorf("%s asked: %s", test.asked, d)
			}
			if d := a.lasts(time.Second, time.Minute); test.asked > 0 && d != test.asked {
				t.Errorf("%s asked, it lasts %s", test.asked, d)
			}
		}
	}
}

func TestTroubleBefallsSoManyCallsOfItsAsset(t *testing.T) {
	b := newBench(t, 1)
	b.world.Trouble(Trouble{Kind: DiffUnknown, Asset: job, Count: 2})
	b.world.Trouble(Trouble{Kind: DiffUnknown, Count: 1})
	for range 5 {
		if _, err := b.diffs(1, command, job); err != nil {
			t.Fatal(err)
		}
	}
	if struck := b.world.Struck(); struck[DiffUnknown] != 3 || len(b.world.armed) != 0 {
		t.Errorf("%v, %d still armed", struck, len(b.world.armed))
	}
	b.world.Trouble(Trouble{Kind: DiffUnknown, Asset: balancer})
	if _, err := b.diffs(1, command, job); err != nil || b.world.Struck()[DiffUnknown] != 3 {
		t.Error("it befell another asset")
	}
}
