package enforcer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
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
	w.must(w.store.Approve(w.ctx, intent.Approval{Partition: shop, Asset: id, Effective: report.Effective, Plan: report.PlanDigest, By: tester}))
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
		w.must(w.store.Unhold(w.ctx, shop, "job", "a try", tester))
		w.inSync(job("job", 1, "2"), job("lb", 3, "1"))
	})
}

// TestDroppedEdgesThatCloseACircleAreNoTrap: each of two assets was enforced last with an edge
// to the other, and no content had both. A plan that needs an approval in any case lets go of
// no loosened edge, but here nothing else could.
func TestDroppedEdgesThatCloseACircleAreNoTrap(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("api", 1, "1", comesAfter("db")), job("db", 1, "1"))
		w.inSync(job("api", 1, "1"), job("db", 1, "1"))
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "api", Owner: tester, Reason: "stuck"}))
		w.publish(job("api", 1, "2"), job("db", 1, "1", comesAfter("api")))
		w.pass(time.Minute)
		w.production.does("api", behaviour{destructive: true})
		w.production.does("db", behaviour{destructive: true})
		w.publish(job("api", 1, "3"), job("db", 1, "3"))
		w.must(w.store.Unhold(w.ctx, shop, "api", "a try", tester))
		for _, id := range []intent.AssetID{"api", "db"} {
			if reason := w.waitsOn(id, intent.WaitOrder).Reason; !strings.Contains(reason, "it waits for this asset") || !strings.Contains(reason, "lehr approve "+string(id)) {
				t.Errorf("%s waits on %q", id, reason)
			}
		}
		w.approve("db")
		w.inSync(job("db", 1, "3"))
		// Nothing goes round any more: an approval of what api destroys is that, and no more.
		w.approve("api")
		w.inSync(job("api", 1, "3"))
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
		waiting := w.waitsOn("job", intent.WaitMissing)
		if !strings.Contains(waiting.Reason, "lb (not in the incarnation shop@2: it left intent after @1 and was not removed") {
			t.Errorf("reason %q", waiting.Reason)
		}
		if !slices.Contains(waiting.Blockers, "lb") {
			t.Errorf("blockers %v", waiting.Blockers)
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

// A plugin that tells that production owns the replicas, and not how many there
// are, is not taken to have as many as intent says (S11).
func TestAnAutoscalersShareThatIsNotShownIsNotKnown(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 1, "1"))
		w.inSync(job("job", 4, "1"), job("lb", 1, "1"))
		w.production.does("job", behaviour{says: func(d *intent.Difference) {
			d.Outcome, d.Plan, d.Current, d.Impacts = intent.InSync, intent.Plan{}, nil, nil
			d.Unmanaged = []intent.FieldChange{{Path: "replicas", Current: "2", Target: "4"}}
		}})
		w.production.set("job", "2 1")
		w.pass(time.Minute) // Until older facts do not hold any more.
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 3, "1"))
		if waiting := w.waitsOn("lb", intent.WaitCheckBroken); !strings.Contains(waiting.Reason, "of which production owns replicas") {
			t.Errorf("reason %q", waiting.Reason)
		}
	})
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

func TestWhatWaitsAtRestIsQuiet(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 4, "1"), job("net", 1, "1"), job("web", 1, "1", comesAfter("net")))
		w.inSync(job("job", 4, "1"), job("lb", 4, "1"), job("web", 1, "1"))
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web", Owner: tester, Reason: "looking"}))
		w.publish(job("job", 2, "1", serves("lb")), job("lb", 4, "1"), job("net", 1, "1"), job("web", 1, "2", comesAfter("net")))
		w.waitsOn("job", intent.WaitCapacity)
		w.waitsOn("web", intent.WaitHold)
		w.pass(2 * time.Minute)
		first, second := w.report("job").At, w.report("web").At
		w.pass(20 * time.Minute)
		if w.report("job").At != first || w.report("web").At != second {
			t.Errorf("reports of what only waits were written again (L10)")
		}
		w.production.does("lb", behaviour{breaks: true})
		w.eventually("the neighbour's new state is told", func() bool {
			return strings.Contains(w.report("job").Waiting[0].Reason, "lb (")
		})
	})
}

// TestAnotherThingOwesNothing: an id that a person let come back as something
// else is not held to what the thing before served. It was a trap: nothing can
// tell how much of that the new one has, and where the asset is marked no
// approval lets go of an edge (L7).
func TestAnotherThingOwesNothing(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("web", 2, "v1", serves("lb")), job("lb", 2, "v1"))
		w.inSync(job("web", 2, "v1"), job("lb", 2, "v1"))
		w.publish(job("lb", 2, "v1"))
		w.publish(web.with(&intentpb.Approval{Reason: "precious"}), job("lb", 2, "v1"))
		w.waitsOn("web", intent.WaitApproval)
		w.approve("web")
		w.inSync(web)
	})
}
