package enforcer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/test/detector"
)

func rated(most uint32, per time.Duration, by intentpb.Rate_By, where string) *intentpb.Check {
	r := &intentpb.Rate{AtMost: most, Per: durationpb.New(per), By: by}
	if by == intentpb.Rate_BY_SCOPE {
		r.Scope = "cluster"
	}
	return &intentpb.Check{Name: "hourly", Where: where, Kind: &intentpb.Check_Rate{Rate: r}}
}

// began notes when pushes of production take effect.
func (w *world) began() *[]time.Time {
	var times []time.Time
	w.production.onEffect(func(intent.AssetID) { times = append(times, time.Now()) })
	return &times
}

// most counts the most that began within any period.
func most(times []time.Time, period time.Duration) (most int) {
	for i, at := range times {
		n := 0
		for _, other := range times[i:] {
			if other.Sub(at) < period {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestRateLimitPerAsset: the next push begins at the moment that it says, not at
// the next sweep; retries count, and a restart forgets nothing (S8).
func TestRateLimitPerAsset(t *testing.T) {
	simulate(t, func(w *world) {
		w.restart(func() { w.limits.Sweep = time.Hour })
		w.policy.Checks = []*intentpb.Check{rated(2, 30*time.Minute, intentpb.Rate_BY_ASSET, "")}
		w.production.does("web", behaviour{push: func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
			return plugin.PushResult{Ending: plugin.Failed, Reason: "no", Retryable: true}
		}})
		begun := time.Now()
		w.publish(web, db)
		w.inSync(db)
		waiting := w.waitsOn("web", intent.WaitRate)
		w.told("web", "2 of 2 pushes of web were under way within 30m0s; the next may begin at")
		if opens := waiting.Until.Sub(begun); opens < 30*time.Minute || opens > 30*time.Minute+time.Second {
			t.Errorf("the next may begin after %s", opens)
		}
		w.production.does("web", behaviour{})
		w.restart(func() {})
		w.pass(time.Until(waiting.Until) - time.Second)
		if got := w.production.pushes("web"); got != 2 {
			t.Fatalf("%d pushes began within the period", got)
		}
		w.pass(time.Second + 100*time.Millisecond)
		w.inSync(web)
		if got := w.production.pushes("web"); got != 3 {
			t.Fatalf("%d pushes began", got)
		}
	})
}

// TestALongPushCountsUntilAfterItsEnd: it may have an effect at any time until
// then, and another process or a restart in the middle changes nothing (S8).
func TestALongPushCountsUntilAfterItsEnd(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Checks = []*intentpb.Check{rated(1, time.Minute, intentpb.Rate_BY_PARTITION, "")}
		w.production.does("web", behaviour{push: func(ctx context.Context, apply func(), _ plugin.Push) plugin.PushResult {
			time.Sleep(5 * time.Minute)
			apply()
			return plugin.PushResult{Ending: plugin.Pushed}
		}})
		times := w.began()
		w.publish(web)
		w.pass(time.Second)
		w.publish(web, db)
		waiting := w.waitsOn("db", intent.WaitRate)
		w.told("db", "1 of 1 pushes in the partition were under way within 1m0s, 1 of them now; the next may begin at")
		if waiting.Until.Before(time.Now().Add(50 * time.Second)) {
			t.Errorf("looked at again at %s", waiting.Until)
		}
		w.inSync(web, db)
		if between := (*times)[1].Sub((*times)[0]); between < time.Minute || between > time.Minute+time.Second {
			t.Errorf("the next took effect %s later", between)
		}
		w.publish(web, thing{id: "db", word: "v2"}, thing{id: "x", word: "v1"})
		w.production.does("db", behaviour{push: func(ctx context.Context, _ func(), _ plugin.Push) plugin.PushResult {
			<-ctx.Done()
			return plugin.PushResult{Ending: plugin.InDoubt, Reason: "cut off"}
		}})
		w.pass(2 * time.Minute)
		w.restart(func() {})
		restarted := time.Now()
		w.production.does("db", behaviour{})
		*times = nil
		w.inSync(thing{id: "db", word: "v2"}, thing{id: "x", word: "v1"})
		if first := (*times)[0].Sub(restarted); first < time.Minute {
			t.Errorf("another took effect %s after the restart, while the push before it was in doubt", first)
		}
		if got := most(*times, time.Minute); got > 1 {
			t.Errorf("%d took effect within a minute", got)
		}
	})
}

// TestRateLimitsByTypeScopeAndAll: no more begin within any period, and all come
// to be.
func TestRateLimitsByTypeScopeAndAll(t *testing.T) {
	for _, by := range []intentpb.Rate_By{intentpb.Rate_BY_TYPE, intentpb.Rate_BY_PARTITION, intentpb.Rate_BY_SCOPE} {
		simulate(t, func(w *world) {
			w.policy.Checks = []*intentpb.Check{rated(3, time.Minute, by, `id != "free"`)}
			var things []thing
			for i := range 12 {
				things = append(things, thing{id: intent.AssetID(fmt.Sprintf("web/%02d", i)), word: "v1"}.with(&intentpb.ImpactedScope{Scopes: map[string]string{"cluster": "a"}}))
			}
			times := w.began()
			began := time.Now()
			w.publish(append(things, thing{id: "free", word: "v1"})...)
			w.inSync(thing{id: "free", word: "v1"})
			w.inSync(things...)
			if since := time.Since(began); since > 4*time.Minute {
				t.Errorf("%s: they took %s", by, since)
			}
			if got := most(*times, time.Minute); got > 4 { // and "free"
				t.Errorf("%s: %d began within a minute", by, got)
			}
		})
	}
}

// TestARateLimitThatChangesCountsAtOnce: what was counted stays, downward too;
// what a commit loosens is asked once more, until the plan is approved (S23).
func TestARateLimitThatChangesCountsAtOnce(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Checks = []*intentpb.Check{rated(5, time.Hour, intentpb.Rate_BY_ASSET, "")}
		for i, thing := range []thing{web, webV2, web} {
			w.publish(thing)
			w.inSync(thing)
			if got := w.production.pushes("web"); got != i+1 {
				t.Fatalf("%d pushes", got)
			}
		}
		w.policy.Checks = []*intentpb.Check{rated(3, time.Hour, intentpb.Rate_BY_ASSET, "")}
		w.publish(webV2)
		w.waitsOn("web", intent.WaitRate)
		w.told("web", "3 of 3 pushes of web")
		w.publish(web)
		w.inSync(web) // It is so, and was enforced under the limit of 3.
		w.policy.Checks = []*intentpb.Check{rated(4, time.Hour, intentpb.Rate_BY_ASSET, "")}
		w.publish(webV2)
		w.waitsOn("web", intent.WaitRate)
		w.told("web", "dropped from the policy, or changed there")
		w.unpushed("web", "the looser limit is not in force")
		w.as("bob", "web")
		w.inSync(webV2)
		w.publish(web)
		w.waitsOn("web", intent.WaitRate)
		w.told("web", "4 of 4 pushes of web") // What was let past counts.
	})
}

