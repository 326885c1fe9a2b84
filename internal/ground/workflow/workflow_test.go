package workflow

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

var start = time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)

// must read a definition.
func must(t *testing.T, text string) *Definition {
	t.Helper()
	d, findings := Read("test.yaml", []byte(text))
	if d == nil {
		for _, f := range findings {
			t.Errorf("line %d: %s (%s)", f.Line, f.Message, f.Hint)
		}
		t.FailNow()
	}
	return d
}

func readFile(t *testing.T, path string) *Definition {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return must(t, string(text))
}

// small is a machine that does one thing.
const small = `workflow: v1
name: small
machines:
  build:
    initial: building
    states:
      building: {action: {task: {asset: task/build}, runs: at-most-once, timeout: 10m, leaves: [], outputs: {image: string}}}
      built: {end: success}
      failed: {end: failure}
    transitions:
      - {from: building, to: built, on: done}
      - {from: building, to: failed, on: [failed, expired, unknown]}
`

// run is a run that a test steps through.
type run struct {
	t          *testing.T
	definition *Definition
	now        time.Time
	Result
}

func begin(t *testing.T, d *Definition, inputs map[string]string) *run {
	t.Helper()
	given := map[string]Value{}
	for name, text := range inputs {
		given[name] = Value{Text: text}
	}
	facts := map[string]bool{}
	for _, fact := range d.Facts {
		facts[fact.Name] = true
	}
	result, err := d.Start(given, facts, start)
	if err != nil {
		t.Fatal(err)
	}
	return &run{t, d, start, result}
}

func (r *run) step(event Event) *run {
	r.t.Helper()
	r.Result = r.definition.Step(r.Run, event, r.now)
	return r
}

// state of a machine.
func (r *run) state(machine string) string {
	at := slices.IndexFunc(r.definition.Machines, func(m Machine) bool { return m.Name == machine })
	return r.Run.Machines[at].State
}

func (r *run) expect(machine, state string) *run {
	r.t.Helper()
	if got := r.state(machine); got != state {
		r.t.Errorf("%s is in %s, want %s", machine, got, state)
	}
	return r
}

func (r *run) ends(outcome EndOutcome) *run {
	r.t.Helper()
	switch {
	case r.Run.End == nil && outcome != "":
		r.t.Errorf("the run goes on, want %s", outcome)
	case r.Run.End != nil && r.Run.End.Outcome != outcome:
		r.t.Errorf("the run ends in %s of %v, want %q", r.Run.End.Outcome, r.Run.End.Machines, outcome)
	}
	return r
}

func (r *run) ignores(reason IgnoredReason) *run {
	r.t.Helper()
	if r.WhyIgnored != reason {
		r.t.Errorf("ignored for %q, want %q", r.WhyIgnored, reason)
	}
	return r
}

func answered(key string, outcome Outcome, outputs ...string) Event {
	event := Event{Kind: EventAnswer, Key: key, Outcome: outcome, Outputs: map[string]Value{}}
	for i := 0; i+1 < len(outputs); i += 2 {
		event.Outputs[outputs[i]] = Value{Text: outputs[i+1]}
	}
	return event
}

func voted(key, person string, approves bool, roles ...string) Event {
	return Event{Kind: EventVote, Key: key, Person: person, Approves: approves, Roles: roles}
}

// TestPromotion runs the whole example: effects begin with values in them, people are
// counted, and the end is read from the machines.
func TestPromotion(t *testing.T) {
	d := readFile(t, "testdata/promote.yaml")
	r := begin(t, d, map[string]string{"version": "7"})
	if len(r.Effects) != 1 || r.Effects[0].Kind != Begin || r.Effects[0].Action.Task.Value != "7" {
		t.Fatalf("it begins %+v", r.Effects)
	}
	r.step(answered("build/building/1", OutcomeDone, "image", "shop@7")).expect("approval", "asking").ignores("")
	if question := r.Effects[0].Action.Person.Question; question != "Deploy 7?" {
		t.Errorf("it asks %q", question)
	}
	r.step(voted("approval/asking/1", "ada", true, "viewer")).ignores(RoleIsMissing)
	r.step(voted("approval/asking/1", "ada", true, "approver")).ignores("").expect("approval", "asking")
	r.step(voted("approval/asking/1", "ada", true, "approver")).ignores(VotedBefore)
	r.step(voted("approval/asking/1", "bob", true, "approver")).expect("deploy", "deploying")
	if value := r.Effects[0].Action.Edit.Value; value != "shop@7" {
		t.Errorf("it sets %q", value)
	}
	r.step(answered("deploy/deploying/1", OutcomeDone)).expect("deploy", "deployed").ends(EndSuccess)
	r.step(answered("deploy/deploying/1", OutcomeDone)).ignores(RunIsOver)
	r.step(Event{Kind: EventCancel}).ignores(RunIsOver)
}

