package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/intent"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func destructive() intent.Plan {
	return intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{Path: "disk", Destructive: true}}}
}

func TestRules(t *testing.T) {
	harmless := intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{Path: "version", Target: "v2"}}}
	person := intent.Actor{Name: "ada"}
	tests := []struct {
		name  string
		facts Facts
		// waits is the kind of the first reason; empty: pushed.
		waits intent.WaitingKind
		// says is part of the reason.
		says string
	}{
		{name: "nothing in the way", facts: Facts{Mode: Enforce, Plan: harmless}},
		{name: "no mode is not enforce", facts: Facts{Plan: harmless}, waits: intent.WaitMode},
		{name: "observe", facts: Facts{Mode: Observe, Modes: []intent.ModePlace{intent.ModeOfPartition}, Plan: harmless}, waits: intent.WaitMode, says: "by mode in lehr.yaml: differences"},
		{name: "observe, by two", facts: Facts{Mode: Observe, Modes: []intent.ModePlace{intent.ModeOfType, intent.ModeOfAsset}, Plan: harmless}, waits: intent.WaitMode, says: "by modes in lehr.yaml, for its type and its addon Mode: differences"},
		{name: "stop of one partition", facts: Facts{Mode: Enforce, Stop: &intent.Stop{Partition: "shop", Owner: person, Reason: "fire"}}, waits: intent.WaitStop, says: "lehr resume shop"},
		{name: "stop of all", facts: Facts{Mode: Enforce, Stop: &intent.Stop{Owner: person, Reason: "fire"}}, waits: intent.WaitStop, says: "everything"},
		{name: "the stop of a store without its witness", facts: Facts{Mode: Enforce, Stop: &intent.Stop{Owner: person, Reason: "its witness cannot be written", Unwitnessed: true}}, waits: intent.WaitStop, says: "its witness cannot be written"},
		{name: "the stop of the store itself", facts: Facts{Mode: Enforce, Stop: &intent.Stop{Owner: person, Reason: "it lost 7 commits: lehr store adopt", Adopt: true}}, waits: intent.WaitStop, says: "lehr store adopt"},
		{name: "hold", facts: Facts{Mode: Enforce, Hold: &intent.Hold{Owner: person, Reason: "looking"}}, waits: intent.WaitHold, says: "ada"},
		{name: "hold until later", facts: Facts{Mode: Enforce, Hold: &intent.Hold{Owner: person, Until: now.Add(1)}}, waits: intent.WaitHold},
		{name: "hold ended", facts: Facts{Mode: Enforce, Hold: &intent.Hold{Owner: person, Until: now}}},
		{name: "order", facts: Facts{Mode: Enforce, Order: []Neighbour{{Asset: "db", State: "differs"}}}, waits: intent.WaitOrder, says: "db (differs)"},
		{name: "order met", facts: Facts{Mode: Enforce, Order: []Neighbour{{Asset: "db", Known: true}}}},
		{name: "loosened order still holds", facts: Facts{Mode: Enforce, Asset: "web", Order: []Neighbour{{Asset: "db", State: "differs", Loosened: true}}}, waits: intent.WaitOrder, says: "lehr approve web"},
		{name: "loosened order let go", facts: Facts{Mode: Enforce, Approved: true, Order: []Neighbour{{Asset: "db", Loosened: true}}}},
		{name: "the approval of a marked asset lets go of no edge", facts: Facts{Mode: Enforce, Marked: "payments", Approved: true, Order: []Neighbour{{Asset: "db", Loosened: true}}}, waits: intent.WaitOrder},
		{name: "an approval does not lift an order in force", facts: Facts{Mode: Enforce, Approved: true, Order: []Neighbour{{Asset: "db"}}}, waits: intent.WaitOrder},
		{name: "destructive", facts: Facts{Mode: Enforce, Asset: "web", Plan: destructive()}, waits: intent.WaitApproval, says: "update of disk"},
		{name: "replace", facts: Facts{Mode: Enforce, Plan: intent.Plan{Action: intent.ActionReplace}}, waits: intent.WaitApproval},
		{name: "delete", facts: Facts{Mode: Enforce, Plan: intent.Plan{Action: intent.ActionDelete}, Turndown: &Turndown{}}, waits: intent.WaitApproval},
		{name: "destructive and approved", facts: Facts{Mode: Enforce, Plan: destructive(), Approved: true}},
		{name: "marked", facts: Facts{Mode: Enforce, Plan: harmless, Marked: "payments"}, waits: intent.WaitApproval, says: "payments"},
		{name: "backoff", facts: Facts{Mode: Enforce, Retry: &intent.WaitingOn{Kind: intent.WaitBackoff, Until: now.Add(1)}}, waits: intent.WaitBackoff},
		{name: "backoff over", facts: Facts{Mode: Enforce, Retry: &intent.WaitingOn{Kind: intent.WaitBackoff, Until: now}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.facts.Now = now
			decision := Decide(test.facts)
			if decision.Push() != (test.waits == "") {
				t.Fatalf("push %t, waiting on %v", decision.Push(), decision.Waiting())
			}
			if test.waits == "" {
				return
			}
			first := decision.Waiting()[0]
			if first.Kind != test.waits || !strings.Contains(first.Reason, test.says) {
				t.Errorf("waits on %s %q, want %s with %q", first.Kind, first.Reason, test.waits, test.says)
			}
		})
	}
}

