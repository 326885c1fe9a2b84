package workflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/intent"
)

func readOrFail(t testing.TB, text string) *Definition {
	t.Helper()
	d, findings := Read("test.yaml", []byte(text))
	if d == nil {
		t.Fatalf("%+v\n%s", findings, text)
	}
	return d
}

// origin is what runs of these tests follow first. Tests change parts of it by replacement.
const origin = `workflow: v1
name: promote
inputs: {version: string, size: {type: string, default: "3"}}
facts: {quiet: {asset: web, when: 'report.state == "in-sync"'}}
signals: [go_on, hurry]
machines:
  approval:
    initial: asking
    states:
      asking: {action: {person: {question: "Ship ${inputs.version}?", roles: [approver], quorum: 2}, timeout: 24h}}
      given: {end: success}
      refused: {end: failure}
    transitions:
      - {from: asking, to: given, on: approved}
      - {from: asking, to: refused, on: [refused, expired]}
  ship:
    initial: idle
    states:
      idle: {end: neutral}
      shipping: {action: {tell: {url: "https://x/${inputs.version}"}, runs: at-most-once, outputs: {n: int}, leaves: [new]}}
      shipped: {end: success}
      failed: {end: failure}
      undoing: {action: {tell: {url: "https://x/back"}, runs: at-least-once, undoes: [new]}}
      undone: {end: failure}
      unclear: {end: failure, accepts: [new]}
    transitions:
      - {from: idle, to: shipping, when: machines.approval == "given" && (facts.quiet || signals.go_on)}
      - {from: shipping, to: shipped, on: done}
      - {from: shipping, to: undoing, on: [failed, unknown]}
      - {from: undoing, to: undone, on: done}
      - {from: undoing, to: unclear, on: failed}
`

// changed returns origin with parts of it replaced.
func changed(t testing.TB, pairs ...string) *Definition {
	t.Helper()
	text := origin
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("origin does not have %q", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return readOrFail(t, text)
}

// play starts a run of origin and brings it events.
func play(t testing.TB, d *Definition, events ...Event) Run {
	t.Helper()
	result, err := d.Start(map[string]Value{"version": {Text: "v2"}}, nil, start)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if result = d.Step(result.Run, e, start); result.WhyIgnored != "" {
			t.Fatalf("%+v: %s", e, result.WhyIgnored)
		}
	}
	return result.Run
}

func voteBy(person string) Event {
	return Event{Kind: EventVote, Key: "approval/asking/1", Person: person, Roles: []string{"approver"}, Approves: true}
}

// shipping events bring a run to where it calls.
func shipping() []Event {
	return []Event{voteBy("ada"), voteBy("bob"), {Kind: EventFact, Name: "quiet", Truth: true}, {Kind: EventBegin, Key: "ship/shipping/1"}}
}

