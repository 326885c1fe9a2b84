package enforcer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"lehr.dev/fault"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/intent"
	"lehr.dev/plugin"
	"lehr.dev/store"
	"lehr.dev/store/sqlite"
)

// job is a thing with replicas and a version, which its addons read.
func job(id intent.AssetID, replicas uint32, version string, dependencies ...*intentpb.Dependency) thing {
	payload := &processpb.Job{Name: string(id), Replicas: replicas, Version: version}
	th := thing{id: id, job: payload, word: wordOf(payload)}
	th.addons = []proto.Message{
		&intentpb.Capacity{Dimensions: map[string]string{"capacity": "payload.replicas"}},
		&intentpb.Version{Expression: "payload.version"},
	}
	if len(dependencies) > 0 {
		th.addons = append(th.addons, &intentpb.Dependencies{Dependencies: dependencies})
	}
	return th
}

// down asks for the thing's removal.
func (th thing) down() thing {
	th.word = ""
	th.addons = append([]proto.Message{&intentpb.Turndown{Reason: "a test"}}, th.addons...)
	return th
}

func serves(on string) *intentpb.Dependency {
	return &intentpb.Dependency{On: on, Rule: intentpb.Dependency_RULE_CAPACITY}
}

func needs(on, atLeast string) *intentpb.Dependency {
	return &intentpb.Dependency{On: on, Rule: intentpb.Dependency_RULE_VERSION, AtLeast: atLeast}
}

func comesAfter(on string) *intentpb.Dependency {
	return &intentpb.Dependency{On: on, Rule: intentpb.Dependency_RULE_ORDER}
}

// serving checks at every effect that no asset expects more than another
// serves it.
func (w *world) serving(pairs ...[2]intent.AssetID) {
	w.production.mu.Lock()
	defer w.production.mu.Unlock()
	w.production.effect = func(id intent.AssetID) {
		for _, pair := range pairs {
			server, client := jobOf(w.production.state[pair[0]]), jobOf(w.production.state[pair[1]])
			if client.Replicas > server.Replicas {
				w.t.Errorf("after the push of %s, %s expects %d of %s, which serves %d", id, pair[1], client.Replicas, pair[0], server.Replicas)
			}
		}
	}
}

// approve approves what the asset's report shows.
func (w *world) approve(id intent.AssetID) {
	w.t.Helper()
	report := w.report(id)
	w.must(w.store.Approve(w.ctx, store.Approval{Partition: shop, Asset: id, Effective: report.Effective, Plan: report.PlanDigest, By: tester}))
}

// order returns what was pushed since it was asked last.
func (w *world) order() string {
	w.production.mu.Lock()
	defer w.production.mu.Unlock()
	pushed := fmt.Sprint(w.production.pushed)
	w.production.pushed = nil
	return pushed
}

func TestCapacityIsCreatedDoubledHalvedInTheSafeOrder(t *testing.T) {
	simulate(t, func(w *world) {
		w.serving([2]intent.AssetID{"job", "lb"})
		for _, step := range []struct {
			replicas uint32
			order    string
		}{{2, "[job lb]"}, {4, "[job lb]"}, {2, "[lb job]"}, {7, "[job lb]"}, {0, "[lb job]"}} {
			w.publish(job("job", step.replicas, "1", serves("lb")), job("lb", step.replicas, "1"))
			w.inSync(job("job", step.replicas, "1"), job("lb", step.replicas, "1"))
			if got := w.order(); got != step.order {
				t.Errorf("to %d: pushed %s, want %s", step.replicas, got, step.order)
			}
		}
	})
}

