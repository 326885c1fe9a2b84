package monitor

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
	"lehr.dev/internal/store"
)

var admissions = []breach{
	{"S1", `without a pass of check "order"`,
		func(r *run) { r.forces("a", func(a *store.Admission) { a.Checks = without("order") }) },
		func(r *run) { r.forces("a") }},
	{"S1", "without a pass of check",
		func(r *run) { r.forces("a", func(a *store.Admission) { a.Checks = nil }) },
		func(r *run) { r.forces("a", func(a *store.Admission) { a.Checks = append(a.Checks, "another") }) }},
	{"S1", "was recorded as of",
		func(r *run) {
			a := r.admission("a")
			r.enters(a)
			a.Plan = intent.Sum("other")
			r.records("admit", "a", detailOf(a), r.lease.Holder)
			r.Monitor.Commit()
		}, nil},
	{"S1", "a second time",
		func(r *run) {
			a := r.admit("a")
			r.end(a, "pushed")
			r.behind("DELETE FROM push")
			r.admits(a)
		},
		func(r *run) {
			r.end(r.admit("a"), "pushed")
			r.behind("DELETE FROM push") // As the collector may.
			r.admit("a")
		}},
	{"S1", "is not in the journal",
		func(r *run) {
			r.records("admit", "a", detailOf(r.admission("a")), r.lease.Holder)
			r.Monitor.Commit()
		}, nil},
	{"S1", "while the asset was held",
		func(r *run) { r.must(r.SetHold(r.Context(), sim, intent.Hold{Asset: "a", Owner: ann})); r.forces("a") },
		func(r *run) {
			r.must(r.SetHold(r.Context(), sim, intent.Hold{Asset: "a", Owner: ann, Until: r.now.Add(time.Second)}))
			r.pass(time.Second)
			r.forces("a")
		}},
	{"S1", "in mode ENFORCEMENT_MODE_OBSERVE",
		func(r *run) {
			r.publish(policy(func(p *intentpb.Policy) { p.Mode = intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE }))
			r.forces("a")
		}, nil},
	{"S1", "in mode ENFORCEMENT_MODE_OFF",
		func(r *run) {
			r.publish(job("a", "1", &intentpb.Mode{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OFF}))
			r.forces("a")
		},
		func(r *run) {
			r.publish(job("b", "1", &intentpb.Mode{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OFF}))
			r.forces("a")
		}},
	{"S1", "outside the hours of its calendar",
		func(r *run) { r.publish(opens("12:01-20:00")); r.forces("a") },
		func(r *run) { r.publish(opens("12:01-20:00")); r.pass(time.Minute); r.forces("a") }},
	{"S1", "outside the hours of its calendar", // of its target
		func(r *run) {
			r.publish(opens("11:00-12:00"))
			r.publish(policy())
			r.pin("a", 2)
			r.forces("a", func(a *store.Admission) { a.Target = r.at(2) })
		}, nil},
	{"S23", "that it was enforced under",
		func(r *run) {
			r.publish(opens("11:00-12:00"))
			r.enforce("a")
			r.publish(policy(), job("a", "2"))
			r.forces("a")
		},
		func(r *run) {
			r.publish(opens("11:00-12:00"))
			r.enforce("a")
			r.publish(policy(), job("a", "2"))
			r.approve("a", time.Time{})
			r.admit("a", approved)
		}},
	{"S23", "never said yes to it",
		func(r *run) {
			r.publish(judges())
			r.enforce("a")
			r.publish(policy(), job("a", "2"))
			r.forces("a")
		},
		func(r *run) {
			r.publish(judges())
			r.enforce("a")
			r.publish(policy(), job("a", "2"))
			r.approve("a", time.Time{})
			r.admit("a", approved)
		}},
	{"S2", "was admitted with content",
		func(r *run) { r.forces("a", func(a *store.Admission) { a.Effective = intent.Sum("other") }) }, nil},
	{"S2", "while the asset followed",
		func(r *run) { old := r.admission("a"); r.publish(job("a", "2")); r.admits(old) },
		func(r *run) { r.publish(job("b", "2")); r.forces("a") }},
	{"S2", "what differed from another one",
		func(r *run) { old := r.admission("a"); r.publish(job("b", "2")); r.admits(old) },
		func(r *run) { old := r.admission("a"); r.publish(job("b", "2")); r.pin("a", 1); r.admits(old) }},
	{"S2", "while the asset followed", // a pin
		func(r *run) { r.publish(job("a", "2")); r.pin("a", 1); r.forces("a") },
		func(r *run) { old := r.admission("a"); r.publish(job("a", "2")); r.pin("a", 1); r.admits(old) }},
	{"S2", "while the asset followed", // a pin that has ended
		func(r *run) {
			old := r.admission("a")
			r.publish(job("a", "2"))
			_, err := r.SetPin(r.Context(), intent.Pin{Asset: "a", Incarnation: r.at(1), Rank: intent.RankPerson, Holder: ann, Until: r.now})
			r.must(err)
			r.admits(old)
		},
		func(r *run) {
			r.publish(job("a", "2"))
			_, err := r.SetPin(r.Context(), intent.Pin{Asset: "a", Incarnation: r.at(1), Rank: intent.RankPerson, Holder: ann, Until: r.now})
			r.must(err)
			r.forces("a")
		}},
	{"S3", "of a are open at once",
		func(r *run) {
			r.behind("DROP INDEX push_open_asset")
			r.admit("a")
			r.forces("a", func(a *store.Admission) { a.ResourceKey = "other" })
		},
		func(r *run) { r.end(r.admit("a"), "pushed"); r.forces("a") }},
	{"S3", "of the resource shared are open at once",
		func(r *run) {
			r.behind("DROP INDEX push_open_key")
			r.admit("a", key("shared"))
			r.forces("b", key("shared"))
		},
		func(r *run) { r.end(r.admit("a", key("shared")), "pushed"); r.forces("b", key("shared")) }},
	{"S3", "is open again after",
		func(r *run) { r.end(r.admit("a"), "pushed"); r.tampers("UPDATE push SET open = 1") }, nil},
	{"S4", "was admitted under epoch 1, and the epoch was 2",
		func(r *run) {
			old := r.lease
			r.acquire("south")
			r.lease.Epoch = old.Epoch
			r.forces("a")
		},
		func(r *run) { r.acquire("south"); r.forces("a") }},
	{"S4", `was written by "north", and the lease was held by "south"`,
		func(r *run) {
			a := r.admit("a")
			r.acquire("south")
			r.records("close", "a", "push "+string(a.Push)+" pushed", "north")
			r.Monitor.Commit()
		}, nil},
	{"S4", "was published under epoch 9",
		func(r *run) { r.records("publish", "sim@2", "nothing, under epoch 9", "north"); r.Monitor.Commit() }, nil},
	{"S4", "the epoch went back from 1 to 0",
		func(r *run) { r.tampers("UPDATE partitions SET epoch = 0") }, nil},
	{"S5", "which is not in its target",
		func(r *run) { a := r.admission("a"); r.publish(gone("a")); a.Target = r.at(2); r.admits(a) }, nil},
	{"S8", "took no place in budget cluster=c-a",
		func(r *run) { r.forces("a", func(a *store.Admission) { a.Budgets = nil }) },
		func(r *run) {
			r.publish(policy(func(p *intentpb.Policy) { p.Budgets = nil }))
			r.forces("a", func(a *store.Admission) { a.Budgets = nil })
		}},
	{"S8", "2 pushes are open under budget cluster=x, whose limit is 1",
		func(r *run) { r.publish(jobIn("x", "a", "1"), jobIn("x", "b", "1")); r.admit("a"); r.forces("b") },
		func(r *run) {
			r.publish(jobIn("x", "a", "1"), jobIn("x", "b", "1"), policy(func(p *intentpb.Policy) { p.Budgets[0].InFlight = 2 }))
			r.admit("a")
			r.forces("b")
		}},
	{"S8", "took no place in budget turndown",
		func(r *run) { r.publish(job("a", "1", turndown)); r.approve("a", time.Time{}); r.admit("a", approved) }, nil},
	{"S9", "marked: true", // at head, while a pin leads elsewhere
		func(r *run) {
			old := r.admission("a")
			r.publish(job("a", "2", &intentpb.Approval{Reason: "precious"}))
			r.pin("a", 1)
			r.admits(old)
		},
		func(r *run) { // Head has it no more.
			old := r.admission("a")
			r.publish(job("a", "2", &intentpb.Approval{Reason: "precious"}))
			r.pin("a", 1)
			r.publish(gone("a"))
			r.admits(old)
		}},
	{"S8", "under the rate limit often",
		func(r *run) {
			r.publish(policy(minutely))
			r.end(r.admit("a"), "failed")
			r.pass(time.Minute - 1)
			r.forces("a")
		},
		func(r *run) {
			r.publish(policy(minutely))
			r.end(r.admit("a"), "failed")
			r.end(r.admit("b"), "pushed")
			r.pass(time.Minute)
			r.forces("a")
		}},
	{"S9", "turndown: true",
		func(r *run) { r.publish(job("a", "1", turndown)); r.forces("a") }, nil},
	{"S9", "marked: true",
		func(r *run) { r.publish(job("a", "1", &intentpb.Approval{Reason: "precious"})); r.forces("a") },
		func(r *run) {
			r.publish(job("a", "1", &intentpb.Approval{Reason: "precious"}))
			r.approve("a", time.Time{})
			r.admit("a", approved)
		}},
	{"S9", "marked: true", // at head, and the asset is pinned to before
		func(r *run) {
			r.publish(job("a", "2", &intentpb.Approval{Reason: "precious"}))
			_, err := r.SetPin(r.Context(), intent.Pin{Asset: "a", Incarnation: r.at(1), Rank: intent.RankPerson, Holder: ann})
			r.must(err)
			r.forces("a")
		}, nil},
	{"S9", "that nobody had given",
		func(r *run) { r.forces("a", approved) }, nil},
	{"S9", "for content that went since",
		func(r *run) {
			r.approve("a", time.Time{})
			r.behind("UPDATE approval SET partition = 'hidden'") // Nobody voids it.
			r.publish(job("a", "2"))
			r.publish(job("a", "1"))
			r.behind("UPDATE approval SET partition = 'sim'")
			r.admit("a", approved)
		},
		func(r *run) {
			r.approve("a", time.Time{})
			r.publish(job("b", "2"))
			r.admit("a", approved)
		}},
	{"S9", "or that was used before",
		func(r *run) {
			r.approve("a", time.Time{})
			r.end(r.admit("a", approved), "pushed")
			r.forces("a", approved)
		},
		func(r *run) {
			r.approve("a", time.Time{})
			r.end(r.admit("a", approved), "pushed")
			r.approve("a", time.Time{})
			r.admit("a", approved)
		}},
	{"S9", "or that was used before", // it was voided
		func(r *run) {
			r.approve("a", time.Time{})
			r.publish(job("a", "2"))
			r.publish(job("a", "1"))
			r.forces("a", approved)
		}, nil},
	{"S9", "no approval of plan",
		func(r *run) { r.approve("a", time.Time{}); r.forces("a", approved) }, nil},
	{"S9", "an approval of another plan",
		func(r *run) {
			r.approve("a", time.Time{})
			r.approveOther("a")
			a := r.admission("a", approved)
			r.behind("UPDATE approval SET used_by = ?", string(a.Push))
			r.admits(a)
		},
		func(r *run) { r.approve("a", time.Time{}); r.approveOther("a"); r.admit("a", approved) }},
	{"S9", "by an approval that ended at",
		func(r *run) {
			r.approve("a", r.now.Add(time.Second))
			r.pass(time.Second)
			a := r.admission("a", approved)
			r.behind("UPDATE approval SET used_by = ?", string(a.Push))
			r.admits(a)
		},
		func(r *run) { r.approve("a", r.now.Add(time.Second)); r.admit("a", approved) }},
	{"S9", "and 2 people are asked for",
		func(r *run) {
			r.publish(job("a", "1", &intentpb.Approval{Reason: "precious", Quorum: 2}))
			r.approve("a", time.Time{})
			r.admit("a", approved)
		}, nil},
	{"S9", "who made the change",
		func(r *run) {
			r.must(r.Approve(r.Context(), intent.Approval{Partition: sim, Asset: "a", Effective: r.saved["a"].Effective, Plan: r.plan, By: ann}))
			a := r.admission("a", approved)
			r.behind("UPDATE approval SET used_by = ?", string(a.Push))
			r.admitsBy(a, ann.Name)
		}, nil},
	{"S9", "had rejected plan",
		func(r *run) {
			r.must(r.Reject(r.Context(), intent.Rejection{Partition: sim, Asset: "a", Effective: r.saved["a"].Effective, Plan: r.plan, By: bob, Reason: "no"}))
			r.scans()
			r.forces("a")
		},
		func(r *run) {
			r.must(r.Reject(r.Context(), intent.Rejection{Partition: sim, Asset: "a", Effective: r.saved["a"].Effective, Plan: r.plan, By: bob, Reason: "no"}))
			r.must(r.Withdraw(r.Context(), sim, "a", bob.Name, "yes", bob))
			r.scans()
			r.admit("a")
		}},
	{"S17", "is gone, and nobody disowned it",
		func(r *run) { r.enforce("a"); r.scans(); r.tampers("DELETE FROM enforced") },
		func(r *run) {
			r.enforce("a")
			r.publish(gone("a"))
			r.scans()
			r.must(r.Disown(r.Context(), sim, "a", "another's", ann))
			r.scans()
		}},
	{"L2", "each time with others, and each time the plugin failed: [a b]",
		func(r *run) {
			for range 100 {
				r.looked([]intent.AssetID{"a", "b"}, true)
			}
		},
		func(r *run) {
			for range 100 {
				r.looked([]intent.AssetID{"a"}, true)
				r.looked([]intent.AssetID{"a", "b"}, true)
				r.pass(time.Second)
			}
		}},
	{"L10", "asset a was looked at 200 times within 30s",
		func(r *run) {
			for range 200 {
				r.looked([]intent.AssetID{"a"}, false)
			}
		},
		func(r *run) {
			for range 200 {
				r.looked([]intent.AssetID{"a"}, false)
				r.pass(200 * time.Millisecond)
			}
		}},
	{"S9", "who made the change", // who let it through a guard
		func(r *run) { r.acknowledged(bob); r.approveAs(bob); r.usedBy(r.admission("a", approved)) },
		func(r *run) { r.acknowledged(ann); r.approveAs(bob); r.admit("a", approved) }},
	{"S9", "who made the change", // who pinned it there
		func(r *run) { r.pinAs("a", 1, bob); r.approveAs(bob); r.usedBy(r.admission("a", approved)) },
		func(r *run) { r.pinAs("b", 1, bob); r.approveAs(bob); r.admit("a", approved) }},
	{"S9", "and 2 people are asked for", // by what it was enforced under
		func(r *run) {
			r.publish(policy(func(p *intentpb.Policy) { p.Approval = &intentpb.ApprovalPolicy{Quorum: 2} }))
			r.enforce("a")
			r.publish(policy())
			r.approveAs(bob)
			r.admit("a", approved)
		},
		func(r *run) {
			r.publish(policy(func(p *intentpb.Policy) { p.Approval = &intentpb.ApprovalPolicy{Quorum: 2} }))
			r.publish(policy())
			r.enforce("a")
			r.approveAs(bob)
			r.admit("a", approved)
		}},
	{"S9", "by an approval that ended at", // as policy has it
		func(r *run) {
			r.publish(policy(func(p *intentpb.Policy) {
				p.Approval = &intentpb.ApprovalPolicy{Expires: durationpb.New(time.Second)}
			}))
			r.approveAs(bob)
			r.pass(time.Second)
			r.usedBy(r.admission("a", approved))
		},
		func(r *run) {
			r.publish(policy(func(p *intentpb.Policy) {
				p.Approval = &intentpb.ApprovalPolicy{Expires: durationpb.New(time.Minute)}
			}))
			r.approveAs(bob)
			r.pass(time.Second)
			r.admit("a", approved)
		}},
	{"S9", "had rejected plan", // and the store has lost it
		func(r *run) { r.reject(bob); r.behind("DELETE FROM rejection"); r.forces("a") },
		func(r *run) {
			r.reject(bob)
			r.publish(job("a", "2")) // It is void.
			r.publish(job("a", "1"))
			r.forces("a")
		}},
	{"S25", "is rejected by bob without an audit record",
		func(r *run) {
			r.behind("INSERT INTO rejection VALUES ('sim', 'a', ?, ?, 'bob', 'cli', 'no', 0, 0)", r.plan[:], r.plan[:])
			r.scans()
		}, nil},
	{"S25", "is overridden without an audit record",
		func(r *run) {
			r.behind("INSERT INTO override VALUES ('sim', 'a', ?, 'order', 'bob', 'cli', 'no', 0, 0)", r.plan[:])
			r.scans()
		}, nil},
	{"S1", `an override of check "order" that nobody had given`,
		func(r *run) { r.lifts(); r.override("b", "order", time.Hour); r.passes("a", "order") },
		func(r *run) { r.lifts(); r.override("a", "order", time.Hour); r.passes("a", "order") }},
	{"S1", "or given for other content",
		func(r *run) {
			r.lifts()
			r.override("a", "order", time.Hour)
			r.behind("UPDATE override SET partition = 'hidden'") // Nobody voids it.
			r.publish(job("a", "2"))
			r.behind("UPDATE override SET partition = 'sim', effective = ?", func() []byte { e := r.saved["a"].Effective; return e[:] }())
			r.passes("a", "order")
		}, nil},
	{"S1", `an override of check "version" that nobody had given`,
		func(r *run) { r.lifts(); r.override("a", "order", time.Hour); r.passes("a", "version") }, nil},
	{"S1", `by an override of check "order" that was not in force`,
		func(r *run) {
			r.lifts()
			r.override("a", "order", time.Second)
			r.pass(time.Second)
			r.passes("a", "order")
		}, nil},
	{"S23", "which the policy of its target forbids",
		func(r *run) { r.override("a", "order", time.Hour); r.passes("a", "order") }, nil},
	{"S23", "or that which it was enforced under",
		func(r *run) { r.enforce("a"); r.lifts(); r.override("a", "order", time.Hour); r.passes("a", "order") },
		func(r *run) { r.lifts(); r.enforce("a"); r.override("a", "order", time.Hour); r.passes("a", "order") }},
	{"S11", "is outcome 0",
		func(r *run) {
			r.differs("a")
			r.pass(time.Minute)
			r.Diffed("a", Diff{At: r.now, Outcome: intent.Unknown})
			r.admit("a")
		},
		func(r *run) {
			r.Diffed("a", Diff{At: r.now, Outcome: intent.Unknown})
			r.pass(time.Minute)
			r.differs("a")
			r.admit("a")
		}},
	{"S11", "never compared",
		func(r *run) { r.differs("b"); r.admit("a") },
		func(r *run) { r.differs("a"); r.admit("a") }},
	{"S18", "under the stop of",
		func(r *run) { r.must(r.SetStop(r.Context(), intent.Stop{Partition: sim, Owner: ann})); r.forces("a") },
		func(r *run) {
			r.must(r.SetStop(r.Context(), intent.Stop{Partition: sim, Owner: ann}))
			r.must(r.Resume(r.Context(), sim, "over", ann))
			r.forces("a")
		}},
	{"S18", "was answered",
		func(r *run) { r.stop(""); r.forces("a") },
		func(r *run) {
			r.stop("")
			r.must(r.Resume(r.Context(), "", "over", ann))
			r.Resumed("", r.now)
			r.forces("a")
		}},
	{"S18", "was answered, and is not in the store",
		func(r *run) { r.StopAcknowledged(sim, r.now) },
		func(r *run) {
			r.must(r.SetStop(r.Context(), intent.Stop{Partition: sim, Owner: ann}))
			r.must(r.Resume(r.Context(), sim, "over", ann)) // Before the answer came.
			r.StopAcknowledged(sim, r.now)
		}},
	{"S18", "after the stop of",
		func(r *run) {
			a := r.admit("a")
			r.StopUnwritten(sim, r.now, "", nil)
			r.pass(time.Minute)
			r.effect(a)
		},
		func(r *run) { // What was under way ends in time; an admission alone does nothing.
			a := r.admit("a")
			r.StopUnwritten(sim, r.now, "", nil)
			r.effect(a)
			r.forces("b")
		}},
	{"S18", "after the stop of",
		func(r *run) {
			a := r.admit("a")
			r.StopUnwritten("", r.now, "north", func() bool { return true })
			r.pass(time.Minute)
			r.effect(a, func(e *world.Effect) { e.Replica = "north" })
		},
		func(r *run) { // Another process does not know what one has in memory, nor does the next of its name.
			a := r.admit("a")
			alive := true
			r.StopUnwritten("", r.now, "north", func() bool { return alive })
			r.pass(time.Minute)
			r.effect(a, func(e *world.Effect) { e.Replica = "south" })
			alive = false
			r.effect(a, func(e *world.Effect) { e.Replica = "north" })
		}},
}