func rowsOf(d *Definition, before Run, m Migrated) (rows []string) {
	for _, r := range Record(d, before, Event{Reason: "why"}, m.Result, intent.Actor{Name: "ann"}) {
		rows = append(rows, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s>%s %s %s", r.Kind, r.Machine, r.From, r.To, r.Key, r.Word)), " "))
	}
	return rows
}

func problemsOf(m Migrated) (all []string) {
	for _, p := range m.Problems {
		all = append(all, strings.Join(strings.Fields(strings.Join([]string{p.Machine, p.State, p.Input, p.Leftover}, " ")), " ")+": "+p.Message)
		if p.Hint == "" {
			all = append(all, "without a hint: "+p.Message)
		}
	}
	return all
}

// TestMigrationKeepsWhatGoesOn: the question goes on with its vote, key and time, and a guard that is new counts.
func TestMigrationKeepsWhatGoesOn(t *testing.T) {
	d := readOrFail(t, origin)
	run := play(t, d, voteBy("ada"), Event{Kind: EventSignal, Name: "hurry"}, Event{Kind: EventSignal, Name: "go_on"}, Event{Kind: EventFact, Name: "quiet", Truth: true})
	target := changed(t, "signals: [go_on, hurry]", "signals: [go_on]", `machines.approval == "given" &&`, `machines.approval == "given" && machines.test == "good" &&`, "machines:\n", `machines:
  test:
    initial: testing
    states:
      testing: {action: {ask: {url: "https://t/${inputs.version}"}, runs: at-least-once}}
      good: {end: success}
      bad: {end: failure}
    transitions:
      - {from: testing, to: good, on: done}
      - {from: testing, to: bad, on: failed}
`)
	m := d.Migrate(run, target, Migration{}, start.Add(time.Hour))
	if len(m.Problems) > 0 {
		t.Fatalf("%q", problemsOf(m))
	}
	want := []MigratedMachine{
		{Name: "test", Change: MachineIsNew, To: "testing"}, {Name: "approval", Change: MachineStays, From: "asking", To: "asking", Kept: "approval/asking/1"},
		{Name: "ship", Change: MachineStays, From: "idle", To: "idle"},
	}
	if diff := cmp.Diff(want, m.Machines); diff != "" {
		t.Error(diff)
	}
	next := m.Result.Run
	if next.Definition != target.Digest() || !next.Facts["quiet"] || !slices.Equal(next.Signals, []string{"go_on"}) || !next.Now.Equal(start.Add(time.Hour)) {
		t.Errorf("the run is %+v", next)
	}
	if diff := cmp.Diff(run.Machines[0], next.Machines[1]); diff != "" {
		t.Errorf("the machine that asks: %s", diff)
	}
	rows := []string{"migrated " + d.Digest() + ">" + target.Digest(), "migrated test >testing", "began test > test/testing/1 ask"}
	if diff := cmp.Diff(rows, rowsOf(target, run, m)); diff != "" {
		t.Error(diff)
	}
	after := target.Step(next, voteBy("ada"), start)
	if after.WhyIgnored != VotedBefore {
		t.Errorf("the vote that was given before counts twice: %q", after.WhyIgnored)
	}
	after = target.Step(next, voteBy("bob"), start)
	if after.Run.Machines[1].State != "given" || after.Run.Machines[2].State != "idle" {
		t.Errorf("with the second vote, before the test: %+v", after.Run.Machines)
	}
	after = target.Step(after.Run, Event{Kind: EventAnswer, Key: "test/testing/1", Outcome: OutcomeDone}, start)
	if after.Run.Machines[2].State != "shipping" {
		t.Errorf("after the test: %+v", after.Run.Machines)
	}
}

// TestMigrationFollows: a migrated run is stepped at once, and may end.
func TestMigrationFollows(t *testing.T) {
	d := readOrFail(t, origin)
	run := play(t, d, voteBy("ada"), voteBy("bob"))
	m := d.Migrate(run, changed(t, "&& (facts.quiet || signals.go_on)", ""), Migration{}, start)
	if len(m.Problems) > 0 || m.Result.Run.Machines[1].State != "shipping" || len(m.Result.Effects) != 1 || m.Result.Effects[0].Key != "ship/shipping/1" {
		t.Errorf("%q %+v", problemsOf(m), m.Result)
	}
	m = d.Migrate(run, changed(t, "when: machines.approval", "when: false && machines.approval"), Migration{}, start)
	if len(m.Problems) > 0 || m.Result.Run.End == nil || m.Result.Run.End.Outcome != EndSuccess {
		t.Errorf("%q %+v", problemsOf(m), m.Result.Run.End)
	}
	m = d.Migrate(run, changed(t, "idle: {end: neutral}", "idle: {}", "when: machines.approval", "when: false && machines.approval"), Migration{}, start)
	if got := problemsOf(m); len(got) != 1 || !strings.HasPrefix(got[0], "ship idle") || !strings.Contains(got[0], "stuck") || m.Result.Run.Definition != d.Digest() {
		t.Errorf("a migration that gets stuck at once: %q", got)
	}
	for _, refused := range []struct {
		run  Run
		d    *Definition
		want IgnoredReason
	}{
		{Run{Definition: d.Digest(), Machines: run.Machines, End: &End{Outcome: EndSuccess}}, d, RunIsOver}, {run, changed(t, "24h", "12h"), OtherDefinition},
	} {
		if m := refused.d.Migrate(refused.run, d, Migration{}, start); m.Result.WhyIgnored != refused.want {
			t.Errorf("it is ignored with %q, want %q", m.Result.WhyIgnored, refused.want)
		}
	}
}

// TestMigrationProblems: each names what it is about, all come at once, and the run is as it was.
func TestMigrationProblems(t *testing.T) {
	d := readOrFail(t, origin)
	asking, calls := play(t, d), play(t, d, shipping()...)
	shipped := play(t, d, append(shipping(), Event{Kind: EventAnswer, Key: "ship/shipping/1", Outcome: OutcomeFailed})...)
	withoutShip := readOrFail(t, origin[:strings.Index(origin, "  ship:")])
	for _, test := range []struct {
		name    string
		run     Run
		target  *Definition
		request Migration
		want    []string
	}{
		{"another question", asking, changed(t, "Ship $", "Deploy $"), Migration{}, []string{"approval asking: machine approval is in asking, whose action is under way, and is another one in the other definition"}},
		{"more people", asking, changed(t, "quorum: 2", "quorum: 1"), Migration{}, []string{"approval asking"}},
		{"another timeout", asking, changed(t, "24h", "12h"), Migration{}, []string{"approval asking"}},
		{"an action that has not begun", asking, changed(t, "idle: {end: neutral}", "idle: {end: neutral, action: {wait: {for: 1h}}}", "- {from: idle", "- {from: idle, to: shipped, on: done, when: signals.hurry}\n      - {from: idle"),
			Migration{}, []string{"ship idle: machine ship is in idle, which has an action in the other definition that has not begun"}},
		{"no state", asking, changed(t, "asking: {", "asked: {", "initial: asking", "initial: asked", "from: asking", "from: asked", "from: asking", "from: asked"), Migration{},
			[]string{"approval asking: machine approval is in asking, a state that the other definition does not have"}},
		{"names that are not there", asking, changed(t, "24h", "12h"), Migration{States: map[string]string{"approval": "askin", "shop": "idle"}, Inputs: map[string]Value{"verson": {Text: "1"}}},
			[]string{"verson: the other definition has no input", "approval askin: the other definition has no state", "shop: the other definition has no machine"}},
		{"inputs", asking, changed(t, "inputs: {version: string, size: {type: string, default: \"3\"}}", "inputs: {version: int, size: int, region: string, eager: bool}"),
			Migration{Inputs: map[string]Value{"size": {Text: "4"}, "eager": {Text: "very"}}},
			[]string{"version: input version has type int now", "size: the run has size = \"3\"", "region: the other definition needs input region, a string", "eager: input eager:"}},
		{"an action under way of a machine that is gone", calls, withoutShip, Migration{},
			[]string{"ship shipping: the other definition does not have machine ship, whose action in shipping is under way", "new: the run has left new in production; ship/undoing can still account"}},
		{"nothing takes it back", calls, changed(t, "undoes: [new]", "undoes: []", ", accepts: [new]", ""), Migration{}, []string{"new: the run has left new in production; ship/undoing can still account for it"}},
		{"nothing takes it back once it begins", play(t, d, shipping()[:3]...), changed(t, "undoes: [new]", "undoes: []", ", accepts: [new]", ""), Migration{}, []string{"new: the run has left new in production"}},
		{"not from there", calls, changed(t, "hurry", "hasten"), Migration{States: map[string]string{"ship": "failed"}},
			[]string{"new: the run has left new"}},
		{"the undo is under way", shipped, changed(t, "undoes: [new]", "undoes: []", ", accepts: [new]", ""), Migration{}, []string{"ship undoing: ", "new: "}},
	} {
		m := d.Migrate(test.run, test.target, test.request, start)
		got := problemsOf(m)
		if len(got) != len(test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], test.want[i]) {
				t.Errorf("%s: %q, want %q", test.name, got[i], test.want[i])
			}
		}
		if diff := cmp.Diff(test.run, m.Result.Run); diff != "" || len(m.Result.Effects) > 0 {
			t.Errorf("%s: the run was changed: %s %v", test.name, diff, m.Result.Effects)
		}
	}
}

