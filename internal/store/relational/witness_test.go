package relational_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
)

// TestUnwrittenWitnessStopsPushes: while the witness cannot be written, what is
// done could be lost and nobody would miss it, so nothing is pushed (S15). All
// else goes on, brakes above all (S18), and pushes by themselves afterwards.
func TestUnwrittenWitnessStopsPushes(t *testing.T) {
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "lehr.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	lease := storetest.Register(t, s)
	storetest.Publish(t, s, lease, []store.Entry{storetest.Text("a", "content"), storetest.Text("b", "content")})
	admit := func(asset intent.AssetID) *store.Refusal {
		t.Helper()
		p, err := s.Partition(ctx, "shop")
		if err != nil {
			t.Fatal(err)
		}
		refusals, err := s.Admit(ctx, lease, []store.Admission{{
			Push: intent.PushID("push of " + asset), Asset: asset, Target: p.Head, Revision: p.Revision,
			Effective: storetest.Text(string(asset), "content").Member.Effective, ResourceKey: intent.ResourceKey(asset),
		}})
		if err != nil {
			t.Fatal(err)
		}
		return refusals[0]
	}
	if refusal := admit("a"); refusal != nil {
		t.Fatal(refusal.Waiting)
	}

	// until waits until the store's own stop has come, or gone, and the revision
	// tells it to all who rest on it.
	until := func(there bool, told uint64) {
		t.Helper()
		for {
			changed := s.Changed("shop")
			if p, err := s.Partition(ctx, "shop"); err != nil {
				t.Fatal(err)
			} else if (p.Stop != nil) == there && p.Revision >= told {
				return
			}
			<-changed
		}
	}
	before, _ := s.Partition(ctx, "shop")
	mend := s.SpoilWitness()
	until(true, before.Revision+1)
	if err := s.SetHold(ctx, "shop", intent.Hold{Asset: "c", Owner: storetest.Tester}); err != nil {
		t.Errorf("a hold: %v", err)
	}
	after, _ := s.Partition(ctx, "shop")
	const says = "witness cannot be written"
	if refusal := admit("b"); refusal == nil || refusal.Waiting.Kind != intent.WaitStop || !strings.Contains(refusal.Waiting.Reason, says) {
		t.Errorf("admitted without a witness: %+v", refusal)
	}
	if err := s.Permit(ctx, lease, "push of a", time.Now()); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), says) {
		t.Errorf("permitted without a witness: %v", err)
	}
	if stops, err := s.Stops(ctx); err != nil || len(stops) != 1 || !stops[0].Unwitnessed || !strings.Contains(stops[0].Reason, says) {
		t.Errorf("stops %+v, %v", stops, err)
	}
	if err := s.Resume(ctx, "", "a try", storetest.Tester); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), says) {
		t.Errorf("a person's resume: %v", err)
	}

	mend()
	until(false, after.Revision+1)
	if refusal := admit("b"); refusal != nil {
		t.Errorf("with its witness written again: %+v", refusal.Waiting)
	}
	if h, err := s.History(ctx); err != nil || h.Stop != nil || h.Generation != 1 {
		t.Errorf("%+v, %v", h, err)
	}
}