func TestCapacityOfImpacts(t *testing.T) {
	simulate(t, func(w *world) {
		reports := func(dimension string) behaviour {
			return behaviour{says: func(d *intent.Difference) {
				impact := intent.Impact{Dimension: dimension, Current: float64(jobOf(w.production.state[d.Asset]).Replicas)}
				impact.Target = impact.Current
				for _, change := range d.Plan.Changes {
					impact.Target = float64(jobOf(change.Target).Replicas)
				}
				d.Impacts, d.Current = []intent.Impact{impact}, nil
			}}
		}
		w.production.does("job", reports("tasks"))
		w.production.does("lb", reports("a"))
		w.serving([2]intent.AssetID{"job", "lb"})
		edge := serves("lb")
		edge.Serves, edge.Expects = "tasks", "a"
		for _, replicas := range []uint32{4, 2} {
			server, client := job("job", replicas, "1"), job("lb", replicas, "1").with()
			w.publish(server.with(&intentpb.Dependencies{Dependencies: []*intentpb.Dependency{edge}}), client)
			w.inSync(server, client)
		}
		if got := w.order(); got != "[job lb lb job]" {
			t.Errorf("pushed %s", got)
		}
		wrong := proto.CloneOf(edge)
		wrong.Expects = "b"
		w.publish(job("job", 1, "1").with(&intentpb.Dependencies{Dependencies: []*intentpb.Dependency{wrong}}), job("lb", 1, "1").with())
		waiting := w.waitsOn("job", intent.WaitCheckBroken)
		if !strings.Contains(waiting.Reason, "how much of b lb has is not known") {
			t.Errorf("a dimension that nobody reports: %s", waiting.Reason)
		}
		// lb goes on: it falls.
		w.inSync(job("lb", 1, "1"))
	})
}

func TestANeighbourWithoutRoomIsNamedWithNumbers(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 4, "1"))
		w.inSync(job("job", 4, "1"), job("lb", 4, "1"))
		w.publish(job("job", 2, "1", serves("lb")), job("lb", 4, "1"))
		waiting := w.waitsOn("job", intent.WaitCapacity)
		if want := "lb still expects 4 of capacity from job, which would serve 2"; waiting.Reason != want || len(waiting.Blockers) != 1 || waiting.Blockers[0] != "lb" {
			t.Errorf("waits on %q by %v, want %q", waiting.Reason, waiting.Blockers, want)
		}
		// A push that takes nothing away does not wait.
		w.publish(job("job", 4, "2", serves("lb")), job("lb", 4, "1"))
		w.inSync(job("job", 4, "2"))
		w.publish(job("job", 4, "2", serves("lb")), job("lb", 5, "1"))
		waiting = w.waitsOn("lb", intent.WaitCapacity)
		if want := "job serves only 4 of capacity yet, and lb would expect 5"; waiting.Reason != want {
			t.Errorf("waits on %q, want %q", waiting.Reason, want)
		}
		w.pass(time.Hour)
		if w.production.word("lb") != "4 1" {
			t.Error("pushed all the same")
		}
		w.publish(job("job", 5, "2", serves("lb")), job("lb", 5, "1"))
		began := time.Now()
		w.inSync(job("job", 5, "2"), job("lb", 5, "1"))
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestVersionsGoUpAndDown(t *testing.T) {
	simulate(t, func(w *world) {
		for _, step := range []struct{ version, order string }{{"1", "[schema web]"}, {"2", "[schema web]"}, {"1.5", "[web schema]"}, {"10", "[schema web]"}} {
			w.publish(job("web", 1, step.version, needs("schema", step.version)), job("schema", 1, step.version))
			w.inSync(job("web", 1, step.version), job("schema", 1, step.version))
			if got := w.order(); got != step.order {
				t.Errorf("to %s: pushed %s, want %s", step.version, got, step.order)
			}
		}
		// The schema goes back alone: what runs needs it.
		w.publish(job("web", 1, "10", needs("schema", "10")), job("schema", 1, "9"))
		waiting := w.waitsOn("schema", intent.WaitVersion)
		if want := "web still needs at least 10 of schema, which would declare 9"; waiting.Reason != want {
			t.Errorf("waits on %q, want %q", waiting.Reason, want)
		}
		w.publish(job("web", 1, "11", needs("schema", "11")), job("schema", 1, "10"))
		waiting = w.waitsOn("web", intent.WaitVersion)
		if want := "schema declares 10, and web needs at least 11"; waiting.Reason != want {
			t.Errorf("waits on %q, want %q", waiting.Reason, want)
		}
		w.publish(job("web", 1, "12", needs("schema", "green")), job("schema", 1, "blue"))
		if waiting = w.waitsOn("schema", intent.WaitCheckBroken); !strings.Contains(waiting.Reason, `"blue"`) || !strings.Contains(waiting.Reason, `"10"`) {
			t.Errorf("texts that do not compare: %q", waiting.Reason)
		}
	})
}

