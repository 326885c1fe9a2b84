package strategist_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/sight"
	"lehr.dev/internal/store"
)

// TestWeeksOfRollouts: for weeks, in which clocks are put forward or back, assets go on
// in working hours alone, and never in a freeze, while the server is started anew every
// other day, and its store goes to another machine.
func TestWeeksOfRollouts(t *testing.T) {
	if testing.Short() {
		t.Skip("lives through three times twelve days")
	}
	var lock sync.Mutex
	seen := map[string]int{}
	t.Cleanup(func() {
		for _, what := range []string{"let", "good", "bad", "back", "in hours"} {
			if seen[what] == 0 && !t.Failed() {
				t.Errorf("in twelve days nothing was %s: %v", what, seen)
			}
		}
		t.Logf("looked at: %v", seen)
	})
	for zone, start := range map[string]time.Time{
		"Europe/Berlin":       time.Date(2026, 3, 23, 0, 0, 0, 0, time.UTC),  // forward on the 29th
		"America/New_York":    time.Date(2026, 10, 26, 0, 0, 0, 0, time.UTC), // back on November 1
		"Australia/Lord_Howe": time.Date(2026, 3, 30, 0, 0, 0, 0, time.UTC),  // back by half an hour on April 5
	} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			path := ""
			if zone == "Europe/Berlin" {
				path = filepath.Join(t.TempDir(), "a.db")
			}
			simulate(t, uint64(len(zone)), setting{path, start, 600}, func(w *world) {
				policy := w.officePolicy(zone)
				contents := map[intent.AssetID]word{}
				for _, id := range []intent.AssetID{"c1", "c2", "m1", "m2", "m3", "r1", "r2"} {
					contents[id] = w.word(id, true)
				}
				w.publish(contents, policy)
				for day := range 12 {
					switch {
					case day == 4 && path != "":
						w.move(path, path+".copy")
					case day%2 == 1:
						w.stop() // It is begun again with the next tick.
					}
					w.pass(time.Duration(w.random.IntN(12)) * time.Hour)
					for _, id := range sorted(contents) {
						contents[id] = w.word(id, w.random.IntN(6) > 0)
					}
					if w.random.IntN(3) > 0 {
						w.publish(contents, policy)
					}
					w.pass(start.AddDate(0, 0, day+1).Sub(w.truth()))
				}
				w.heal()
				lock.Lock()
				defer lock.Unlock()
				for what, n := range w.monitor.seen {
					seen[what] += n
				}
			})
		})
	}
}

// officePolicy brings what is new in office hours, but for a freeze of two days.
func (w *world) officePolicy(zone string) *intentpb.Policy {
	soak := func(d time.Duration) *durationpb.Duration { return durationpb.New(d) }
	office := &intentpb.Calendar{
		Zone: zone, Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: "Mon-Fri 09:00-17:00"}}},
		Freezes: []*intentpb.Freeze{{From: timestamppb.New(w.start.AddDate(0, 0, 7)), Until: timestamppb.New(w.start.AddDate(0, 0, 9)), Reason: "a sale"}},
	}
	return &intentpb.Policy{
		Plugins: []*intentpb.PluginBinding{{Type: string(commandType), Run: []string{"fake"}}},
		Rollouts: []*intentpb.Rollout{{
			Name: "web", Select: starts("cmr"), Patience: soak(2 * time.Hour),
			Stages: []*intentpb.RolloutStage{
				{Name: "stage-c", Where: starts("c"), Count: 1, Soak: soak(time.Hour), Window: office},
				{Name: "stage-m", Where: starts("m"), Percent: 50, Soak: soak(2 * time.Hour), Window: office},
				{Name: "stage-r", Where: starts("r"), Factor: 2, Delay: soak(time.Hour), Soak: soak(time.Hour)},
			},
		}},
	}
}

// inHours looks at a window without the code that knows calendars.
func (m *monitor) inHours(stage *intentpb.RolloutStage, at time.Time) {
	zone, err := time.LoadLocation(stage.Window.Zone)
	m.must(err)
	m.seen["in hours"]++
	local := at.In(zone)
	if day := local.Weekday(); day == time.Saturday || day == time.Sunday || local.Hour() < 9 || local.Hour() >= 17 {
		m.broken("S19", "stage %s goes on at %s", stage.Name, local)
	}
	for _, f := range stage.Window.Freezes {
		if !at.Before(f.From.AsTime()) && at.Before(f.Until.AsTime()) {
			m.broken("S19", "stage %s goes on in a freeze, at %s", stage.Name, local)
		}
	}
}

// kept is all that a store has of rollouts.
type kept struct {
	Runs     []intent.Rollout
	Pins     []intent.Pin
	Observed []intent.Observation
	Judged   []intent.Judgement
	Orders   []intent.RolloutOrder
}

func (w *world) kept() (k kept) {
	w.t.Helper()
	var err error
	k.Runs, err = w.store.Rollouts(w.ctx, shop, store.RolloutFilter{})
	w.must(err)
	k.Pins, err = w.store.Pins(w.ctx, shop)
	w.must(err)
	k.Observed, err = w.store.Observations(w.ctx, shop, "web")
	w.must(err)
	k.Judged, err = w.store.Judgements(w.ctx, shop, nil)
	w.must(err)
	k.Orders, err = w.store.RolloutOrders(w.ctx, shop, 0)
	w.must(err)
	return k
}

// move the store to another machine, by a copy of its file: nobody acts for hours, then
// another replica does, whose clock is off by minutes. Nothing is lost, for what an
// update is of is read from pins and from production.
func (w *world) move(from, to string) {
	w.stop()
	before := w.kept()
	w.close()
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(from + suffix)
		if err == nil {
			err = os.WriteFile(to+suffix, content, 0o600)
		}
		if err != nil && (suffix == "" || !os.IsNotExist(err)) {
			w.t.Fatal(err)
		}
	}
	w.tell("the store goes to another machine")
	w.rest(time.Duration(w.random.IntN(36)) * time.Hour / w.pace)
	w.skew.Store(int64(-4 * time.Minute))
	w.open(to)
	if diff := cmp.Diff(before, w.kept()); diff != "" {
		w.t.Errorf("seed %d: the store that was moved lost something:\n%s", w.seed, diff)
	}
	w.monitor.disturbed = w.truth().Add(12 * time.Hour)
	w.takes("elsewhere")
	// It is a copy, and knows it: nothing goes on until a person says that it may.
	w.pass(6 * time.Hour)
	w.stop()
	adopted, err := w.store.Adopt(w.ctx, store.Adoption{Reason: "the machine is new", By: ann})
	w.must(err)
	head := adopted.Partitions[0].Head
	w.members[head.Sequence], w.policies[head.Sequence] = w.members[w.head.Sequence], w.policy
	w.head = head
	w.takes("elsewhere")
}

// takes: a replica has the lease, and carries rollouts on.
func (w *world) takes(replica string) {
	lease, err := w.store.Acquire(w.ctx, shop, replica)
	w.must(err)
	w.lease, w.board = lease, &sight.Board{Gap: w.paced(gap)}
	w.begin(false)
}
