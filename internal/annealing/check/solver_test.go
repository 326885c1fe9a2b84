package check

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/intent"
)

func known(asset intent.AssetID) Neighbour { return Neighbour{Asset: asset, Known: true} }

func TestSolver(t *testing.T) {
	soon := now.Add(time.Minute)
	shrink, grow, stay := Amount{4, 2}, Amount{2, 4}, Amount{4, 4}
	lb := func(serving bool, own, other Amount) Supply {
		return Supply{Neighbour: known("lb"), Serving: serving, Serves: "tasks", Expects: "a", Own: own, Other: other}
	}
	loose := lb(true, shrink, stay)
	loose.Loosened = true
	unseen := lb(true, shrink, stay)
	unseen.Known, unseen.State = false, "being pushed"
	unseenIdle := unseen
	unseenIdle.Own = grow
	broken := lb(true, shrink, stay)
	broken.Broken = errors.New("no such dimension")
	need := func(declares, atLeast string) Need {
		return Need{Neighbour: known("schema"), Declares: declares, AtLeast: atLeast}
	}
	needed := need("1", "2")
	needed.Needed = true
	// What ran as it was enforced last, and is on its way to need less.
	stillNeeded := needed
	stillNeeded.Loosened = true
	behind := Neighbour{Asset: "b", State: "differs", Loosened: true}
	circular := behind
	circular.WaitsForThis = true
	removal := intent.Plan{Action: intent.ActionDelete}
	destroys := intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{Path: "column", Destructive: true}}}
	tests := map[string]struct {
		facts Facts
		waits intent.WaitingKind
		says  string
	}{
		"shrinks below what is expected":  {Facts{Capacity: []Supply{lb(true, shrink, Amount{4, 2})}}, intent.WaitCapacity, "lb still expects 4 of a from x, which would serve 2"},
		"shrinks to what is expected":     {Facts{Capacity: []Supply{lb(true, shrink, Amount{2, 9})}}, "", ""},
		"grows as a server":               {Facts{Capacity: []Supply{lb(true, grow, Amount{9, 9})}}, "", ""},
		"stays as a server":               {Facts{Capacity: []Supply{lb(true, stay, Amount{9, 9})}}, "", ""},
		"expects more than is served":     {Facts{Capacity: []Supply{lb(false, grow, Amount{3, 9})}}, intent.WaitCapacity, "lb serves only 3 of tasks yet, and x would expect 4"},
		"expects what is served":          {Facts{Capacity: []Supply{lb(false, grow, Amount{4, 0})}}, "", ""},
		"expects less":                    {Facts{Capacity: []Supply{lb(false, shrink, Amount{0, 0})}}, "", ""},
		"rounding is no difference":       {Facts{Capacity: []Supply{lb(false, Amount{0, 0.1 + 0.2}, Amount{0.3, 0.3})}}, "", ""},
		"an unknown neighbour":            {Facts{Capacity: []Supply{unseen}}, intent.WaitCapacity, "lb (being pushed)"},
		"an unknown one that is idle":     {Facts{Capacity: []Supply{unseenIdle}}, "", ""},
		"broken":                          {Facts{Capacity: []Supply{broken}}, intent.WaitCheckBroken, "no such dimension"},
		"broken beside waiting":           {Facts{Capacity: []Supply{broken, unseen}}, intent.WaitCheckBroken, "no such dimension; lb (being pushed)"},
		"loosened":                        {Facts{Capacity: []Supply{loose}}, intent.WaitCapacity, "lehr approve x"},
		"loosened and approved":           {Facts{Capacity: []Supply{loose}, Approved: true}, "", ""},
		"loosened and approved removal":   {Facts{Capacity: []Supply{loose}, Approved: true, Plan: removal, Turndown: &Turndown{}}, intent.WaitCapacity, "still expects"},
		"loosened, destroys, approved":    {Facts{Version: []Need{stillNeeded}, Approved: true, Plan: destroys}, intent.WaitVersion, "schema still needs at least 2"},
		"in a circle, destroys":           {Facts{Order: []Neighbour{circular}, Plan: destroys}, intent.WaitOrder, "lehr approve x"},
		"in a circle, destroys, approved": {Facts{Order: []Neighbour{circular}, Plan: destroys, Approved: true}, "", ""},
		"in no circle, approved":          {Facts{Order: []Neighbour{behind}, Plan: destroys, Approved: true}, intent.WaitOrder, "must come after b"},
		"in a circle that intent asks for": {Facts{Order: []Neighbour{{Asset: "b", State: "differs", WaitsForThis: true}}, Plan: destroys, Approved: true},
			intent.WaitOrder, "must come after b"},
		"declares enough":                 {Facts{Version: []Need{need("1.10", "1.9")}}, "", ""},
		"with a prefix and parts missing": {Facts{Version: []Need{need("v2", "1.9.9")}}, "", ""},
		"declares too little":             {Facts{Version: []Need{need("1.9", "1.10")}}, intent.WaitVersion, "schema declares 1.9, and x needs at least 1.10"},
		"a candidate of a version":        {Facts{Version: []Need{need("2.0.0-rc1", "2.0.0")}}, intent.WaitVersion, "2.0.0-rc1"},
		"numbers":                         {Facts{Version: []Need{need("-1.5", "-2")}}, "", ""},
		"what does not compare":           {Facts{Version: []Need{need("blue", "2")}}, intent.WaitCheckBroken, `"blue" and "2"`},
		"no number":                       {Facts{Version: []Need{need("NaN", "-2")}}, intent.WaitCheckBroken, "NaN"},
		"still needed":                    {Facts{Version: []Need{needed}}, intent.WaitVersion, "schema still needs at least 2 of x, which would declare 1"},
		"removal that nothing asks for":   {Facts{Plan: removal, Approved: true}, intent.WaitTurndown, "absence never deletes"},
		"turndown":                        {Facts{Plan: removal, Turndown: &Turndown{}, Approved: true}, "", ""},
		"turndown is always approved":     {Facts{Plan: removal, Turndown: &Turndown{}}, intent.WaitApproval, "delete"},
		"turndown that would update":      {Facts{Plan: intent.Plan{Action: intent.ActionUpdate}, Turndown: &Turndown{}}, intent.WaitUnknown, "does not know turndowns"},
		"turndown under a dependant": {Facts{Plan: removal, Approved: true, Turndown: &Turndown{Dependants: []Neighbour{{Asset: "web", Known: true, State: "in sync"}}}},
			intent.WaitTurndown, "web still depends on it (in sync)"},
		"turndown after its dependants": {Facts{Plan: removal, Approved: true, Turndown: &Turndown{Dependants: []Neighbour{{Asset: "web", Known: true, Absent: true, Until: soon}}}}, "", ""},
		"absent as of long ago":         {Facts{Plan: removal, Approved: true, Turndown: &Turndown{Dependants: []Neighbour{{Asset: "web", Absent: true}}}}, intent.WaitTurndown, "web"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.facts.Now, test.facts.Mode, test.facts.Asset = now, Enforce, "x"
			decision := Decide(test.facts)
			if decision.Push() != (test.waits == "") {
				t.Fatalf("push %t, waiting on %v", decision.Push(), decision.Waiting())
			}
			if test.waits == "" {
				return
			}
			if first := decision.Waiting()[0]; first.Kind != test.waits || !strings.Contains(first.Reason, test.says) {
				t.Errorf("waits on %s %q, want %s with %q", first.Kind, first.Reason, test.waits, test.says)
			}
		})
	}
}