func TestAClusterIsTurnedDownInTheRightOrder(t *testing.T) {
	simulate(t, func(w *world) {
		w.serving([2]intent.AssetID{"job", "lb"})
		w.publish(job("net", 1, "1"), job("job", 3, "1", serves("lb"), comesAfter("net")), job("lb", 3, "1"))
		w.inSync(job("net", 1, "1"), job("job", 3, "1"), job("lb", 3, "1"))
		if got := w.order(); got != "[net job lb]" {
			t.Errorf("created in the order %s", got)
		}
		// One commit: lb expects nothing, job and net go; job drops its edges.
		w.publish(job("net", 1, "1").down(), job("job", 3, "1").down(), job("lb", 0, "1"))
		w.eventually("plans are shown", func() bool { return !w.report("net").PlanDigest.IsZero() && !w.report("job").PlanDigest.IsZero() })
		w.approve("net")
		w.approve("job")
		w.inSync(job("net", 1, "1").down(), job("job", 3, "1").down(), job("lb", 0, "1"))
		if got := w.order(); got != "[lb job net]" {
			t.Errorf("removed in the order %s", got)
		}
		if report := w.report("job"); !report.Absent {
			t.Error("the report does not say that nothing is there")
		}
		w.publish(job("lb", 0, "1"))
		w.eventually("gone", func() bool { return w.report("job").State == intent.StateGone && w.report("job").Absent })
		orphans, err := w.store.OrphanCount(w.ctx, shop)
		w.must(err)
		if orphans != 0 {
			t.Errorf("%d orphans after turndowns", orphans)
		}
		w.pass(time.Hour)
		if w.production.pushes("") != 0 {
			t.Error("a completed turndown is not quiet (L10)")
		}
	})
}

func TestATurndownWaitsForItsDependantsAndItsApproval(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("db", 1, "1"), job("web", 1, "1", comesAfter("db")))
		w.inSync(job("db", 1, "1"), job("web", 1, "1"))
		w.publish(job("db", 1, "1").down(), job("web", 1, "1", comesAfter("db")))
		waiting := w.waitsOn("db", intent.WaitTurndown)
		if len(waiting.Blockers) != 1 || waiting.Blockers[0] != "web" {
			t.Errorf("blockers %v", waiting.Blockers)
		}
		w.approve("db")
		w.pass(time.Hour)
		if w.production.word("db") == "" {
			t.Fatal("removed under what depends on it")
		}
		// Even dropped from intent the edge counts until web runs without it.
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web", Owner: tester, Reason: "looking"}))
		w.publish(job("db", 1, "1").down(), job("web", 1, "2"))
		w.pass(time.Hour)
		if w.production.word("db") == "" {
			t.Fatal("removed under what was enforced with a dependency on it")
		}
		w.must(w.store.Unhold(w.ctx, shop, "web", tester))
		w.inSync(job("web", 1, "2"))
		w.inSync(job("db", 1, "1").down())
	})
}

