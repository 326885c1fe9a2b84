package monitor

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
	"lehr.dev/internal/store"
)

// isJudged puts all pushes under a protection, asked also while and after them; b comes
// after a.
func (r *run) isJudged() {
	r.Helper()
	r.options.Remembers = time.Hour
	r.isJudgedFor(10*time.Second, "2")
}

// isJudgedFor asks for so long after a push; b is of that version.
func (r *run) isJudgedFor(duration time.Duration, b string) {
	r.Helper()
	r.publish(policy(func(p *intentpb.Policy) {
		p.Checks = []*intentpb.Check{{Name: "guard", Kind: &intentpb.Check_Protection{Protection: &intentpb.Protection{
			Ask: &intentpb.Protection_Plugin{Plugin: "judge"}, Keep: durationpb.New(20 * time.Second), Before: true, During: intentpb.Protection_DURING_BLOCK,
			After: &intentpb.AfterPush{Delay: durationpb.New(10 * time.Second), Duration: durationpb.New(duration)},
		}}}}
	}), job("b", b, &intentpb.Dependencies{Dependencies: []*intentpb.Dependency{{On: "a", Rule: intentpb.Dependency_RULE_ORDER}}}))
}

// says is what the protection answers of an admission now.
func (r *run) says(phase string, a store.Admission, passes bool) {
	j := Judgement{Check: "guard", Phase: phase, Asset: a.Asset, Content: a.Effective.String(), Plan: a.Plan.String(), By: "north", Asked: r.now, Passes: passes}
	if phase != "before" {
		j.Push = a.Push
	}
	r.Judged(j)
}

func byNorth(e *world.Effect) { e.Replica = "north" }

// judgedPush admits a push of an asset that was passed, a while ago.
func (r *run) judgedPush(id intent.AssetID, ago time.Duration) store.Admission {
	r.Helper()
	r.says("before", r.admission(id), true)
	r.pass(ago)
	return r.admit(id)
}

// judgedEnd is the end of a push of a, and a report that it is well some time later.
func (r *run) judgedEnd(later time.Duration, says func(store.Admission)) {
	r.Helper()
	r.isJudged()
	a := r.judgedPush("a", 0)
	r.effect(a, byNorth)
	r.end(a, "pushed")
	r.pass(later)
	says(a)
}

var judged = []breach{
	{"S11", "to which guard never said yes",
		func(r *run) { r.isJudged(); r.effect(r.admit("a"), byNorth) },
		func(r *run) { r.isJudged(); r.effect(r.judgedPush("a", 0), byNorth) }},
	{"S11", "to which guard never said yes", // of another plan
		func(r *run) {
			r.isJudged()
			r.says("before", r.admission("a", func(a *store.Admission) { a.Plan = intent.Sum("other") }), true)
			r.effect(r.admit("a"), byNorth)
		}, nil},
	{"S11", "was too old",
		func(r *run) { r.isJudged(); r.effect(r.judgedPush("a", 21*time.Second), byNorth) },
		func(r *run) { r.isJudged(); r.effect(r.judgedPush("a", 20*time.Second), byNorth) }},
	{"S11", "after guard said no to it",
		func(r *run) {
			r.isJudged()
			r.says("before", r.admission("a"), true)
			r.says("before", r.admission("a"), false)
			r.pass(2 * time.Second)
			r.effect(r.admit("a"), byNorth)
		}, nil},
	{"S11", "after guard said no to it",
		func(r *run) {
			r.isJudged()
			a := r.judgedPush("a", 0)
			r.says("during", a, false)
			r.pass(tooLate)
			r.effect(a, byNorth)
		},
		func(r *run) {
			r.isJudged()
			a := r.judgedPush("a", 0)
			r.says("during", a, false)
			r.pass(justInTime)
			r.effect(a, byNorth)
		}},
	{"S11", "what guard had said of it was too old",
		func(r *run) {
			r.isJudged()
			a := r.judgedPush("a", 0)
			r.pass(20*time.Second + tooLate)
			r.effect(a, byNorth)
		},
		func(r *run) {
			r.isJudged()
			a := r.judgedPush("a", 0)
			r.says("during", a, true)
			r.pass(20 * time.Second)
			r.effect(a, byNorth)
		}},
	{"S11", "guard had not passed since push",
		func(r *run) { r.judgedEnd(30*time.Second, func(store.Admission) { r.judgedPush("b", 0) }) },
		func(r *run) {
			r.judgedEnd(30*time.Second, func(a store.Admission) { r.says("after", a, true); r.judgedPush("b", 0) })
		}},
	{"S11", "guard had not passed since push", // A longer time asked later is no excuse, nor a reason to ask again.
		func(r *run) {
			r.judgedEnd(25*time.Second, func(store.Admission) { r.pass(2 * time.Minute); r.isJudgedFor(time.Minute, "3"); r.judgedPush("b", 0) })
		},
		func(r *run) {
			r.judgedEnd(25*time.Second, func(a store.Admission) {
				r.says("after", a, true)
				r.pass(2 * time.Minute)
				r.isJudgedFor(time.Minute, "3")
				r.judgedPush("b", 0)
			})
		}},
	{"S11", "asset a is reported healthy",
		func(r *run) {
			r.judgedEnd(15*time.Second, func(a store.Admission) { r.says("after", a, true); r.isWell() })
		},
		func(r *run) {
			r.judgedEnd(20*time.Second, func(a store.Admission) { r.says("after", a, true); r.isWell() })
		}},
	{"S11", "asset a is reported healthy",
		func(r *run) {
			r.judgedEnd(30*time.Second, func(a store.Admission) { r.says("after", a, false); r.isWell() })
		}, nil},
}

// isWell tells that a is.
func (r *run) isWell() {
	r.Told(intent.Report{Asset: "a", State: intent.StateInSync, Effective: r.saved["a"].Effective, At: r.now, Health: intent.Health{State: intent.Healthy}})
}
