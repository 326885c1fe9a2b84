package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lehr.dev/internal/ground/rule"
)

// drawDefinition makes definitions of any shape: most of them are not sensible.
func drawDefinition(t *rapid.T) *Definition {
	var b strings.Builder
	b.WriteString("workflow: v1\nname: drawn\ninputs: {size: int, eager: bool}\nsignals: [go_on]\n")
	b.WriteString("facts: {quiet: {asset: web, when: 'report.state == \"in-sync\"'}}\nmachines:\n")
	machines := rapid.IntRange(1, 3).Draw(t, "machines")
	names := []string{"a", "b", "c"}[:machines]
	states := []string{"p", "q", "r"}
	guards := []string{
		"", "cancelled", "!cancelled", "signals.go_on", "facts.quiet", "!facts.quiet", "inputs.eager", "!inputs.eager", "inputs.size > 2", "inputs.size <= 2",
		"attempts < 3", "inputs.size > 2 && facts.quiet", "cancelled || signals.go_on",
	}
	for _, m := range names {
		for _, s := range states {
			guards = append(guards, fmt.Sprintf("machines.%s == \"%s\"", m, s), fmt.Sprintf("machines.%s != \"%s\" && inputs.eager", m, s))
		}
		guards = append(guards, "outputs."+m+".n > 3", "!(outputs."+m+".n > 3) || cancelled")
	}
	for _, m := range names {
		fmt.Fprintf(&b, "  %s:\n    initial: p\n    states:\n", m)
		var transitions []string
		for _, s := range states {
			action, on := drawAction(t, m, s)
			fmt.Fprintf(&b, "      %s: {%s%s}\n", s, rapid.SampledFrom([]string{"", "end: success, ", "end: failure, ", "end: neutral, ", "retreat: true, "}).Draw(t, "end"), action)
			for _, outcome := range on {
				transitions = append(transitions, fmt.Sprintf("{from: %s, to: %s, on: %s%s}", s, rapid.SampledFrom(states).Draw(t, "to"), outcome, drawWhen(t, guards)))
			}
			for range rapid.IntRange(0, 1).Draw(t, "free") {
				transitions = append(transitions, fmt.Sprintf("{from: %s, to: %s%s}", s, rapid.SampledFrom(states).Draw(t, "to"), drawWhen(t, guards)))
			}
		}
		b.WriteString("    transitions:\n")
		for _, transition := range transitions {
			b.WriteString("      - " + transition + "\n")
		}
		if len(transitions) == 0 {
			b.WriteString("      []\n")
		}
	}
	// Every machine tells n, so that guards can read it.
	d, findings := Read("drawn.yaml", []byte(b.String()))
	if d == nil {
		t.Fatalf("%s\n%s", findings[0].Message, b.String())
	}
	return d
}

func drawWhen(t *rapid.T, guards []string) string {
	if when := rapid.SampledFrom(guards).Draw(t, "when"); when != "" {
		return ", when: '" + when + "'"
	}
	return ""
}

// drawAction of a state, and the outcomes that are awaited. The first state of a machine
// always tells n.
func drawAction(t *rapid.T, machine, state string) (text string, on []string) {
	kind := rapid.IntRange(0, 4).Draw(t, "action")
	if state == "p" {
		kind = 0
	}
	switch kind {
	case 0:
		return "action: {tell: {url: 'https://x/${inputs.size}'}, runs: at-most-once, timeout: 1h, outputs: {n: int}, leaves: [x" + machine + "]}", []string{"done", "failed"}
	case 1:
		return "action: {wait: {for: 1h}}", []string{"done"}
	case 2:
		return "action: {person: {question: Really, roles: [approver], quorum: 2}}", []string{"approved", "refused"}
	case 3:
		return "action: {tell: {url: 'https://x/${outputs." + machine + ".n}'}, runs: at-least-once, undoes: [x" + machine + "]}", []string{"done", "failed"}
	}
	return "", nil
}