func TestEveryBlockerIsNamed(t *testing.T) {
	decision := Decide(Facts{
		Now: now, Mode: Observe, Stop: &intent.Stop{}, Hold: &intent.Hold{}, Plan: destructive(),
		Order: []Neighbour{{Asset: "db"}}, Retry: &intent.WaitingOn{Kind: intent.WaitBackoff, Until: now.Add(1)},
	})
	var kinds []intent.WaitingKind
	for _, waiting := range decision.Waiting() {
		kinds = append(kinds, waiting.Kind)
	}
	want := []intent.WaitingKind{intent.WaitStop, intent.WaitMode, intent.WaitHold, intent.WaitOrder, intent.WaitApproval, intent.WaitBackoff}
	if !slices.Equal(kinds, want) {
		t.Errorf("waiting on %v, want %v", kinds, want)
	}
}

// TestWhatEndsByItselfIsToldLast: whoever reads when a window opens would else wait for it
// in vain.
func TestWhatEndsByItselfIsToldLast(t *testing.T) {
	is := func(name string, w intent.WaitingOn) Required {
		return Required{Configured: &Configured{Name: name, judge: func(Facts) intent.Verdict { return intent.Waits(name, w) }}}
	}
	decision := Decide(Facts{
		Now: now, Mode: Enforce, Plan: intent.Plan{Action: intent.ActionUpdate}, Retry: &intent.WaitingOn{Kind: intent.WaitBackoff, Until: now.Add(1)},
		Checks: []Required{
			is("asks", intent.WaitingOn{Kind: intent.WaitTurn}),
			is("soak", intent.WaitingOn{Kind: intent.WaitAge, Until: now.Add(time.Minute)}),
			is("office", intent.WaitingOn{Kind: intent.WaitCalendar, Until: now.Add(time.Hour)}),
			is("bad", intent.WaitingOn{Kind: intent.WaitDenied}),
		},
	})
	var kinds []intent.WaitingKind
	for _, waiting := range decision.Waiting() {
		kinds = append(kinds, waiting.Kind)
	}
	if want := []intent.WaitingKind{intent.WaitBackoff, intent.WaitDenied, intent.WaitCalendar, intent.WaitAge, intent.WaitTurn}; !slices.Equal(kinds, want) {
		t.Errorf("waiting on %v, want %v", kinds, want)
	}
}

func TestNoVerdictIsNoPass(t *testing.T) {
	if (Decision{}).Push() {
		t.Error("no checks let a push pass")
	}
	if (Decision{Verdicts: []intent.Verdict{{}}}).Push() {
		t.Error("a zero verdict let a push pass")
	}
}

// TestOneBlockerBlocks: whatever else the facts say, one blocker is enough.
func TestOneBlockerBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Facts{Now: now, Mode: Enforce, Approved: rapid.Bool().Draw(t, "approved")}
		blocked := false
		if rapid.Bool().Draw(t, "stop") {
			f.Stop, blocked = &intent.Stop{}, true
		}
		if rapid.Bool().Draw(t, "hold") {
			f.Hold, blocked = &intent.Hold{}, true
		}
		if rapid.Bool().Draw(t, "destructive") {
			f.Plan = destructive()
			blocked = blocked || !f.Approved
		}
		for range rapid.IntRange(0, 3).Draw(t, "neighbours") {
			n := Neighbour{Known: rapid.Bool().Draw(t, "in sync"), Loosened: rapid.Bool().Draw(t, "loosened")}
			f.Order = append(f.Order, n)
			blocked = blocked || !n.Known && !(n.Loosened && f.Approved && !f.Plan.Destructive())
		}
		if Decide(f).Push() == blocked {
			t.Fatalf("push %t with %+v", !blocked, f)
		}
	})
}