// TestCleanUpAfterFailure is what a DAG cannot say: the failure of a step enables another.
func TestCleanUpAfterFailure(t *testing.T) {
	d := readFile(t, "testdata/promote.yaml")
	r := begin(t, d, map[string]string{"version": "7"})
	r.step(answered("build/building/1", OutcomeDone, "image", "shop@7"))
	r.step(voted("approval/asking/1", "ada", true, "approver")).step(voted("approval/asking/1", "bob", true, "approver"))
	r.step(Event{Kind: EventBegin, Key: "deploy/deploying/1"}).ignores("")
	if !slices.Equal(r.Run.Leftovers, []string{"new-image"}) {
		t.Errorf("left are %v", r.Run.Leftovers)
	}
	r.now = start.Add(3 * time.Hour)
	r.step(Event{Kind: EventTick}).expect("deploy", "undoing")
	r.step(answered("deploy/deploying/1", OutcomeDone)).ignores(CameLate)
	r.step(answered("deploy/undoing/2", OutcomeDone)).expect("deploy", "undone").ends(EndFailure)
	if len(r.Run.Leftovers) > 0 {
		t.Errorf("left are %v", r.Run.Leftovers)
	}
}

// TestLeftIsWhatMayHaveBegun: what an action leaves counts from when its effect may have begun, and not
// before. A run whose state is of an older Lehr, without that mark, keeps what it counted.
func TestLeftIsWhatMayHaveBegun(t *testing.T) {
	const text = `workflow: v1
name: drain
machines:
  drain:
    initial: draining
    states:
      draining: {action: {ACTION, runs: at-most-once, timeout: 1h, leaves: drained}}
      drained: {end: success}
      failed: {end: failure, accepts: drained}
    transitions:
      - {from: draining, to: drained, on: done}
      - {from: draining, to: failed, on: [failed, unknown, expired]}
`
	const edit, task = `edit: {document: d, field: /f, value: v}`, `task: {asset: task/drain}`
	begins, none := Event{Kind: EventBegin, Key: "drain/draining/1"}, []string(nil)
	tick := Event{Kind: EventTick}
	for name, c := range map[string]struct {
		action string
		events []Event
		left   []string
	}{
		"it expires before it begins":      {edit, []Event{tick}, none},
		"it fails before it begins":        {edit, []Event{answered(begins.Key, OutcomeFailed)}, none},
		"the run is cancelled before":      {edit, []Event{{Kind: EventCancel}}, none},
		"it begins, and expires":           {edit, []Event{begins, tick}, []string{"drained"}},
		"it begins, and fails":             {edit, []Event{begins, answered(begins.Key, OutcomeFailed)}, []string{"drained"}},
		"it begins twice":                  {edit, []Event{begins, begins, tick}, []string{"drained"}},
		"it is due before it begins":       {edit, []Event{tick, begins}, none},
		"nobody knows":                     {edit, []Event{answered(begins.Key, OutcomeUnknown)}, []string{"drained"}},
		"it is done without its beginning": {edit, []Event{answered(begins.Key, OutcomeDone)}, []string{"drained"}},
		"a task that is only awaited":      {task, []Event{tick}, []string{"drained"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, must(t, strings.Replace(text, "ACTION", c.action, 1)), nil)
			for _, event := range c.events {
				if event.Kind == EventTick {
					r.now = start.Add(2 * time.Hour)
				}
				r.step(event)
			}
			if !slices.Equal(r.Run.Leftovers, c.left) {
				t.Errorf("left are %v, not %v", r.Run.Leftovers, c.left)
			}
		})
	}
	older := begin(t, must(t, strings.Replace(text, "ACTION", edit, 1)), nil)
	older.Run.Leftovers = []string{"drained"}
	older.now = start.Add(2 * time.Hour)
	if older.step(tick); !slices.Equal(older.Run.Leftovers, []string{"drained"}) {
		t.Errorf("of a run of an older Lehr, %v is left", older.Run.Leftovers)
	}
	push, findings := ReadForPush("push.yaml", []byte(strings.Replace(text, "ACTION", `tell: {url: /drain}`, 1)))
	if push == nil {
		t.Fatal(findings)
	}
	if r := begin(t, push, nil); !slices.Equal(r.Run.Leftovers, []string{"drained"}) {
		t.Errorf("in a push, %v is left by a call that may be under way", r.Run.Leftovers)
	}
}