func TestAPassHoldsAsLongAsItsFacts(t *testing.T) {
	first, second := now.Add(time.Second), now.Add(2*time.Second)
	neighbour := func(until time.Time) Neighbour { return Neighbour{Asset: "b", Known: true, Until: until} }
	for name, f := range map[string]Facts{
		"capacity": {Capacity: []Supply{{Neighbour: neighbour(first), Serving: true, Own: Amount{2, 1}}, {Neighbour: neighbour(second), Serving: true, Own: Amount{2, 1}}}},
		"version":  {Version: []Need{{Neighbour: neighbour(second), Declares: "1", AtLeast: "1"}, {Neighbour: neighbour(first), Declares: "1", AtLeast: "1"}}},
	} {
		f.Mode, f.Now = Enforce, now
		if got := Decide(f).ValidUntil(); !got.Equal(first) {
			t.Errorf("%s: valid until %s, want %s", name, got, first)
		}
		if got := f.Relied(); len(got) != 1 || got[0] != "b" {
			t.Errorf("%s: relies on %v, want b once", name, got)
		}
	}
	idle := Facts{Mode: Enforce, Now: now, Capacity: []Supply{{Neighbour: neighbour(first), Serving: true, Own: Amount{1, 2}}}}
	if !Decide(idle).ValidUntil().IsZero() || len(idle.Relied()) != 0 {
		t.Error("a push that does not touch an edge rests on it")
	}
}

func TestAnApprovalIsUsedOnlyWhereItLetsSomethingGo(t *testing.T) {
	met := Need{Neighbour: known("b"), Needed: true, Declares: "2", AtLeast: "1"}
	met.Loosened = true
	if (Facts{Version: []Need{met}}).GoesPast() {
		t.Error("a loosened edge that is met asks for an approval")
	}
	met.Declares = "0.5"
	if (Facts{Version: []Need{met}}).GoesPast() {
		t.Error("no edge is gone past without an approval")
	}
	if !(Facts{Version: []Need{met}, Approved: true}).GoesPast() {
		t.Error("a loosened edge that is not met asks for none")
	}
}