func (r *run) differs(id intent.AssetID) {
	r.Diffed(id, Diff{At: r.now, Outcome: intent.Differs, Effective: r.saved[id].Effective, Plan: r.plan})
}

func without(check string) (names []string) {
	for _, name := range always {
		if name != check {
			names = append(names, name)
		}
	}
	return names
}

// minutely lets an asset be pushed once a minute.
func minutely(p *intentpb.Policy) {
	p.Checks = []*intentpb.Check{{Name: "often", Kind: &intentpb.Check_Rate{Rate: &intentpb.Rate{
		AtMost: 1, Per: durationpb.New(time.Minute), By: intentpb.Rate_BY_ASSET,
	}}}}
}

// twiceAMinute has an asset that may be pushed once a minute changed twice, with
// so much between the two.
func (r *run) twiceAMinute(between time.Duration) {
	r.publish(policy(minutely))
	first := r.admit("a")
	r.pass(10 * time.Minute)
	r.effect(first)
	r.end(first, "pushed")
	r.pass(between)
	r.effect(r.forces("a", func(a *store.Admission) { a.At = a.At.Add(time.Second) }))
}

// opens is a policy with a calendar, judges one with a protection.
func opens(hours string) asset {
	return policy(func(p *intentpb.Policy) {
		p.Checks = []*intentpb.Check{{Name: "hours", Kind: &intentpb.Check_Calendar{Calendar: &intentpb.Calendar{
			Zone: "UTC", Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: hours}}},
		}}}}
	})
}

func judges() asset {
	return policy(func(p *intentpb.Policy) {
		p.Checks = []*intentpb.Check{{Name: "judged", Kind: &intentpb.Check_Protection{Protection: &intentpb.Protection{
			Ask: &intentpb.Protection_Plugin{Plugin: "judge"}, Before: true,
		}}}}
	})
}
