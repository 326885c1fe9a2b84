package workflow

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

// explained finds the machine among those that a run explains.
func explained(t *testing.T, r *run, machine string) MachineExplained {
	t.Helper()
	all := r.definition.Explain(r.Run)
	at := slices.IndexFunc(all, func(m MachineExplained) bool { return m.Name == machine })
	if at < 0 {
		t.Fatalf("no machine %s is explained: %+v", machine, all)
	}
	return all[at]
}

func unmetTexts(transition TransitionExplained) string {
	var texts []string
	for _, one := range transition.Unmet {
		texts = append(texts, one.Text)
	}
	return strings.Join(texts, "; ")
}

// TestExplainGuards: the guard of an idle machine says which parts are not met.
func TestExplainGuards(t *testing.T) {
	r := begin(t, readFile(t, "testdata/promote.yaml"), map[string]string{"version": "1.2"})
	build := explained(t, r, "build")
	if build.Action == nil || build.Action.Task == nil || build.Pending == nil || build.Action.Words() == "" {
		t.Fatalf("build is not explained by its action: %+v", build)
	}
	if first := build.Transitions[0]; first.Answered != Unknown || first.Guard != Yes || first.Holds != Unknown {
		t.Errorf("building → built waits for an answer, and is explained as %+v", first)
	}
	approval := explained(t, r, "approval")
	if first := approval.Transitions[0]; first.Answered != Yes || first.Guard != Unknown || first.Holds != Unknown ||
		unmetTexts(first) != `machines.build == "built" (is building)` || !slices.Equal(first.Unmet[0].Reads, []string{"machines.build"}) {
		t.Errorf("idle → asking is explained as %+v", first)
	}
	urgent := begin(t, readFile(t, "testdata/promote.yaml"), map[string]string{"version": "1.2", "urgent": "true"})
	first := explained(t, urgent, "approval").Transitions[0]
	if first.Guard != No || first.Holds != No || unmetTexts(first) != `machines.build == "built" (is building); !inputs.urgent (is true)` {
		t.Errorf("of an urgent run, idle → asking is explained as %+v", first)
	}
}

// TestExplainLeaves: each kind of a part of a guard is told with its value.
func TestExplainLeaves(t *testing.T) {
	for guard, want := range map[string]string{
		`facts.quiet`:                    `facts.quiet (is false)`,
		`signals.go_on`:                  `signals.go_on (has not come)`,
		`inputs.size > 3`:                `inputs.size >= 4 (is 2)`,
		`inputs.size == 7`:               `inputs.size == 7 (is 2)`,
		`inputs.place == "x"`:            `inputs.place == "x" (is here)`,
		`inputs.place != "here"`:         `inputs.place != "here" (is here)`,
		`inputs.place.matches("^a")`:     `inputs.place.matches("^a") (does not hold)`,
		`!inputs.place.matches("^h")`:    `!(inputs.place.matches("^h")) (does not hold)`,
		`attempts > 1`:                   `attempts >= 2 (is 1)`,
		`outputs.build.image == "x"`:     `outputs.build.image == "x" (is not known yet)`,
		`facts.quiet || signals.go_on`:   `facts.quiet (is false), or signals.go_on (has not come)`,
		`inputs.size < 9 && facts.quiet`: `facts.quiet (is false)`,
		`!(inputs.size == 2)`:            `inputs.size != 2 (is 2)`,
		`cancelled`:                      `cancelled (is false)`,
	} {
		d := must(t, strings.Replace(leaves, "GUARD", strings.ReplaceAll(guard, "'", "''"), 1))
		r := beginUnquiet(t, d)
		got := explained(t, r, "deploy").Transitions[0]
		if got.Holds == Yes || unmetTexts(got) != want {
			t.Errorf("%s: it says %q (%s), want %q", guard, unmetTexts(got), got.Guard, want)
		}
	}
}

// beginUnquiet starts a run of which no fact is true.
func beginUnquiet(t *testing.T, d *Definition) *run {
	t.Helper()
	result, err := d.Start(map[string]Value{"size": {Text: "2"}, "place": {Text: "here"}}, nil, start)
	if err != nil {
		t.Fatal(err)
	}
	return &run{t, d, start, result}
}

