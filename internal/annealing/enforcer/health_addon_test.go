package enforcer

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
)

// judged are two jobs of the scope cluster=a, of which the second has a Health addon.
func (w *world) judged(expression string) (things func(version string) []thing, there *atomic.Pointer[processpb.Job], told *atomic.Pointer[intent.Health]) {
	w.policy.Budgets = []*intentpb.Budget{{Scope: "cluster", InFlight: 1, Unhealthy: 1}}
	there, told = &atomic.Pointer[processpb.Job]{}, &atomic.Pointer[intent.Health]{}
	w.production.does("job/1", behaviour{says: func(d *intent.Difference) {
		if job := there.Load(); job != nil && d.Outcome == intent.InSync {
			d.Current, _ = proto.Marshal(job)
		}
		if health := told.Load(); health != nil {
			d.Health = *health
		}
	}})
	scope := &intentpb.ImpactedScope{Scopes: map[string]string{"cluster": "a"}}
	return func(version string) []thing {
		second := thing{id: "job/1", word: "2 v1", job: &processpb.Job{Replicas: 2, Version: "v1"}}.with(scope)
		if expression != "" {
			second = second.with(scope, &intentpb.Health{Expression: expression})
		}
		return []thing{thing{id: "job/0", word: "2 " + version, job: &processpb.Job{Replicas: 2, Version: version}}.with(scope), second}
	}, there, told
}

// awaitHealth waits for the report that says so.
func (w *world) awaitHealth(id intent.AssetID, state intent.HealthState, words string) {
	w.t.Helper()
	w.eventually(string(state)+" "+words, func() bool {
		h := w.report(id).Health
		return h.State == state && h.IsByAddon() && strings.Contains(h.Reason, words)
	})
}

const twoTasks = `payload.replicas >= 2 ? "" : "only " + string(payload.replicas) + " tasks run"`

// TestAHealthAddonJudgesWhatIsThere at each look, and the health budget goes by it, also in
// the next process, though its plugin never tells any health.
func TestAHealthAddonJudgesWhatIsThere(t *testing.T) {
	simulate(t, func(w *world) {
		things, there, _ := w.judged(twoTasks)
		w.publish(things("v1")...)
		w.inSync(things("v1")...)
		w.awaitHealth("job/1", intent.Healthy, "")
		there.Store(&processpb.Job{Replicas: 1, Version: "v1"})
		w.awaitHealth("job/1", intent.Unhealthy, "only 1 tasks run")
		for range 2 {
			w.restart(func() {})
		}
		w.publish(things("v2")...)
		w.unpushed("job/0", "job/1 is unhealthy")
		w.told("job/0", "in scope cluster=a: 1 (job/1)")
		there.Store(nil)
		w.inSync(things("v2")[0])
		w.awaitHealth("job/1", intent.Healthy, "")
		w.restart(func() { there.Store(&processpb.Job{Replicas: 0, Version: "v1"}) })
		w.awaitHealth("job/1", intent.Unhealthy, "only 0 tasks run") // Read by a process that had not read its content.
	})
}

// TestHealthThatCannotBeComputed is unknown, and counts as not healthy (S11).
func TestHealthThatCannotBeComputed(t *testing.T) {
	simulate(t, func(w *world) {
		things, there, _ := w.judged(`payload.env["READY"] == "yes"`)
		w.publish(things("v1")...)
		w.awaitHealth("job/1", intent.HealthUnknown, "cannot be computed")
		w.publish(things("v2")...)
		w.unpushed("job/0", "nobody knows how job/1 is")
		w.restart(func() {})
		w.unpushed("job/0", "nobody knows how job/1 is")
		there.Store(&processpb.Job{Replicas: 2, Version: "v1", Env: map[string]string{"READY": "yes"}})
		w.inSync(things("v2")[0])
		w.awaitHealth("job/1", intent.Healthy, "")
	})
}

// TestAHealthAddonMakesNothingHealthy that its plugin calls unhealthy, or does not know; nor
// is what is shown of nothing healthy.
func TestAHealthAddonMakesNothingHealthy(t *testing.T) {
	simulate(t, func(w *world) {
		things, there, told := w.judged(twoTasks)
		w.publish(things("v1")...)
		w.inSync(things("v1")...)
		w.awaitHealth("job/1", intent.Healthy, "")
		told.Store(&intent.Health{State: intent.Unhealthy, Reason: "no answer on its port"})
		w.awaitHealth("job/1", intent.Unhealthy, "its plugin says: no answer on its port")
		there.Store(&processpb.Job{Replicas: 1, Version: "v1"})
		w.awaitHealth("job/1", intent.Unhealthy, "only 1 tasks run; its plugin says: no answer on its port")
		there.Store(nil)
		told.Store(&intent.Health{State: intent.HealthUnknown, Reason: "its machine is away"})
		w.awaitHealth("job/1", intent.HealthUnknown, "its plugin does not know: its machine is away")
		told.Store(&intent.Health{State: intent.Healthy})
		w.awaitHealth("job/1", intent.Healthy, "")
		w.production.does("job/1", behaviour{says: func(d *intent.Difference) { d.Current = nil }})
		w.awaitHealth("job/1", intent.HealthUnknown, "does not show the state that is there")
	})
}

// TestAHealthAddonThatIsTakenAway leaves the health to the plugin, which tells none.
func TestAHealthAddonThatIsTakenAway(t *testing.T) {
	simulate(t, func(w *world) {
		things, there, _ := w.judged(twoTasks)
		w.publish(things("v1")...)
		w.inSync(things("v1")...)
		there.Store(&processpb.Job{Replicas: 1, Version: "v1"})
		w.awaitHealth("job/1", intent.Unhealthy, "only 1 tasks run")
		plain, _, _ := w.judged("")
		w.publish(plain("v1")...)
		w.eventually("nobody judges it", func() bool { return !w.report("job/1").Health.IsByAddon() })
		w.pass(time.Minute)
		if h := w.report("job/1").Health; h.State == intent.Unhealthy || h.State == intent.Healthy {
			t.Errorf("its health is %+v", h)
		}
	})
}
