package monitor

import (
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// oldOnes is a rule by which things with numbers are generations of one thing.
var oldOnes = &intentpb.GenerationRule{Name: "old", Prefix: "gen/", Suffix: intentpb.GenerationRule_SUFFIX_VERSION, Generator: "web", Keep: 1}

func withRule(p *intentpb.Policy) { p.Generations = []*intentpb.GenerationRule{oldOnes} }

// byRule is a Turndown that the rule gives.
func byRule() *intentpb.Turndown {
	return &intentpb.Turndown{Reason: "older", Generation: &intentpb.GenerationRemoval{Rule: oldOnes.Name, Digest: digestOf(oldOnes)}}
}

// generations has three of them enforced under the rule, of which the oldest is then turned down by
// it, and the one before the newest is kept.
func (r *run) generations() {
	r.Helper()
	r.publish(policy(withRule))
	for _, id := range []intent.AssetID{"gen/1", "gen/2", "gen/3"} {
		r.publish(job(id, "1"))
		r.end(r.admit(id), "pushed")
		r.sight(id, intent.ResourceKey("key/"+id), false)
	}
	r.publish(gone("gen/2"))
	r.publish(job("gen/1", "1", byRule()))
}

// removesBy has a rule be the approval of the removal of an asset, as a store would that checks
// nothing.
func (r *run) removesBy(id intent.AssetID, rule, digest, more string) {
	r.Helper()
	a := r.admission(id, func(a *store.Admission) {
		a.Removes = true
		a.Budgets = append(a.Budgets, store.BudgetUse{Key: "turndown", Limit: 1})
	})
	r.enters(a)
	r.records("admit", string(id), detailOf(a)+"; approval of rule "+rule+" "+digest+more, r.lease.Holder)
	r.Monitor.Commit()
}

func (r *run) removesByOld(id intent.AssetID) { r.removesBy(id, oldOnes.Name, digestOf(oldOnes), "") }

var ofGenerations = []breach{
	{"S9", "turndown: false", // of what nobody turned down
		func(r *run) { r.generations(); r.removesByOld("gen/3") },
		func(r *run) { r.generations(); r.removesByOld("gen/1") }},
	{"S9", "turndown: true, marked: true", // of what people are to approve
		func(r *run) {
			r.generations()
			r.publish(job("gen/1", "1", byRule(), &intentpb.Approval{Reason: "careful"}))
			r.removesByOld("gen/1")
		}, nil},
	{"S9", "which head does not have",
		func(r *run) { r.generations(); r.removesBy("gen/1", "other", digestOf(oldOnes), "") }, nil},
	{"S9", "or which does not name it",
		func(r *run) { r.generations(); r.publish(job("a", "1", byRule())); r.removesByOld("a") }, nil},
	{"S9", "head has", // of a rule as it was
		func(r *run) { r.generations(); r.removesBy("gen/1", oldOnes.Name, "00", "") }, nil},
	{"S9", "was its approval", // and people's approvals beside it
		func(r *run) {
			r.generations()
			r.approve("gen/1", r.now.Add(1e9))
			r.removesBy("gen/1", oldOnes.Name, digestOf(oldOnes), "; approved by "+bob.Name)
		}, nil},
	{"S23", "was not in force before",
		func(r *run) {
			r.publish(job("gen/1", "1"), job("gen/2", "1"))
			r.publish(policy(withRule), job("gen/1", "1", byRule()))
			r.removesByOld("gen/1")
		}, nil},
	{"S5", "has no generation that stays",
		func(r *run) {
			r.generations()
			r.publish(gone("gen/3"), job("gen/1", "1", byRule(), &intentpb.Owner{Owner: "ann@example.com"}))
		}, nil},
	{"S5", "and keeps []; the rule keeps 1",
		func(r *run) {
			r.publish(policy(withRule))
			r.publish(job("gen/1", "1"), job("gen/3", "1"))
			r.publish(job("gen/1", "1", byRule()))
		},
		func(r *run) { r.generations() }},
}