const leaves = `workflow: v1
name: leaves
inputs: {size: int, place: string}
facts:
  quiet: {asset: web, when: 'report.state == "in-sync"'}
signals: [go_on]
machines:
  deploy:
    initial: idle
    states:
      idle: {end: neutral}
      done: {end: success}
    transitions:
      - {from: idle, to: done, when: 'GUARD'}
  build:
    initial: building
    states:
      building: {action: {task: {asset: task/build}, runs: at-most-once, timeout: 10m, leaves: [], outputs: {image: string}}}
      built: {end: success}
    transitions:
      - {from: building, to: built, on: [done, failed, expired, unknown]}
`

// TestExplainCancel: what is no part of the retreat is cut off.
func TestExplainCancel(t *testing.T) {
	r := beginUnquiet(t, must(t, strings.Replace(leaves, "GUARD", "facts.quiet || cancelled && signals.go_on", 1)))
	r.Run.Cancelled = true
	if got := explained(t, r, "build").Transitions[0]; !got.CutByCancel || got.Holds != No {
		t.Errorf("after a cancel, building → built is explained as %+v", got)
	}
	if got := explained(t, r, "deploy").Transitions[0]; got.CutByCancel || got.Holds != Unknown {
		t.Errorf("after a cancel, what reads cancelled is explained as %+v", got)
	}
}

// TestRecord: a step's history is in the order in which it happened.
func TestRecord(t *testing.T) {
	ann := intent.Actor{Name: "ann"}
	d := readFile(t, "testdata/promote.yaml")
	r := begin(t, d, map[string]string{"version": "1.2"})
	rows := Record(d, Run{}, Event{Reason: "a release"}, r.Result, ann)
	checkRows(t, rows, "started  a release", "began build building/1")
	if rows[0].By != ann {
		t.Errorf("the start is by %+v", rows[0].By)
	}
	before := r.Run
	event := Event{Kind: EventAnswer, Key: r.Run.Machines[0].Action.Key, Outcome: OutcomeDone, Outputs: map[string]Value{"image": {Text: "web:1.2"}}}
	r.step(event)
	checkRows(t, Record(d, before, event, r.Result, ann), "answered build done", "moved build building → built", "moved approval idle → asking", "began approval asking/1")

	before = r.Run
	event = Event{Kind: EventVote, Key: "approval/asking/1", Person: "bob", Roles: []string{"approver"}, Approves: false, Reason: "too late"}
	r.step(event)
	checkRows(t, Record(d, before, event, r.Result, ann), "voted approval too late", "answered approval refused", "moved approval asking → refused", "ended failure")

	before = r.Run
	r.step(Event{Kind: EventSignal, Name: "go_on"})
	checkRows(t, Record(d, before, Event{Kind: EventSignal, Name: "go_on"}, r.Result, ann))
}

// TestRecordOfTimers: a timeout that fires before an event comes first, and one that is ignored has no row.
func TestRecordOfTimers(t *testing.T) {
	d := must(t, small)
	r := begin(t, d, nil)
	before := r.Run
	event := Event{Kind: EventAnswer, Key: before.Machines[0].Action.Key, Outcome: OutcomeDone}
	result := d.Step(r.Run, event, start.Add(time.Hour))
	if result.WhyIgnored == "" {
		t.Fatal("an answer after the timeout counts")
	}
	checkRows(t, Record(d, before, event, result, intent.Actor{}), "answered build expired", "moved build building → failed", "ended failure")
	checkRows(t, Record(d, before, Event{Kind: EventSignal, Name: "none"}, d.Step(before, Event{Kind: EventSignal, Name: "none"}, start), intent.Actor{}))
}

// checkRows holds rows to the words that each must have, in order.
func checkRows(t *testing.T, rows []intent.WorkflowEvent, want ...string) {
	t.Helper()
	var got []string
	for _, row := range rows {
		line := string(row.Kind) + " " + row.Machine + " " + row.Word + " " + row.Key
		if row.From != "" {
			line += " " + row.From + " → " + row.To
		}
		got = append(got, line+" "+row.Reason)
	}
	fits := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		for _, word := range strings.Fields(want[i]) {
			fits = fits && strings.Contains(got[i], word)
		}
	}
	if !fits {
		t.Errorf("the history is\n  %s\nwant words of\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