func TestAbsenceNeverDeletes(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("db", 1, "1"))
		w.inSync(job("db", 1, "1"))
		w.production.does("db", behaviour{says: func(d *intent.Difference) {
			d.Outcome, d.Plan = intent.Differs, intent.Plan{Action: intent.ActionDelete}
		}})
		waiting := w.waitsOn("db", intent.WaitTurndown)
		if !strings.Contains(waiting.Reason, "absence never deletes") {
			t.Errorf("reason %q", waiting.Reason)
		}
		w.approve("db")
		w.pass(time.Hour)
		if w.production.pushes("db") != 1 {
			t.Error("a removal that nothing asks for was pushed (S5)")
		}
	})
}

func TestAPluginThatDoesNotKnowTurndowns(t *testing.T) {
	for name, says := range map[string]func(*intent.Difference){
		"in sync": func(d *intent.Difference) { d.Outcome, d.Plan = intent.InSync, intent.Plan{} },
		"update":  func(d *intent.Difference) { d.Plan.Action = intent.ActionUpdate },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				w.publish(job("db", 1, "1"))
				w.inSync(job("db", 1, "1"))
				w.production.does("db", behaviour{says: says})
				w.publish(job("db", 1, "1").down())
				if waiting := w.waitsOn("db", intent.WaitUnknown); !strings.Contains(waiting.Reason, "does not know turndowns") {
					t.Errorf("reason %q", waiting.Reason)
				}
				w.pass(time.Hour)
				if w.production.pushes("db") != 1 || w.report("db").Absent {
					t.Error("something was done, or believed to be done")
				}
			})
		})
	}
}

func TestOneTurndownAtATime(t *testing.T) {
	simulate(t, func(w *world) {
		var up, gone []thing
		for i := range 4 {
			id := intent.AssetID(fmt.Sprintf("job/%d", i))
			up, gone = append(up, job(id, 1, "1")), append(gone, job(id, 1, "1").down())
		}
		w.publish(up...)
		w.inSync(up...)
		w.production.most = 0
		w.publish(gone...)
		for _, th := range gone {
			w.eventually("its plan is shown", func() bool { return !w.report(th.id).PlanDigest.IsZero() })
			w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: th.id, Owner: tester, Reason: "until all are approved"}))
			w.approve(th.id)
		}
		for _, th := range gone {
			w.must(w.store.Unhold(w.ctx, shop, th.id, tester))
		}
		w.inSync(gone...)
		if w.production.most != 1 {
			t.Errorf("%d removals at once, want 1", w.production.most)
		}
	})
}

func TestACapacityEdgeThatIsDroppedStillGuards(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 4, "1"))
		w.inSync(job("job", 4, "1"), job("lb", 4, "1"))
		w.publish(job("job", 2, "1"), job("lb", 4, "1"))
		waiting := w.waitsOn("job", intent.WaitCapacity)
		if !strings.Contains(waiting.Reason, "lehr approve job") {
			t.Errorf("the way out is not named: %s", waiting.Reason)
		}
		w.approve("job")
		w.inSync(job("job", 2, "1"))
	})
}

// TestAnInwardEdgeThatIsDroppedStillGuards: the edge was declared after lb was
// enforced last, and dropped by a commit before lb's own.
func TestAnInwardEdgeThatIsDroppedStillGuards(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("lb", 1, "1"), job("job", 1, "1"))
		w.inSync(job("lb", 1, "1"), job("job", 1, "1"))
		w.publish(job("lb", 1, "1"), job("job", 1, "1", serves("lb")))
		w.pass(time.Minute)
		w.inSync(job("job", 1, "1"))
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "job", Owner: tester, Reason: "stuck"}))
		w.publish(job("lb", 1, "1"), job("job", 1, "2"))
		w.waitsOn("job", intent.WaitHold)
		w.restart(func() {})
		w.publish(job("lb", 3, "1"), job("job", 1, "2"))
		waiting := w.waitsOn("lb", intent.WaitCapacity)
		if !strings.Contains(waiting.Reason, "job serves only 1") {
			t.Errorf("reason %q", waiting.Reason)
		}
		w.must(w.store.Unhold(w.ctx, shop, "job", tester))
		w.inSync(job("job", 1, "2"), job("lb", 3, "1"))
	})
}

