package explore

import (
	"strconv"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

// names of the assets.
var names = [assets]intent.AssetID{"x", "y"}

// question is all that a decision in a small world rests on.
type question struct {
	asset      int
	from, with content
	stopped    bool
	approved   bool
	// other is the second asset as the replica knows it.
	other neighbour
}

// neighbour is what a replica knows of the other asset.
type neighbour struct {
	// follows: intent names it.
	follows bool
	known   bool
	inSync  bool
	// there is its content in production, with that of its target.
	there, with content
	// orphan: intent does not name it, and nobody removed it.
	orphan bool
}

// answer is what the rules say.
type answer struct {
	push          bool
	needsApproval bool
	// relied is the set of assets that must have no open push.
	relied uint8
	// lacks: nothing but a person's approval is missing.
	lacks bool
}

// ask puts a question to the rules of internal/annealing/check, once.
func (w *world) ask(q question) answer {
	if known, ok := w.answers[q]; ok {
		return known
	}
	facts := w.facts(q)
	decision := check.Decide(facts)
	a := answer{
		push:          decision.Push() || w.is(NoRules),
		needsApproval: check.ConsumesApproval(facts),
	}
	for _, id := range facts.Relied() {
		for i, name := range names {
			if name == id {
				a.relied |= 1 << i
			}
		}
	}
	waiting := decision.Waiting()
	a.lacks = len(waiting) == 1 && waiting[0].Kind == intent.WaitApproval
	w.answers[q] = a
	return a
}

func (w *world) facts(q question) check.Facts {
	facts := check.Facts{
		Now: now, Asset: names[q.asset], Mode: check.Enforce,
		Plan: w.plan(q.from, q.with), Approved: q.approved,
	}
	if q.stopped {
		facts.Stop = &intent.Stop{Since: now}
	}
	removes := q.with == nothing && !w.is(AbsencePlansDelete) || w.Removes[q.with]
	if removes {
		facts.Turndown = &check.Turndown{}
	}
	switch w.Edge {
	case OrderEdge:
		w.order(q, removes, &facts)
	case CapacityEdge:
		w.capacity(q, &facts)
	case VersionEdge:
		w.version(q, &facts)
	}
	return facts
}

// plan is what a push from one content to another would do.
func (w *world) plan(current, target content) intent.Plan {
	to := w.effectOf(target)
	plan := intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{
		Path: "content", Current: strconv.Itoa(int(current)), Target: strconv.Itoa(int(to)), Destructive: w.Destroys && to < current && current != foreign,
	}}}
	switch {
	case to == nothing:
		plan = intent.Plan{Action: intent.ActionDelete}
	case current == nothing:
		plan.Action = intent.ActionCreate
	}
	return plan
}

// order: y comes after x; of removals, x after y.
func (w *world) order(q question, removes bool, facts *check.Facts) {
	n := check.Neighbour{Asset: names[1-q.asset], Known: q.other.known && q.other.inSync, Until: now.Add(time.Second)}
	switch {
	case q.asset == 1 && !removes:
		facts.Order = append(facts.Order, n)
	case q.asset == 0 && removes && q.other.orphan:
		facts.Turndown.Dependants = append(facts.Turndown.Dependants, check.Neighbour{Asset: n.Asset})
	case q.asset == 0 && removes && q.other.follows:
		n.Absent = w.Removes[q.other.with]
		facts.Turndown.Dependants = append(facts.Turndown.Dependants, n)
	}
}

// capacity: x serves y, each as much as its content says.
func (w *world) capacity(q question, facts *check.Facts) {
	amount := func(current, target content) check.Amount {
		return check.Amount{Current: float64(current), Target: float64(w.effectOf(target))}
	}
	facts.Capacity = append(facts.Capacity, check.Supply{
		Neighbour: check.Neighbour{Asset: names[1-q.asset], Known: q.other.known, Until: now.Add(time.Second)},
		Serving:   q.asset == 0,
		Own:       amount(q.from, q.with), Other: amount(q.other.there, q.other.with),
	})
}

// version: y needs of x at least the version that its content says, and x
// declares its content.
func (w *world) version(q question, facts *check.Facts) {
	declares := func(c content) string { return strconv.Itoa(int(w.effectOf(c))) }
	need := check.Need{Neighbour: check.Neighbour{Asset: names[1-q.asset], Known: q.other.known, Until: now.Add(time.Second)}}
	switch {
	case q.asset == 1:
		// One on its way down counts as what it will be.
		need.Known = need.Known && (q.other.inSync || q.other.there > w.effectOf(q.other.with))
		need.AtLeast, need.Declares = declares(q.with), declares(q.other.with)
	case w.effectOf(q.with) < q.from:
		need.Needed, need.AtLeast, need.Declares = true, strconv.Itoa(int(q.other.there)), declares(q.with)
	default:
		return // It raises its version: nobody minds.
	}
	facts.Version = append(facts.Version, need)
}