// TestCancel: guards see it, only the retreat goes on, and the end says so.
func TestCancel(t *testing.T) {
	d := readFile(t, "testdata/promote.yaml")
	r := begin(t, d, map[string]string{"version": "7"})
	r.step(Event{Kind: EventCancel}).ends(EndCancelled)
	if len(r.Effects) != 1 || r.Effects[0].Kind != Abandon || r.Effects[0].Key != "build/building/1" {
		t.Errorf("a cancel has the effects %+v", r.Effects)
	}
	r = begin(t, d, map[string]string{"version": "7"})
	r.step(answered("build/building/1", OutcomeDone, "image", "shop@7"))
	r.step(voted("approval/asking/1", "ada", true, "approver")).step(voted("approval/asking/1", "bob", true, "approver"))
	r.step(Event{Kind: EventCancel}).expect("deploy", "undoing").ends("")
	r.step(answered("deploy/deploying/1", OutcomeDone)).ignores(CameAfterCancel)
	r.step(Event{Kind: EventCancel}).ignores(CancelledBefore)
	r.step(answered("deploy/undoing/2", OutcomeDone)).ends(EndCancelled)
}

// TestWhatIsAwaited: a run goes on as long as a fact, a signal, a person, a timer or an answer
// can enable something, and ends as soon as none can.
func TestWhatIsAwaited(t *testing.T) {
	d := readFile(t, "testdata/promote.yaml")
	r := begin(t, d, map[string]string{"version": "7", "urgent": "true"})
	r.step(Event{Kind: EventFact, Name: "quiet"}).ignores("")
	r.step(Event{Kind: EventFact, Name: "quiet"}).ignores(FactIsSo)
	r.step(answered("build/building/1", OutcomeDone, "image", "shop@7")).expect("deploy", "idle").ends("")
	r.step(Event{Kind: EventSignal, Name: "go_on"}).expect("deploy", "deploying")
	r.step(Event{Kind: EventSignal, Name: "go_on"}).ignores(SignalledBefore)
	r.step(answered("deploy/deploying/1", OutcomeDone)).ends(EndSuccess)
	// Nobody is asked after a build that failed, so no signal and no fact matters any more.
	r = begin(t, d, map[string]string{"version": "7"})
	r.step(answered("build/building/1", OutcomeFailed)).ends(EndFailure)
}

// TestIgnored: answers that mean nothing any more, or never did.
func TestIgnored(t *testing.T) {
	const two = small + "  other:\n    initial: waiting\n    states: {waiting: {action: {wait: {for: 5h}}}, over: {end: success}}\n    transitions: [{from: waiting, to: over, on: done}]\n"
	d := must(t, two)
	for name, c := range map[string]struct {
		event Event
		want  IgnoredReason
	}{
		"no action":       {answered("nothing", OutcomeDone), UnknownAction},
		"no machine":      {answered("x/building/1", OutcomeDone), UnknownAction},
		"no state":        {answered("build/x/1", OutcomeDone), UnknownAction},
		"not yet":         {answered("build/building/2", OutcomeDone), UnknownAction},
		"no number":       {answered("build/building/x", OutcomeDone), UnknownAction},
		"a wait":          {answered("other/waiting/1", OutcomeDone), DecidedByTime},
		"a time":          {answered("build/building/1", OutcomeExpired), DecidedByTime},
		"no outcome":      {answered("build/building/1", OutcomeApproved), NoSuchOutcome},
		"no question":     {voted("build/building/1", "ada", true, "x"), NotAskedOfPeople},
		"no signal":       {Event{Kind: EventSignal, Name: "x"}, UnknownSignal},
		"no fact":         {Event{Kind: EventFact, Name: "x"}, UnknownFact},
		"no kind":         {Event{Kind: "x"}, UnknownEvent},
		"what is no kind": {Event{}, UnknownEvent},
	} {
		r := begin(t, d, nil)
		before := r.Run
		if r.step(c.event).WhyIgnored != c.want || keyOf(&before, nil) != keyOf(&r.Run, nil) {
			t.Errorf("%s: ignored for %q, want %q", name, r.WhyIgnored, c.want)
		}
	}
	r := begin(t, d, nil).step(answered("build/building/1", OutcomeFailed)).expect("build", "failed")
	r.step(answered("build/building/1", OutcomeDone)).ignores(CameLate)
	other := must(t, strings.Replace(two, "5h", "6h", 1))
	if result := other.Step(r.Run, Event{Kind: EventCancel}, start); result.WhyIgnored != OtherDefinition || result.Run.Cancelled {
		t.Errorf("under another definition it is ignored for %q", result.WhyIgnored)
	}
}