func TestANeighbourWhosePluginIsDown(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 4, "1"))
		w.inSync(job("job", 4, "1"), job("lb", 4, "1"))
		w.pass(time.Minute)
		w.production.does("lb", behaviour{breaks: true})
		w.publish(job("job", 2, "1", serves("lb")), job("lb", 4, "1"))
		waiting := w.waitsOn("job", intent.WaitCapacity)
		if !strings.Contains(waiting.Reason, "lb (") {
			t.Errorf("reason %q", waiting.Reason)
		}
		w.pass(time.Hour)
		if w.production.word("job") != "4 1" {
			t.Error("pushed without knowing its neighbour (S11)")
		}
		w.production.does("lb", behaviour{})
		w.publish(job("job", 2, "1", serves("lb")), job("lb", 2, "1"))
		w.inSync(job("lb", 2, "1"), job("job", 2, "1"))
		w.production.breakDown(fault.New(fault.Unavailable, "no program named fake"))
		w.publish(job("job", 1, "1", serves("lb")), job("lb", 1, "1"))
		w.waitsOn("job", intent.WaitPlugin)
		w.production.breakDown(nil)
		w.inSync(job("lb", 1, "1"), job("job", 1, "1"))
	})
}

func TestBadAmountsAreBrokenNotPassed(t *testing.T) {
	nan := 0.0
	nan /= nan
	for name, test := range map[string]struct {
		capacity string
		impact   intent.Impact
		says     string
	}{
		"fails on the current state": {capacity: "payload.version == '1' ? (payload.args[0] == 'x' ? 1.0 : 2.0) : 1.0", says: "has now cannot be told"},
		"negative impact":            {impact: intent.Impact{Dimension: "capacity", Current: 4, Target: -1}, says: "no amount"},
		"no number":                  {impact: intent.Impact{Dimension: "capacity", Current: nan, Target: 1}, says: "no amount"},
		"nothing at all":             {says: "is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				w.production.set("job", "4 1")
				if test.impact.Dimension != "" {
					w.production.does("job", behaviour{says: func(d *intent.Difference) { d.Impacts = []intent.Impact{test.impact} }})
				}
				server := job("job", 2, "2")
				server.addons = []proto.Message{&intentpb.Dependencies{Dependencies: []*intentpb.Dependency{serves("lb")}}}
				if test.capacity != "" {
					server.addons = append(server.addons, &intentpb.Capacity{Dimensions: map[string]string{"capacity": test.capacity}})
				}
				w.publish(server, job("lb", 0, "1"))
				if waiting := w.waitsOn("job", intent.WaitCheckBroken); !strings.Contains(waiting.Reason, test.says) {
					t.Errorf("reason %q, want %q in it", waiting.Reason, test.says)
				}
				w.pass(time.Hour)
				if w.production.pushes("job") != 0 {
					t.Error("pushed (S11)")
				}
			})
		})
	}
}

func TestADependencyOnWhatThePartitionNoLongerHas(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("job", 2, "1", serves("lb"), needs("schema", "1")), job("lb", 1, "1"), job("schema", 1, "1"))
		w.inSync(job("job", 2, "1"), job("lb", 1, "1"), job("schema", 1, "1"))
		old := w.head
		w.pin("job", old, time.Time{})
		w.publish(job("job", 2, "1"))
		w.production.set("job", "3 0")
		waiting := w.waitsOn("job", intent.WaitCapacity)
		if !strings.Contains(waiting.Reason, "lb (not in the incarnation") {
			t.Errorf("reason %q", waiting.Reason)
		}
	})
}

