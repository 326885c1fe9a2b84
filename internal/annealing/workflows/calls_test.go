package workflows

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/store"
)

// askingTogether is a definition of so many machines that each ask something at once, and await a
// signal.
func askingTogether(machines int, runs string) string {
	var b strings.Builder
	b.WriteString("workflow: v1\nname: try\nsignals: [go_on]\nmachines:\n")
	for n := range machines {
		fmt.Fprintf(&b, `
  m%d:
    initial: asking
    states:
      asking: {action: {ask: {url: "https://ci.example.com/%d"}, runs: %s}}
      answered: {}
      told: {end: success}
      failed: {end: failure}
    transitions:
      - {from: asking, to: answered, on: done}
      - {from: asking, to: failed, on: [failed%s]}
      - {from: answered, to: told, when: signals.go_on}`, n, n, runs, map[bool]string{true: ", unknown"}[runs == string(workflow.AtMostOnce)])
	}
	return b.String()
}

// ci is who is asked. It answers a call once the test lets it.
type ci struct {
	mutex   sync.Mutex
	keys    []string
	answers map[string]chan struct{}
}

func (c *ci) call(ctx context.Context, call Call) (Answer, error) {
	c.mutex.Lock()
	c.keys = append(c.keys, call.Key)
	answered := c.answers[call.URL[len("https://ci.example.com/"):]]
	c.mutex.Unlock()
	select {
	case <-answered:
		return Answer{Status: 200}, nil
	case <-ctx.Done():
		return Answer{}, fault.New(fault.Unavailable, "it did not answer")
	}
}

// arrivals are the keys of the calls that came, sorted.
func (c *ci) arrivals() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Sorted(slices.Values(c.keys))
}

// newCI plays who is asked, by so many names.
func (w *world) newCI(names int) *ci {
	c := &ci{answers: map[string]chan struct{}{}}
	for n := range names {
		c.answers[fmt.Sprint(n)] = make(chan struct{})
	}
	w.call = c.call
	return c
}

// passUntil something is so, by one driver.
func (w *world) passUntil(d *Driver, what string, isSo func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !isSo(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("it does not come about that %s", what)
		}
		if _, err := d.pass(w.t.Context()); err != nil && !fault.Is(err, fault.Conflict) {
			w.t.Fatal(err)
		}
		w.tick(time.Second)
	}
}

// signal a run, as the server does when a person says so.
func (w *world) signal(number uint64) {
	w.t.Helper()
	run := w.run(number)
	definition, _ := workflow.Read("try.yaml", []byte(run.Text))
	state, err := workflow.StateOf(run)
	w.must(err)
	event := workflow.Event{Kind: workflow.EventSignal, Name: "go_on"}
	result := definition.Step(state, event, w.clock)
	w.must(workflow.UpdateRow(&run, result, w.clock))
	_, err = w.store.StepWorkflow(w.t.Context(), w.lease, store.WorkflowStep{Run: run, Events: workflow.Record(definition, state, event, result, ann), By: ann})
	w.must(err)
}

// TestCallsOfOneRunAreUnderWayTogether: machines whose calls are independent do not wait for each other, and
// their answers may come in any order. Each call is made once, with a key of its own.
func TestCallsOfOneRunAreUnderWayTogether(t *testing.T) {
	for _, order := range [][]string{{"0", "1", "2"}, {"2", "1", "0"}, {"1", "2", "0"}} {
		for _, runs := range []string{string(workflow.AtLeastOnce), string(workflow.AtMostOnce)} {
			t.Run(fmt.Sprint(order, runs), func(t *testing.T) {
				w := newWorld(t)
				c := w.newCI(3)
				run, d := w.start(askingTogether(3, runs), nil), w.driver()
				w.passUntil(d, "all three have come, and none is answered", func() bool { return len(c.arrivals()) == 3 })
				for n, name := range order {
					w.expectState(run.Number, "m"+name, "asking")
					close(c.answers[name])
					w.passUntil(d, "the answer is taken", func() bool { return len(w.run(run.Number).Actions) == 2-n })
					w.expectState(run.Number, "m"+name, "answered")
				}
				w.signal(run.Number)
				want := []string{"shop/try#1/m0/asking/1", "shop/try#1/m1/asking/1", "shop/try#1/m2/asking/1"}
				if ended := w.run(run.Number); ended.Outcome != string(workflow.EndSuccess) || !slices.Equal(c.arrivals(), want) {
					t.Errorf("it ended as %q, and the calls were %q", ended.Outcome, c.arrivals())
				}
			})
		}
	}
}

