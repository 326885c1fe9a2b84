package enforcer

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

// TestWhatATrainBringsIsShown while the train is in its environment, from the first look at its target on, and
// for no longer than policy says. What the check is not about stays enforced.
func TestWhatATrainBringsIsShown(t *testing.T) {
	simulate(t, func(w *world) {
		var train atomic.Pointer[check.Train]
		train.Store(&check.Train{})
		answer := func(_ context.Context, e check.Environment) check.Train {
			if e != (check.Environment{Application: "shop/web", Name: "production"}) {
				t.Errorf("it asks about %+v", e)
			}
			return *train.Load()
		}
		w.restart(func() { w.alter = append(w.alter, func(o *Options) { o.Train = answer }) })
		w.policy.Checks = []*intentpb.Check{{Name: "by-hand", Where: `id == "web"`, Kind: &intentpb.Check_Train{Train: &intentpb.Train{Application: "shop/web", Environment: "production", Longest: durationpb.New(time.Hour)}}}}
		w.publish(web, db)
		w.inSync(web)
		w.inSync(db)
		// The answer for the target before is seconds old, and does not count for what the train brings.
		train.Store(&check.Train{Release: 7, Version: "2", Since: time.Now()})
		other := db
		other.word = "another"
		w.publish(webV2, other)
		w.inSync(other)
		w.waitsOn("web", intent.WaitTrain)
		w.unpushed("web", "a train is in its environment")
		w.pass(time.Minute)
		w.unpushed("web", "a train is in its environment")
		// By then it is enforced.
		w.pass(time.Hour)
		w.inSync(webV2)
	})
}

// TestWithoutAServerNoTrainIsKnown: an enforcer that cannot ask says so, and does not take that for no train (S11).
func TestWithoutAServerNoTrainIsKnown(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Checks = []*intentpb.Check{{Name: "by-hand", Kind: &intentpb.Check_Train{Train: &intentpb.Train{Application: "shop/web", Environment: "production", Longest: durationpb.New(time.Hour)}}}}
		w.publish(web)
		w.waitsOn("web", intent.WaitCheckBroken)
		w.told("web", "only a server knows which train is in production of shop/web")
		w.unpushed("web", "nobody knows which train is there")
	})
}