// TestANeighbourMovesBetweenDecisionAndAdmission: lb comes to expect more
// after job was let shrink, and before the store admits either.
func TestANeighbourMovesBetweenDecisionAndAdmission(t *testing.T) {
	for _, quick := range []bool{false, true} {
		t.Run(fmt.Sprintf("quick=%t", quick), func(t *testing.T) {
			simulate(t, func(w *world) {
				w.serving([2]intent.AssetID{"job", "lb"})
				w.publish(job("job", 4, "1", serves("lb")), job("lb", 1, "1"))
				w.inSync(job("job", 4, "1"), job("lb", 1, "1"))
				gate := w.gated()
				w.pass(time.Minute)
				for _, id := range []intent.AssetID{"job", "lb"} {
					w.production.does(id, behaviour{push: func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
						if !quick {
							time.Sleep(5 * time.Second)
						}
						apply()
						return plugin.PushResult{Ending: plugin.Pushed}
					}})
				}
				open := gate.shut("admit")
				// No order of the two is safe: one of them must wait for ever.
				w.publish(job("job", 2, "1", serves("lb")), job("lb", 3, "1"))
				w.pass(time.Second)
				open()
				w.pass(10 * time.Minute)
				waits := 0
				for _, id := range []intent.AssetID{"job", "lb"} {
					if w.report(id).State == intent.StateWaiting {
						waits++
					}
				}
				if waits != 1 {
					t.Errorf("%d of the two wait, want 1: job %s, lb %s", waits, w.production.word("job"), w.production.word("lb"))
				}
			})
		})
	}
}

func TestACrashInTheMiddleOfHalving(t *testing.T) {
	simulate(t, func(w *world) {
		w.serving([2]intent.AssetID{"job", "lb"})
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 4, "1"))
		w.inSync(job("job", 4, "1"), job("lb", 4, "1"))
		w.production.does("lb", behaviour{push: func(ctx context.Context, _ func(), _ plugin.Push) plugin.PushResult {
			<-ctx.Done()
			return plugin.PushResult{Ending: plugin.InDoubt}
		}})
		w.publish(job("job", 2, "1", serves("lb")), job("lb", 2, "1"))
		w.eventually("lb is being pushed", func() bool { return w.production.pushes("lb") == 2 })
		w.restart(func() { w.production.does("lb", behaviour{}) })
		w.pass(time.Second)
		if w.production.word("job") != "4 1" {
			t.Error("job shrank while the push of lb was in doubt")
		}
		w.inSync(job("lb", 2, "1"), job("job", 2, "1"))
	})
}

func TestACrashInTheMiddleOfAVersionChange(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("web", 1, "1", needs("schema", "1")), job("schema", 1, "1"))
		w.inSync(job("web", 1, "1"), job("schema", 1, "1"))
		// The push of web takes effect, fails, and is forgotten by a crash.
		w.production.does("web", behaviour{push: func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
			apply()
			return plugin.PushResult{Ending: plugin.Failed, Reason: "half done"}
		}, says: func(d *intent.Difference) {
			if d.Outcome == intent.InSync {
				d.Outcome, d.Reason = intent.Unknown, "cannot tell"
			}
		}})
		w.publish(job("web", 1, "2", needs("schema", "2")), job("schema", 1, "2"))
		w.eventually("web was tried", func() bool { return w.production.word("web") == "1 2" })
		w.pass(time.Minute)
		w.restart(func() {})
		w.publish(job("web", 1, "2", needs("schema", "2")), job("schema", 1, "1"))
		waiting := w.waitsOn("schema", intent.WaitVersion)
		if !strings.Contains(waiting.Reason, "web still needs at least 2") {
			t.Errorf("reason %q", waiting.Reason)
		}
	})
}

func TestACycleAcrossPinsIsTold(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("a", 1, "1", comesAfter("b")), job("b", 1, "1"))
		w.inSync(job("a", 1, "1"), job("b", 1, "1"))
		w.pin("a", w.head, time.Time{})
		w.publish(job("a", 1, "1"), job("b", 1, "2", comesAfter("a")))
		w.inSync(job("b", 1, "2"))
		w.restart(func() {
			w.production.set("a", "1 0")
			w.production.set("b", "1 0")
		})
		first, second := w.waitsOn("a", intent.WaitOrder), w.waitsOn("b", intent.WaitOrder)
		if first.Blockers[0] != "b" || second.Blockers[0] != "a" {
			t.Errorf("a waits for %v, b for %v", first.Blockers, second.Blockers)
		}
	})
}