// drawEvent is any event, sensible or not.
func drawEvent(t *rapid.T, run Run) Event {
	keys := []string{"a/p/1", "b/q/2", "c/r/1", "x/y/z", ""}
	for _, m := range run.Machines {
		if m.Action != nil {
			keys = append(keys, m.Action.Key, m.Action.Key, m.Action.Key)
		}
	}
	event := Event{
		Kind: rapid.SampledFrom([]EventKind{EventBegin, EventAnswer, EventAnswer, EventAnswer, EventVote, EventVote, EventTick, EventSignal, EventFact, EventCancel, "x"}).Draw(t, "kind"),
		Key:  rapid.SampledFrom(keys).Draw(t, "key"), Outcome: rapid.SampledFrom([]Outcome{OutcomeDone, OutcomeDone, OutcomeFailed, OutcomeUnknown, OutcomeExpired, OutcomeApproved}).Draw(t, "outcome"),
		Name: rapid.SampledFrom([]string{"go_on", "quiet", "x"}).Draw(t, "name"), Truth: rapid.Bool().Draw(t, "truth"),
		Person: rapid.SampledFrom([]string{"ada", "bob", ""}).Draw(t, "person"), Roles: []string{"x"}, Approves: rapid.Bool().Draw(t, "approves"),
	}
	if rapid.IntRange(0, 9).Draw(t, "told") > 0 {
		event.Outputs = map[string]Value{"n": {Text: rapid.SampledFrom([]string{"2", "3", "4", "many"}).Draw(t, "n")}}
	}
	return event
}

// TestAnyOrderOfEvents: whatever comes in whatever order, a step has one result, changes
// nothing that it was given, and an end is an end. A kept state is as good as the one in memory.
func TestAnyOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDefinition(t)
		now := start
		inputs := map[string]Value{"size": {Text: rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "size")}, "eager": {Text: rapid.SampledFrom([]string{"true", "false"}).Draw(t, "eager")}}
		result, err := d.Start(inputs, nil, now)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 25).Draw(t, "events") {
			run := result.Run
			kept, err := json.Marshal(run)
			if err != nil {
				t.Fatal(err)
			}
			event := drawEvent(t, run)
			now = now.Add(time.Duration(rapid.IntRange(-90, 90).Draw(t, "minutes")) * time.Minute)
			var read Run
			if err := json.Unmarshal(kept, &read); err != nil {
				t.Fatal(err)
			}
			result = d.Step(run, event, now)
			same := json.RawMessage(mustJSON(t, d.Step(read, event, now)))
			if after := mustJSON(t, run); string(after) != string(kept) {
				t.Fatalf("the step changed what it was given: %s", cmp.Diff(string(kept), string(after)))
			}
			if got := mustJSON(t, result); string(got) != string(same) {
				t.Fatalf("of a kept state follows something else: %s", cmp.Diff(string(got), string(same)))
			}
			checkInvariants(t, d, run, event, result)
		}
	})
}

func mustJSON(t *rapid.T, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// checkInvariants of a step.
func checkInvariants(t *rapid.T, d *Definition, before Run, event Event, result Result) {
	if before.End != nil && (result.WhyIgnored != RunIsOver || len(result.Effects) > 0 || len(result.Passages) > 0) {
		t.Fatalf("a run that is over goes on: %+v", result)
	}
	if result.Run.Now.Before(before.Now) {
		t.Fatal("its time goes back")
	}
	begun := map[string]bool{}
	for _, m := range before.Machines {
		if m.Action != nil {
			begun[m.Action.Key] = true
		}
	}
	for _, effect := range result.Effects {
		if effect.Kind == Begin && begun[effect.Key] || effect.Kind == Abandon && !begun[effect.Key] {
			t.Fatalf("%s of %s: it was begun: %t", effect.Kind, effect.Key, begun[effect.Key])
		}
		begun[effect.Key] = effect.Kind == Begin
	}
	for _, m := range result.Run.Machines {
		if m.Action != nil && (!begun[m.Action.Key] || result.Run.End != nil) {
			t.Fatalf("%s is awaited, and was not begun, or the run is over", m.Action.Key)
		}
	}
	for _, left := range result.Run.Leftovers {
		mayHaveBegun := event.Kind == EventBegin || event.Kind == EventAnswer && (event.Outcome == OutcomeDone || event.Outcome == OutcomeUnknown)
		if !slices.Contains(before.Leftovers, left) && (!mayHaveBegun || !strings.HasPrefix(event.Key, left[1:]+"/")) {
			t.Fatalf("%s is called left after %+v, and nobody began the action that leaves it", left, event)
		}
	}
	if result.Run.End != nil && !result.Run.End.Spins {
		s := &stepper{definition: d, judge: guardJudge{d}, result: Result{Run: result.Run}}
		if found := s.enabled(); len(found) > 0 {
			t.Fatalf("the run is over, and %+v is enabled", found)
		}
	}
}

// TestSearchSeesWhatHappens: every state that a real run comes to is one that a search saw, with all that
// is left and maybe more, and every transition that it follows is one that the search found enabled. So what a whole
// search calls impossible does not happen, and what it says is taken back is.
func TestSearchSeesWhatHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDefinition(t)
		s := newSearch(d, Bounds{States: 200})
		s.explore()
		if !s.whole {
			t.Skip("the search met its limit, so it calls nothing impossible; rapid draws another definition")
		}
		seen := map[string][][]string{}
		for i := range s.nodes {
			shape := shapeOf(s, s.nodes[i].run)
			seen[shape] = append(seen[shape], s.nodes[i].run.Leftovers)
		}
		inputs := map[string]Value{"size": {Text: rapid.SampledFrom([]string{"1", "2", "3", "100"}).Draw(t, "size")}, "eager": {Text: rapid.SampledFrom([]string{"true", "false"}).Draw(t, "eager")}}
		now := start
		result, err := d.Start(inputs, map[string]bool{"quiet": rapid.Bool().Draw(t, "quiet")}, now)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			for _, taken := range result.Passages {
				if !s.enabledTransitions[reference{taken.machine, taken.transition}] {
					t.Fatalf("%+v is followed, and the search never saw it enabled", taken)
				}
			}
			// Where a run is stopped that spins says nothing.
			if result.Run.End != nil && result.Run.End.Spins {
				if !slices.ContainsFunc(s.nodes, func(n node) bool { return n.run.End != nil && n.run.End.Spins }) {
					t.Fatal("the run spins, and no run of the search does")
				}
				return
			}
			// A step may have fired a timer and applied an event: the search has them as two.
			holdsLeftovers := func(all []string) bool {
				return !slices.ContainsFunc(result.Run.Leftovers, func(left string) bool { return !slices.Contains(all, left) })
			}
			if shape := shapeOf(s, result.Run); !slices.ContainsFunc(seen[shape], holdsLeftovers) {
				t.Fatalf("after %d events the run is in a state that the search did not see: %s, and left are %v", i, shape, result.Run.Leftovers)
			}
			if rapid.IntRange(0, 3).Draw(t, "passes") == 0 {
				if due, ok := result.Run.Wakes(); ok {
					now = due
					result = d.Step(result.Run, Event{Kind: EventTick}, now)
					continue
				}
			}
			result = d.Step(result.Run, drawEvent(t, result.Run), now)
		}
	})
}