// TestMigrationOfLeftovers: what the run left must be known to the new definition, even where nothing took it back before.
func TestMigrationOfLeftovers(t *testing.T) {
	text := strings.Replace(origin, "shipped: {end: success}", "shipped: {end: success, action: {wait: {for: 1h}}}\n      rested: {end: success}", 1)
	text = strings.Replace(text, "transitions:\n      - {from: idle", "transitions:\n      - {from: shipped, to: rested, on: done}\n      - {from: idle", 1)
	d := readOrFail(t, text)
	run := play(t, d, append(shipping(), Event{Kind: EventAnswer, Key: "ship/shipping/1", Outcome: OutcomeDone, Outputs: map[string]Value{"n": {Text: "1"}}})...)
	if !slices.Equal(run.Leftovers, []string{"new"}) || run.End != nil {
		t.Fatalf("%+v", run)
	}
	if m := d.Migrate(run, readOrFail(t, strings.Replace(text, "hurry", "hasten", 1)), Migration{}, start); len(m.Problems) > 0 || !slices.Equal(m.Result.Run.Leftovers, []string{"new"}) {
		t.Errorf("%q %v", problemsOf(m), m.Result.Run.Leftovers)
	}
	m := d.Migrate(run, readOrFail(t, strings.ReplaceAll(text, "[new]", "[other]")), Migration{}, start)
	if got := problemsOf(m); len(got) != 1 || got[0] != "new: the run has left new in production, which the other definition does not know" {
		t.Errorf("%q", got)
	}
}