func TestARateLimitIsOverridden(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Checks = []*intentpb.Check{rated(1, time.Hour, intentpb.Rate_BY_ASSET, "")}
		w.policy.Overrides = &intentpb.OverridePolicy{Allow: []string{"rate"}}
		w.publish(web)
		w.inSync(web)
		w.publish(webV2)
		w.waitsOn("web", intent.WaitRate)
		w.override("web", "hourly", time.Hour)
		w.inSync(webV2)
	})
}

// TestALostAnswerCounts: what was admitted and never told of may have begun.
func TestALostAnswerCounts(t *testing.T) {
	simulate(t, func(w *world) {
		w.restart(func() { w.stores = &losing{Stores: w.store, left: 2} })
		w.policy.Checks = []*intentpb.Check{rated(2, time.Hour, intentpb.Rate_BY_ASSET, "")}
		w.publish(web)
		w.waitsOn("web", intent.WaitRate)
		w.unpushed("web", "two were admitted")
		w.pass(time.Hour)
		w.inSync(web)
	})
}

// TestARateLimitAndAClockThatIsSet: set forward, nothing begins early while the
// process lives; set back, all begins after a period at the latest (L7).
func TestARateLimitAndAClockThatIsSet(t *testing.T) {
	simulate(t, func(w *world) {
		clock := &shifted{Runtime: loop.Real()}
		w.restart(func() { w.runtime = clock })
		w.policy.Checks = []*intentpb.Check{rated(1, 5*time.Minute, intentpb.Rate_BY_ASSET, "")}
		clock.by.Store(int64(year))
		times := w.began()
		w.publish(web)
		w.inSync(web)
		clock.by.Store(0)
		w.publish(webV2)
		w.waitsOn("web", intent.WaitRate)
		w.inSync(webV2)
		if got := most(*times, 5*time.Minute); got > 1 {
			t.Errorf("%d began within the period", got)
		}
		if last := (*times)[len(*times)-1].Sub((*times)[0]); last > 6*time.Minute {
			t.Errorf("the next began %s later", last)
		}
	})
}

// TestNotAllThatWaitAreLookedAt when a limit lets one begin: one that may does.
func TestNotAllThatWaitAreLookedAt(t *testing.T) {
	detector.SkipSequential(t)
	simulate(t, func(w *world) {
		w.restart(func() { w.limits.Sweep = 5 * time.Minute })
		const period = 20 * time.Minute
		const count = 300
		w.policy.Checks = []*intentpb.Check{rated(1, period, intentpb.Rate_BY_PARTITION, "")}
		var things []thing
		for i := range count {
			things = append(things, thing{id: intent.AssetID(fmt.Sprintf("web/%03d", i)), word: "v1"})
		}
		w.publish(things...)
		w.pass(time.Minute)
		for range 5 {
			ended, err := w.store.Ended(w.ctx, shop, []string{"hourly partition="}, 1)
			w.must(err)
			w.pass(time.Until(ended["hourly partition="][0].At.Add(period)) - 1)
			looks, pushes := w.production.asked(), w.production.pushes("")
			w.pass(100 * time.Millisecond)
			if looks = w.production.asked() - looks; looks > count/20 || w.production.pushes("") != pushes+1 {
				t.Fatalf("of %d that wait %d were looked at, and %d pushed", count, looks, w.production.pushes("")-pushes)
			}
		}
	})
}