func TestAThousandBlockersAreToldInShort(t *testing.T) {
	f := Facts{Now: now, Mode: Enforce, Asset: "hub"}
	for i := range 1000 {
		f.Capacity = append(f.Capacity, Supply{Neighbour: known(intent.AssetID(fmt.Sprint(i))), Own: Amount{0, 2}, Other: Amount{1, 1}})
	}
	waiting := Decide(f).Waiting()[0]
	if len(waiting.Blockers) != mostNamed || !strings.Contains(waiting.Reason, "and 995 more") || len(waiting.Reason) > 1000 {
		t.Errorf("%d blockers, %q", len(waiting.Blockers), waiting.Reason)
	}
}

// job is one of a world of jobs that serve each other.
type job struct {
	amount Amount
}

// facts as an enforcer would gather them, for the job at a place.
func factsOf(jobs []job, serving [][2]int, place int) Facts {
	f := Facts{Now: now, Mode: Enforce, Asset: name(place)}
	for _, pair := range serving {
		server, client := pair[0], pair[1]
		if server == place {
			f.Capacity = append(f.Capacity, Supply{Neighbour: known(name(client)), Serving: true, Own: jobs[server].amount, Other: jobs[client].amount})
		}
		if client == place {
			f.Capacity = append(f.Capacity, Supply{Neighbour: known(name(server)), Own: jobs[client].amount, Other: jobs[server].amount})
		}
	}
	return f
}

func name(place int) intent.AssetID { return intent.AssetID(fmt.Sprint("job/", place)) }

// TestNoMomentIsUnderserved: in any world, for any wishes, pushes that obey
// the rule never make one expect more than it is served. Where the wishes go
// together, they all come about, in whatever order the jobs are asked.
func TestNoMomentIsUnderserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(2, 8).Draw(t, "jobs")
		together := rapid.Bool().Draw(t, "wishes go together")
		jobs := make([]job, count)
		now, wish := 20.0, 20.0
		for i := range jobs {
			now -= float64(rapid.IntRange(0, 3).Draw(t, "less"))
			if wish -= float64(rapid.IntRange(0, 3).Draw(t, "less wished")); !together {
				wish = float64(rapid.IntRange(0, 25).Draw(t, "any wish"))
			}
			jobs[i].amount = Amount{now, wish}
		}
		var serving [][2]int
		for client := range jobs {
			for server := range client {
				if rapid.Bool().Draw(t, "serves") {
					serving = append(serving, [2]int{server, client})
				}
			}
		}
		for left := count * count; left > 0; left-- {
			place := rapid.IntRange(0, count-1).Draw(t, "asked")
			if Decide(factsOf(jobs, serving, place)).Push() {
				jobs[place].amount.Current = jobs[place].amount.Target
			}
			for _, pair := range serving {
				if jobs[pair[1]].amount.Current > jobs[pair[0]].amount.Current {
					t.Fatalf("after %d: %d expects %g of %d, which serves %g", place, pair[1], jobs[pair[1]].amount.Current, pair[0], jobs[pair[0]].amount.Current)
				}
			}
		}
		// Rounds until nothing moves; who still waits, waits for a reason.
		for moved := true; moved; {
			moved = false
			for place := range jobs {
				if a := &jobs[place].amount; a.Current != a.Target && Decide(factsOf(jobs, serving, place)).Push() {
					a.Current, moved = a.Target, true
				}
			}
		}
		stuck := slices.IndexFunc(jobs, func(j job) bool { return j.amount.Current != j.amount.Target })
		if together && stuck >= 0 {
			t.Fatalf("%d never moves, though all wishes go together: %+v %v", stuck, jobs, serving)
		}
	})
}

func TestCompareIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) string {
			return rapid.SampledFrom([]string{"", "v"}).Draw(t, label+" prefix") +
				rapid.StringMatching(`[0-9]{1,3}(\.[0-9]{1,3}){0,2}`).Draw(t, label)
		}
		a, b := draw("a"), draw("b")
		ab, err := Compare(a, b)
		ba, back := Compare(b, a)
		if err != nil || back != nil || ab != -ba {
			t.Fatalf("%s and %s: %d and %d (%v, %v)", a, b, ab, ba, err, back)
		}
	})
}

func TestHugeNumbersDoNotUpset(t *testing.T) {
	f := Facts{Now: now, Mode: Enforce, Capacity: []Supply{{Neighbour: known("lb"), Serving: true, Own: Amount{math.MaxFloat64, 0}, Other: Amount{1e-300, 0}}}}
	if !Decide(f).Push() {
		t.Error("next to nothing is taken for something")
	}
	f.Capacity[0].Other.Current = 1
	if Decide(f).Push() {
		t.Error("something is taken for nothing")
	}
}