// TestMigrationMoves: what is moved is cut off. A call that runs at most once and was begun is unknown; what it left
// is not forgotten, and no key is given twice.
func TestMigrationMoves(t *testing.T) {
	d := readOrFail(t, origin)
	target := changed(t, "https://x/${", "https://y/${")
	for _, begun := range []bool{false, true} {
		events, left := shipping()[:3], []string{}
		if begun {
			events, left = shipping(), []string{"new"}
		}
		run := play(t, d, events...)
		request := Migration{States: map[string]string{"ship": "shipping"}}
		m := d.Migrate(run, target, request, start)
		if len(m.Problems) > 0 || len(m.PastPeople) > 0 {
			t.Fatalf("%q %q", problemsOf(m), m.PastPeople)
		}
		if got := m.Machines[1]; got.Cut != "ship/shipping/1" || got.MayHaveHappened != begun || got.Change != MachineMoves {
			t.Errorf("%+v", got)
		}
		rows := []string{"migrated " + d.Digest() + ">" + target.Digest(), "migrated ship shipping>shipping", "abandoned ship > ship/shipping/1", "began ship > ship/shipping/2 tell"}
		if begun {
			rows[2] = "answered ship > ship/shipping/1 unknown"
		}
		if diff := cmp.Diff(rows, rowsOf(target, run, m)); diff != "" {
			t.Error(diff)
		}
		if len(m.Result.Effects) != 2 || m.Result.Effects[0].Kind != Abandon || !slices.Equal(m.Result.Run.Leftovers, left) {
			t.Errorf("%+v", m.Result)
		}
		late := target.Step(m.Result.Run, Event{Kind: EventAnswer, Key: "ship/shipping/1", Outcome: OutcomeDone}, start)
		if late.WhyIgnored != CameLate {
			t.Errorf("its late answer: %q", late.WhyIgnored)
		}
	}
	for state, past := range map[string]bool{"asking": false, "given": true, "refused": true} {
		m := d.Migrate(play(t, d), changed(t, "24h", "12h"), Migration{States: map[string]string{"approval": state}}, start)
		if len(m.Problems) > 0 || (len(m.PastPeople) > 0) != past {
			t.Errorf("to %s: %q, past people: %q", state, problemsOf(m), m.PastPeople)
		}
	}
	m := d.Migrate(play(t, d), changed(t, "24h", "12h"), Migration{States: map[string]string{"approval": "asking"}}, start)
	if a := m.Result.Run.Machines[0].Action; a == nil || a.Key != "approval/asking/2" || len(a.Approvals) > 0 || !a.Due.Equal(start.Add(12*time.Hour)) {
		t.Errorf("a question that is asked anew is %+v", a)
	}
}

// TestMigrationGivesNoKeyTwice, also of a machine that was dropped and comes back.
func TestMigrationGivesNoKeyTwice(t *testing.T) {
	d := readOrFail(t, origin)
	run := play(t, d, voteBy("ada"))
	voted := d.Step(run, voteBy("bob"), start).Run
	target := readOrFail(t, strings.ReplaceAll(strings.Replace(origin, "Ship ${inputs.version}", "Ship", 1), "approval", "consent"))
	m := d.Migrate(voted, target, Migration{}, start)
	if len(m.Problems) > 0 || m.Machines[2] != (MigratedMachine{Name: "approval", Change: MachineIsDropped, From: "given"}) {
		t.Fatalf("%q %+v", problemsOf(m), m.Machines)
	}
	for _, person := range []string{"ada", "bob"} {
		m.Result = target.Step(m.Result.Run, Event{Kind: EventVote, Key: "consent/asking/1", Person: person, Roles: []string{"approver"}, Approves: true}, start)
	}
	back := target.Migrate(m.Result.Run, d, Migration{}, start)
	if len(back.Problems) > 0 {
		t.Fatalf("%q", problemsOf(back))
	}
	if a := back.Result.Run.Machines[0].Action; a == nil || a.Key != "approval/asking/2" {
		t.Errorf("the machine that came back asks by %+v", a)
	}
	if counts := back.Result.Run.ActionCounts; len(counts) != 1 || counts["consent"] != 1 {
		t.Errorf("%v", counts)
	}
}

