package enforcer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

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
		w.must(w.store.Unhold(w.ctx, shop, "web", "a try", tester))
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
		w.production.access(func() { w.production.most = 0 })
		w.publish(gone...)
		for _, th := range gone {
			w.eventually("its plan is shown", func() bool { return !w.report(th.id).PlanDigest.IsZero() })
			w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: th.id, Owner: tester, Reason: "until all are approved"}))
			w.approve(th.id)
		}
		for _, th := range gone {
			w.must(w.store.Unhold(w.ctx, shop, th.id, "a try", tester))
		}
		w.inSync(gone...)
		if most := w.production.mostAtOnce(); most != 1 {
			t.Errorf("%d removals at once, want 1", most)
		}
	})
}

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

// TestWhatWentStaysAwayWhenNobodyCanTell: what an asset is looked at through
// may go after it, and a server may start anew: its turndown stays done.
func TestWhatWentStaysAwayWhenNobodyCanTell(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("lb", 1, "1"))
		w.inSync(job("lb", 1, "1"))
		w.publish(job("lb", 1, "1").down())
		w.eventually("a plan is shown", func() bool { return !w.report("lb").PlanDigest.IsZero() })
		w.approve("lb")
		w.inSync(job("lb", 1, "1").down())
		w.production.does("lb", behaviour{unknown: "connection refused"})
		for _, restarted := range []bool{false, true} {
			if restarted {
				w.restart(func() {})
			}
			w.pass(10 * time.Minute)
			report := w.report("lb")
			if report.State != intent.StateInSync || !report.Absent || !strings.Contains(report.PushNote, "connection refused") {
				t.Fatalf("restarted %t: %s, absent %t, %q", restarted, report.State, report.Absent, report.PushNote)
			}
		}
		// It is back by somebody's hand, and its plugin can tell again.
		w.production.does("lb", behaviour{})
		w.production.set("lb", "x")
		w.eventually("what came back is to go again", func() bool { return w.report("lb").State == intent.StateWaiting })
	})
}

// TestWhatGoesAfterWhatNobodyCanTellOf: a balancer's process goes after the
// balancer, which nobody can look at from then on; the jobs behind it and what it
// came after go too, also when the server starts anew meanwhile.
func TestWhatGoesAfterWhatNobodyCanTellOf(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint("restarted ", restarted), func(t *testing.T) {
			simulate(t, func(w *world) {
				behind := []thing{job("proxy", 1, "1"), job("lb", 3, "1", comesAfter("proxy")), job("job", 3, "1", serves("lb"))}
				w.publish(behind...)
				w.inSync(behind...)
				for at := range behind {
					behind[at] = behind[at].down()
				}
				w.publish(behind...)
				w.eventually("a plan is shown", func() bool { return !w.report("lb").PlanDigest.IsZero() })
				w.approve("lb")
				w.inSync(behind[1])
				w.production.does("lb", behaviour{unknown: "connection refused"})
				if restarted {
					w.restart(func() {})
				} else {
					w.pass(10 * time.Minute) // Nothing that was seen before holds now.
				}
				for _, at := range []int{0, 2} {
					id := behind[at].id
					w.eventually(string(id)+" waits for its approval alone", func() bool {
						waiting := w.report(id).Waiting
						return len(waiting) == 1 && waiting[0].Kind == intent.WaitApproval
					})
					w.approve(id)
					w.inSync(behind[at])
				}
			})
		})
	}
}

// TestWhatCameBackGivesItsClaimBackAgain: what was turned down and is there
// again takes its claim to be removed, and gives it back when it is gone; a
// process that begins in between knows that.
func TestWhatCameBackGivesItsClaimBackAgain(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		simulate(t, func(w *world) {
			w.publish(job("lb", 1, "1"))
			w.inSync(job("lb", 1, "1"))
			down := job("lb", 1, "1").down()
			w.publish(down)
			w.eventually("a plan is shown", func() bool { return !w.report("lb").PlanDigest.IsZero() })
			w.approve("lb")
			w.inSync(down)
			key := w.report("lb").ResourceKey
			gate := w.gated()
			open := gate.shut("close")
			w.production.set("lb", "1")
			w.eventually("what came back is to go again", func() bool { return w.report("lb").State == intent.StateWaiting })
			w.approve("lb")
			w.eventually("it is gone again", func() bool { return w.production.word("lb") == "" })
			if restarts {
				w.restart(open)
			} else {
				open()
			}
			w.eventually("it is known to be gone", func() bool { r := w.report("lb"); return r.State == intent.StateInSync && r.Absent })
			w.must(w.store.AddPartition(w.ctx, "other", "/other/lehr.yaml", "a try", tester))
			lease, err := w.store.Acquire(w.ctx, "other", "other")
			w.must(err)
			held, err := w.store.SaveEnforced(w.ctx, lease, []store.Enforced{{
				Asset: "x", Type: "t", Incarnation: intent.IncarnationID{Partition: "other", Sequence: 1}, ResourceKey: key, At: time.Now(),
			}})
			w.must(err)
			if len(held) > 0 {
				t.Errorf("restarts %t: what is gone keeps its claim: %+v", restarts, held)
			}
		})
	}
}