func TestAModelIsAsItsIntentSays(t *testing.T) {
	simulate(t, func(w *world) {
		model := thing{id: "quota", word: "3"}.with(&intentpb.Capacity{Dimensions: map[string]string{"capacity": "double(payload.input)"}})
		w.policy.Plugins = w.policy.Plugins[1:]
		w.publish(job("job", 4, "1", serves("quota")), model)
		w.inSync(job("job", 4, "1"))
		w.publish(job("job", 2, "1", serves("quota")), model)
		if waiting := w.waitsOn("job", intent.WaitCapacity); !strings.Contains(waiting.Reason, "quota still expects 3") {
			t.Errorf("reason %q", waiting.Reason)
		}
		model.word = "1"
		w.publish(job("job", 2, "1", serves("quota")), model)
		w.inSync(job("job", 2, "1"))
	})
}

func TestAnAutoscalersShareIsNotTakenForIntents(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 1, "1"))
		w.inSync(job("job", 4, "1"), job("lb", 1, "1"))
		w.production.does("job", behaviour{says: func(d *intent.Difference) {
			d.Outcome, d.Plan = intent.InSync, intent.Plan{}
			d.Unmanaged = []intent.FieldChange{{Path: "replicas", Current: "2", Target: "4"}}
		}})
		w.production.set("job", "2 1")
		w.pass(time.Minute) // Until older facts do not hold any more.
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 3, "1"))
		if waiting := w.waitsOn("lb", intent.WaitCapacity); !strings.Contains(waiting.Reason, "job serves only 2") {
			t.Errorf("reason %q", waiting.Reason)
		}
	})
}

func TestAHubStaysCheap(t *testing.T) {
	const spokes = 1000
	simulate(t, func(w *world) {
		partition := func(replicas uint32) []thing {
			things := []thing{job("hub", replicas, "1")}
			for i := range spokes {
				things = append(things, job(intent.AssetID(fmt.Sprintf("spoke/%d", i)), replicas, "1", serves("hub")))
			}
			return things
		}
		w.publish(partition(1)...)
		w.eventually("created", func() bool { return w.report("hub").State == intent.StateInSync })
		if pushed := w.production.pushed; pushed[len(pushed)-1] != "hub" {
			t.Errorf("the hub was pushed before %s", pushed[len(pushed)-1])
		}
		w.pass(time.Minute)
		reads := 0
		w.restart(func() { w.stores = counting{w.store, &reads} })
		w.publish(partition(2)...)
		asked := w.production.asked()
		w.eventually("doubled", func() bool { return w.report("hub").State == intent.StateInSync && w.production.word("hub") == "2 1" })
		if looks := w.production.asked() - asked; looks > 5*spokes {
			t.Errorf("%d looks at %d assets", looks, spokes+1)
		}
		if reads > 10*spokes {
			t.Errorf("%d contents read for %d assets", reads, spokes+1)
		}
		before := len(w.enforcer.waiters)
		if before != 0 {
			t.Errorf("%d assets are still waited for", before)
		}
	})
}

// counting counts the contents read.
type counting struct {
	*sqlite.Store
	reads *int
}

func (c counting) Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error) {
	countingLock.Lock()
	*c.reads++
	countingLock.Unlock()
	return c.Store.Content(ctx, id, asset)
}

var countingLock sync.Mutex