// TestCallsAreLimited: a ninth call of a partition begins when one of the eight is over.
func TestCallsAreLimited(t *testing.T) {
	w := newWorld(t)
	c := w.newCI(maxCalls + 1)
	run, d := w.start(askingTogether(maxCalls+1, string(workflow.AtLeastOnce)), nil), w.driver()
	w.passUntil(d, "eight have come", func() bool { return len(c.arrivals()) == maxCalls })
	if _, err := d.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(c.arrivals()); n != maxCalls {
		t.Fatalf("%d calls are under way", n)
	}
	close(c.answers["3"])
	w.passUntil(d, "the ninth has come", func() bool { return len(c.arrivals()) == maxCalls+1 })
	w.expectState(run.Number, "m3", "answered")
	d.endCalls(t.Context())
}

// TestAnswerIsTakenAlthoughAnotherStepWins: while an answer is about to be stored, a person steps the run. The
// answer is not lost: the run is read again, and stepped by it. Nor is it if the store's own answer is lost.
func TestAnswerIsTakenAlthoughAnotherStepWins(t *testing.T) {
	for _, runs := range []string{string(workflow.AtLeastOnce), string(workflow.AtMostOnce)} {
		for name, disturb := range map[string]func(w *world, number uint64){
			"another step wins":          func(w *world, number uint64) { w.signal(number) },
			"the store's answer is lost": func(w *world, _ uint64) { w.lost = true },
		} {
			t.Run(runs+", "+name, func(t *testing.T) {
				w := newWorld(t)
				c := w.newCI(2)
				run, d := w.start(askingTogether(2, runs), nil), w.driver()
				w.passUntil(d, "both have come", func() bool { return len(c.arrivals()) == 2 })
				disturbed := false
				w.rival = func(step store.WorkflowStep) {
					isAnswer := slices.ContainsFunc(step.Events, func(e intent.WorkflowEvent) bool { return e.Kind == intent.WorkflowAnswered })
					if isAnswer && !disturbed {
						disturbed = true
						disturb(w, run.Number)
					}
				}
				close(c.answers["0"])
				close(c.answers["1"])
				for end := time.Now().Add(time.Minute); len(w.run(run.Number).Actions) > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
					_, _ = d.pass(t.Context())
					w.tick(time.Second)
				}
				if name != "another step wins" {
					w.signal(run.Number)
				}
				if ended := w.run(run.Number); !disturbed || ended.Outcome != string(workflow.EndSuccess) || len(c.arrivals()) != 2 {
					t.Errorf("disturbed: %t; it ended as %q, and the calls were %q", disturbed, ended.Outcome, c.arrivals())
				}
			})
		}
	}
}

// TestFailureIsCountedOnce: an attempt that failed is stored, and the store's answer is lost.
func TestFailureIsCountedOnce(t *testing.T) {
	w := newWorld(t)
	called := 0
	w.call = func(context.Context, Call) (Answer, error) {
		called++
		return Answer{Status: 503}, fault.New(fault.Unavailable, "ci.example.com answered 503")
	}
	run, d := w.start(telling(string(workflow.AtLeastOnce)), nil), w.driver()
	const key = "ci/telling/1"
	w.rival = func(step store.WorkflowStep) { w.lost = step.Run.Actions[key].Attempts == 1 }
	for end := time.Now().Add(time.Minute); w.run(run.Number).Actions[key].Failure == "" && time.Now().Before(end); time.Sleep(time.Millisecond) {
		_, _ = d.pass(t.Context())
	}
	w.rival = nil
	if _, err := d.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if action := w.run(run.Number).Actions[key]; action.Attempts != 1 || called != 1 {
		t.Errorf("%d attempts, %d calls", action.Attempts, called)
	}
}