// shapeOf a run: where its machines are, and what is awaited, but not what is left.
func shapeOf(s *search, run Run) string {
	run = s.normalize(run)
	run.Leftovers = nil
	run.Signals = slices.DeleteFunc(run.Signals, func(name string) bool { return !s.usedNames["signals."+name] })
	for i := range run.Machines {
		run.Machines[i].Outputs = nil
		if a := run.Machines[i].Action; a != nil {
			a.Approvals = nil
		}
	}
	return keyOf(&run, nil)
}

// TestFormulasAgreeWithGuards: the search and the run judge a guard alike.
func TestFormulasAgreeWithGuards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDefinition(t)
		s := newSearch(d, Bounds{States: 1})
		size, eager := rapid.IntRange(0, 5).Draw(t, "size"), rapid.Bool().Draw(t, "eager")
		result, err := d.Start(map[string]Value{"size": {Text: fmt.Sprint(size)}, "eager": {Text: fmt.Sprint(eager)}}, map[string]bool{"quiet": rapid.Bool().Draw(t, "quiet")}, start)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 6).Draw(t, "events") {
			result = d.Step(result.Run, drawEvent(t, result.Run), start)
		}
		run := result.Run
		choice := chooseAs(s, d, &run)
		for m := range d.Machines {
			for i := range d.Machines[m].Transitions {
				transition := &d.Machines[m].Transitions[i]
				for _, open := range []bool{false, true} {
					want, got := guardJudge{d}.verdict(&run, m, transition, open), searchJudge{s, choice}.verdict(&run, m, transition, open)
					if want != got && !(open && possible(want) == possible(got)) {
						t.Fatalf("%s: the run says %d, the search %d (open: %t)", transition.When, want, got, open)
					}
				}
			}
		}
	})
}

func possible(v rule.Verdict) bool { return v == rule.Holds || v == rule.Undecided }

// chooseAs finds the values of a search that stand for those of a run: of numbers the
// greatest that is not above.
func chooseAs(s *search, d *Definition, run *Run) []int {
	choice := make([]int, len(s.variables))
	values := run.values(d)
	for name, truth := range run.Facts {
		values["facts."+name] = Value{rule.ScalarBool, fmt.Sprint(truth)}
	}
	for i, v := range s.variables {
		value, told := values[v.name]
		if !told {
			continue
		}
		choice[i] = slices.Index(v.domain, value.Text)
		if value.Type != rule.ScalarInt {
			continue
		}
		n, best := value.native().(int64), -1
		for at, text := range v.domain {
			one := Value{rule.ScalarInt, text}.native().(int64)
			if best < 0 || one <= n && one > (Value{rule.ScalarInt, v.domain[best]}).native().(int64) {
				best = at
			}
		}
		choice[i] = best
	}
	return choice
}