func TestWhatIsTurnedDownNeedsNothing(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("web", 1, "2", needs("schema", "2")), job("schema", 1, "2"))
		w.inSync(job("web", 1, "2"), job("schema", 1, "2"))
		w.publish(job("web", 1, "2", needs("schema", "2")).down(), job("schema", 1, "1"))
		w.waitsOn("web", intent.WaitApproval)
		w.waitsOn("schema", intent.WaitVersion)
		w.approve("web")
		w.inSync(job("web", 1, "2").down(), job("schema", 1, "1"))
		if got := w.order(); got != "[schema web web schema]" {
			t.Errorf("pushed %s", got)
		}
	})
}

// TestAnAdmissionThatWaitedWhileANeighbourMovedIsTakenBack: the neighbour's
// push begins before the group of the admission goes to the store, and may be
// over when the store looks.
func TestAnAdmissionThatWaitedWhileANeighbourMovedIsTakenBack(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 1, "1"))
		w.inSync(job("job", 4, "1"), job("lb", 1, "1"))
		w.owned(func(e *Enforcer) {
			job, lb := e.assets["job"], e.assets["lb"]
			e.trouble(job).admitting = true
			e.trouble(lb).push = &push{id: "under way"}
			e.lines[""] = &line{taken: 1, limit: 10}
			if !e.outrun(admission{asset: job, Admission: store.Admission{Asset: "job", Quiet: []intent.AssetID{"lb"}}}) {
				t.Error("an admission rests on a neighbour that is being pushed")
			}
			if job.admitting || e.lines[""].taken != 0 {
				t.Error("what was taken back keeps its place")
			}
			lb.push = nil
			if e.outrun(admission{asset: job, Admission: store.Admission{Asset: "job", Quiet: []intent.AssetID{"lb"}}}) {
				t.Error("an admission is taken back for a neighbour that stands still")
			}
			job.admitting = false
		})
		w.pass(100 * time.Millisecond)
	})
}

// TestAnOrphanPutBackToBeTurnedDownIsStillGuarded: what it was enforced with
// is not forgotten while it is out of intent.
func TestAnOrphanPutBackToBeTurnedDownIsStillGuarded(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%t", restarted), func(t *testing.T) {
			simulate(t, func(w *world) {
				w.publish(job("job", 4, "1", serves("lb")), job("lb", 4, "1"))
				w.inSync(job("job", 4, "1"), job("lb", 4, "1"))
				w.publish(job("lb", 4, "1"))
				w.eventually("job is an orphan", func() bool { return w.report("job").State == intent.StateGone })
				if restarted {
					w.restart(func() {})
				}
				w.publish(job("job", 4, "1").down(), job("lb", 4, "1"))
				w.eventually("its plan is shown", func() bool { return !w.report("job").PlanDigest.IsZero() })
				w.approve("job")
				if waiting := w.waitsOn("job", intent.WaitCapacity); !strings.Contains(waiting.Reason, "lb still expects 4") {
					t.Errorf("reason %q", waiting.Reason)
				}
				w.pass(time.Hour)
				if w.production.word("job") == "" {
					t.Fatal("removed under a balancer that expects it")
				}
				w.publish(job("job", 4, "1").down(), job("lb", 0, "1"))
				w.inSync(job("lb", 0, "1"), job("job", 4, "1").down())
			})
		})
	}
}

func TestWhatProductionOwnsDoesNotShrinkByAPush(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("job", behaviour{says: func(d *intent.Difference) {
			if jobOf(w.production.state["job"]).Replicas == 7 {
				d.Unmanaged = []intent.FieldChange{{Path: "replicas", Current: "7", Target: "4"}}
			}
		}, push: func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
			apply()
			return plugin.PushResult{Ending: plugin.Pushed}
		}})
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 4, "1"))
		w.inSync(job("job", 4, "1"), job("lb", 4, "1"))
		w.restart(func() {
			w.production.set("job", "7 1")
			w.production.set("lb", "6 1")
		})
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "lb", Owner: tester, Reason: "it takes more"}))
		w.publish(job("job", 4, "2", serves("lb")), job("lb", 4, "1"))
		w.eventually("the new version is pushed, for the replicas stay", func() bool { return w.production.word("job") == "4 2" })
	})
}