// TestClockThatJumps: timers that were jumped over fire in their order, and an answer that
// comes after its time is late. A clock that is set back changes nothing.
func TestClockThatJumps(t *testing.T) {
	const timers = `workflow: v1
name: timers
machines:
  first: {initial: w, states: {w: {action: {wait: {for: 2h}}}, o: {end: success}}, transitions: [{from: w, to: o, on: done, when: 'machines.second == "o"'}]}
  second: {initial: w, states: {w: {action: {wait: {for: 1h}}}, o: {end: success}}, transitions: [{from: w, to: o, on: done, when: 'machines.first == "w"'}]}
  third: {initial: w, states: {w: {action: {wait: {until: "2026-11-28T08:30:00Z"}}}, o: {end: success}}, transitions: [{from: w, to: o, on: done}]}
`
	r := begin(t, must(t, timers), nil)
	if at, ok := r.Run.Wakes(); !ok || !at.Equal(start.Add(30*time.Minute)) {
		t.Errorf("it wakes at %v", at)
	}
	r.now = start.Add(-time.Hour)
	r.step(Event{Kind: EventTick}).expect("third", "w")
	r.now = start.Add(100 * time.Hour)
	r.step(Event{Kind: EventTick}).ends(EndSuccess)
	var order []string
	for _, taken := range r.Passages {
		order = append(order, taken.Machine)
	}
	if strings.Join(order, " ") != "third second first" {
		t.Errorf("the order is %v", order)
	}
	r = begin(t, must(t, small), nil)
	r.now = start.Add(time.Hour)
	r.step(answered("build/building/1", OutcomeDone, "image", "x")).ignores(RunIsOver).ends(EndFailure)
}

// TestAnswersAsDeclared: an answer without what was declared is a failure, not a hole that
// guards wait for.
func TestAnswersAsDeclared(t *testing.T) {
	d := must(t, small)
	begin(t, d, nil).step(answered("build/building/1", OutcomeDone)).expect("build", "failed")
	begin(t, d, nil).step(answered("build/building/1", OutcomeDone, "image", "a", "more", "b")).expect("build", "built")
	whole := must(t, strings.Replace(small, "image: string", "image: int", 1))
	begin(t, whole, nil).step(answered("build/building/1", OutcomeDone, "image", "?")).expect("build", "failed")
	begin(t, whole, nil).step(answered("build/building/1", OutcomeDone, "image", "3")).expect("build", "built").ends(EndSuccess)
}

func TestInputs(t *testing.T) {
	d := readFile(t, "testdata/promote.yaml")
	for name, inputs := range map[string]map[string]Value{
		"none": {}, "another": {"version": {Text: "1"}, "verison": {Text: "1"}}, "no truth": {"version": {Text: "1"}, "urgent": {Text: "maybe"}},
	} {
		if _, err := d.Start(inputs, nil, start); err == nil {
			t.Errorf("%s: it starts", name)
		}
	}
}

// severe are the rules of the findings of a severity.
func severe(findings []Finding, severity intent.Severity) []string {
	var rules []string
	for _, f := range findings {
		if f.Severity == severity {
			rules = append(rules, f.Rule)
		}
	}
	return rules
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestHowLateADriverLooksChangesNothing: two timers that are found due together have the effect that
// they have one after the other, also where the run ends between them.
func TestHowLateADriverLooksChangesNothing(t *testing.T) {
	d := must(t, strings.Replace(small, "machines:\n", `machines:
  announce:
    initial: waiting
    states:
      waiting: {action: {wait: {for: 20m}}, end: success}
      told: {end: success}
    transitions:
      - {from: waiting, to: told, on: done, when: machines.build == "built"}
`, 1))
	inTime, late := begin(t, d, nil), begin(t, d, nil)
	for _, after := range []time.Duration{10 * time.Minute, 20 * time.Minute} {
		inTime.now = start.Add(after)
		inTime.step(Event{Kind: EventTick})
	}
	late.now = start.Add(time.Hour)
	late.step(Event{Kind: EventTick})
	if inTime.Run.End == nil || inTime.Run.End.Outcome != EndFailure {
		t.Fatalf("in time: %+v", inTime.Run.End)
	}
	if late.Run.End == nil || late.Run.End.Outcome != EndFailure || late.Run.Machines[0].Outcome != inTime.Run.Machines[0].Outcome {
		t.Errorf("late: %+v %+v; in time: %+v %+v", late.Run.End, late.Run.Machines[0], inTime.Run.End, inTime.Run.Machines[0])
	}
}