// TestMigrationOfOutputs: those that both definitions declare alike stay.
func TestMigrationOfOutputs(t *testing.T) {
	text := strings.Replace(origin, "shipped: {end: success}", "shipped: {action: {wait: {for: 1h}}}\n      rested: {end: success}", 1)
	text = strings.Replace(text, "transitions:\n      - {from: idle", "transitions:\n      - {from: shipped, to: rested, on: done}\n      - {from: idle", 1)
	d := readOrFail(t, text)
	run := play(t, d, append(shipping(), Event{Kind: EventAnswer, Key: "ship/shipping/1", Outcome: OutcomeDone, Outputs: map[string]Value{"n": {Text: "1"}}})...)
	for scalar, want := range map[string]int{"int": 1, "string": 0} {
		m := d.Migrate(run, readOrFail(t, strings.Replace(strings.Replace(text, "n: int", "n: "+scalar, 1), "hurry", "hasten", 1)), Migration{}, start)
		if len(m.Problems) > 0 || len(m.Result.Run.Machines[1].Outputs) != want || len(run.Machines[1].Outputs) != 1 {
			t.Errorf("%s: %q %v", scalar, problemsOf(m), m.Result.Run.Machines[1].Outputs)
		}
	}
}

// TestMigrationOfRetreats: after a cancel nothing begins but the retreat.
func TestMigrationOfRetreats(t *testing.T) {
	text := strings.Replace(origin, "undoing: {", "undoing: {retreat: true, ", 1)
	text = strings.Replace(text, "- {from: shipping, to: shipped", "- {from: shipping, to: undoing, when: cancelled}\n      - {from: shipping, to: shipped", 1)
	d := readOrFail(t, text)
	run := play(t, d, append(shipping(), Event{Kind: EventCancel})...)
	if run.Machines[1].State != "undoing" {
		t.Fatalf("%+v", run.Machines)
	}
	added := strings.Replace(text, "machines:\n", "machines:\n  page:\n    initial: paging\n    states:\n      paging: {end: neutral, action: {tell: {url: 'https://p'}, runs: at-most-once}}\n      paged: {end: neutral}\n    transitions:\n      - {from: paging, to: paged, on: [done, failed, unknown]}\n", 1)
	m := d.Migrate(run, readOrFail(t, added), Migration{}, start)
	if len(m.Problems) > 0 || len(m.Result.Effects) > 0 || m.Result.Run.Machines[0].State != "paging" || m.Result.Run.Machines[2].Action == nil {
		t.Errorf("%q %+v", problemsOf(m), m.Result)
	}
	m = d.Migrate(run, readOrFail(t, added), Migration{States: map[string]string{"ship": "shipping"}}, start)
	if len(m.Problems) > 0 || m.Result.Run.Machines[2].State != "undoing" {
		t.Errorf("into the retreat: %q %+v", problemsOf(m), m.Result.Run)
	}
	m = d.Migrate(run, readOrFail(t, added), Migration{States: map[string]string{"approval": "asking"}}, start)
	if got := problemsOf(m); len(got) != 1 || !strings.Contains(got[0], "approval/asking is no part of the retreat") {
		t.Errorf("%q", got)
	}
	m = d.Migrate(run, readOrFail(t, strings.Replace(text, "retreat: true, ", "", 1)), Migration{}, start)
	if len(m.Problems) > 0 || len(m.Result.Effects) != 1 || m.Result.Effects[0].Kind != Abandon || m.Result.Run.End.Outcome != EndCancelled {
		t.Errorf("out of the retreat: %q %+v", problemsOf(m), m.Result)
	}
}

// TestMigrationKeepsTheLastStepOfARetreat: an action that a retreat began where nothing leads on goes on, while another
// machine still retreats.
func TestMigrationKeepsTheLastStepOfARetreat(t *testing.T) {
	text := strings.Replace(origin, "- {from: shipping, to: shipped", "- {from: shipping, to: undoing, when: cancelled}\n      - {from: shipping, to: shipped", 1)
	text = strings.Replace(text, "machines:\n", "machines:\n  rest:\n    initial: resting\n    states:\n      resting: {retreat: true, action: {wait: {for: 1h}}}\n      rested: {end: neutral}\n    transitions:\n      - {from: resting, to: rested, on: done}\n", 1)
	d := readOrFail(t, text)
	run := play(t, d, append(shipping(), Event{Kind: EventCancel})...)
	if run.End != nil || run.Machines[2].State != "undoing" || run.Machines[2].Action == nil {
		t.Fatalf("%+v", run)
	}
	m := d.Migrate(run, readOrFail(t, strings.Replace(text, "hurry", "hasten", 1)), Migration{}, start)
	if len(m.Problems) > 0 || len(m.Result.Effects) > 0 || m.Result.Run.Machines[2].Action == nil || m.Machines[2].Kept != "ship/undoing/2" {
		t.Errorf("%q %+v %+v", problemsOf(m), m.Result, m.Machines)
	}
}
