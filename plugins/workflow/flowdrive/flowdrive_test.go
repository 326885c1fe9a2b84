package flowdrive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/workflow"
	"lehr.dev/plugins/workflow/flowrecord"
	"lehr.dev/sdk/serve"
)

const upgrade = `
workflow: v1
name: upgrade
inputs: {firmware: string}
machines:
  upgrade:
    initial: draining
    states:
      draining:
        action: {tell: {url: /drain}, runs: at-least-once, leaves: drained}
      rebooting:
        action: {tell: {url: "/reboot?to=${inputs.firmware}", body: "{}"}, runs: at-most-once, timeout: 10m, leaves: []}
      resting:
        action: {wait: {for: 5s}}
      looking:
        action: {ask: {url: /state}, runs: at-least-once, outputs: {firmware: string}}
      undraining:
        action: {tell: {url: /undrain}, runs: at-least-once, undoes: drained}
      done: {end: success}
      paging:
        action: {tell: {endpoint: pager, url: /pages}, runs: at-most-once, leaves: []}
      isolated: {end: failure, accepts: drained}
    transitions:
      - {from: draining, to: rebooting, on: done}
      - {from: draining, to: paging, on: failed}
      - {from: rebooting, to: resting, on: [done, unknown]}
      - {from: rebooting, to: paging, on: [failed, expired]}
      - {from: resting, to: looking, on: done}
      - {from: looking, to: undraining, on: done, when: outputs.upgrade.firmware == inputs.firmware}
      - {from: looking, to: resting, on: done, when: outputs.upgrade.firmware != inputs.firmware && attempts < 3}
      - {from: looking, to: paging, on: done, when: outputs.upgrade.firmware != inputs.firmware && attempts >= 3}
      - {from: looking, to: paging, on: failed}
      - {from: undraining, to: done, on: done}
      - {from: undraining, to: paging, on: failed}
      - {from: paging, to: isolated, on: [done, failed, unknown]}
`

func read(t *testing.T, text string) *workflow.Definition {
	t.Helper()
	d, findings := workflow.ReadForPush("test.yaml", []byte(text))
	if d != nil {
		findings = append(findings, d.Check(workflow.DefaultLimit).Findings...)
	}
	if len(findings) > 0 {
		t.Fatalf("the definition of the test is wrong: %+v", findings)
	}
	return d
}

var errKilled = errors.New("killed")

// world is production, what Lehr keeps, and a fault at one of the points where the driver waits
// for somebody else.
type world struct {
	*testing.T
	definition *workflow.Definition
	now        time.Time
	// kept is the memo as it is durable; keys the calls that had an effect, with how often.
	kept     []byte
	keys     map[string]int
	firmware string
	// answers in place of the usual ones, by path, the first first.
	answers map[string][]func() (Answer, error)
	// points that were passed, fault is the one at which the process is killed, after tells on
	// which side of what happens there.
	points, fault int
	after         bool
	// stop refuses permits from so many on; 0: never.
	stop, permits int
	lines         []string
}

func newWorld(t *testing.T, definition *workflow.Definition) *world {
	return &world{T: t, definition: definition, now: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), keys: map[string]int{}, firmware: "1", answers: map[string][]func() (Answer, error){}, fault: -1}
}

// point is one where the driver waits for somebody else: act happens unless the process is killed
// before it.
func (w *world) point(act func() error) error {
	at := w.points
	w.points++
	if at == w.fault && !w.after {
		panic(errKilled)
	}
	err := act()
	if at == w.fault {
		panic(errKilled)
	}
	return err
}

func (w *world) save(_ context.Context, record *flowrecord.Record) error {
	return w.point(func() error {
		memo, err := record.Memo()
		w.kept = memo
		return err
	})
}

func (w *world) permit(context.Context) error {
	return w.point(func() error {
		if w.permits++; w.stop > 0 && w.permits >= w.stop {
			return errors.New("stopped")
		}
		return nil
	})
}

func (w *world) call(ctx context.Context, call Call) (answer Answer, err error) {
	if err := call.Begin(ctx); err != nil {
		return Answer{}, err
	}
	name := call.Endpoint + call.Path
	err = w.point(func() (err error) {
		if queue := w.answers[name]; len(queue) > 0 {
			w.answers[name] = queue[1:]
			if answer, err = queue[0](); err != nil || answer.Status >= 300 {
				return err
			}
		}
		w.keys[call.Key+" "+name]++
		if to, ok := strings.CutPrefix(call.Path, "/reboot?to="); ok {
			w.firmware = to
		}
		answer = Answer{Status: 200, Text: fmt.Sprintf(`{"firmware": %q}`, w.firmware)}
		return nil
	})
	return answer, err
}

// driver of a process that begins now, from what is kept.
func (w *world) driver() *Driver {
	w.Helper()
	var memos []serve.Memo
	if w.kept != nil {
		memos = append(memos, serve.Memo{Key: "thing", Bytes: w.kept})
	}
	record, err := flowrecord.FromMemos(memos, "thing")
	if err == nil && record == nil {
		var inputs map[string]workflow.Value
		if inputs, err = w.definition.CheckInputs(map[string]string{"firmware": "2"}); err == nil {
			record, err = flowrecord.New(nil, w.definition, flowrecord.Want{Content: "content"}, "push-1", inputs, w.now)
		}
	}
	if err != nil {
		w.Fatal(err)
	}
	return &Driver{
		Definition: w.definition, Record: record, Save: w.save, Permit: w.permit, Call: w.call,
		Tell: func(text string) { w.lines = append(w.lines, text) }, Now: func() time.Time { return w.now },
		SleepUntil: func(_ context.Context, at time.Time) error {
			return w.point(func() error {
				w.now = at
				return nil
			})
		},
	}
}

// run to the end, also after the process was killed.
func (w *world) run() *flowrecord.Record {
	w.Helper()
	d := w.driver()
	err := live(w, d)
	if errors.Is(err, errKilled) {
		w.fault = -1
		d = w.driver()
		err = d.Run(w.Context())
	}
	if err != nil {
		w.Fatal(err)
	}
	return d.Record
}

// live is the life of a process: to the end of a push, or until it is killed.
func live(w *world, d *Driver) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			if problem != errKilled {
				panic(problem)
			}
			err = errKilled
		}
	}()
	return d.Run(w.Context())
}

// calls that had an effect, by path, with how often.
func (w *world) calls() map[string]int {
	all := map[string]int{}
	for key, n := range w.keys {
		_, path, _ := strings.Cut(key, " ")
		all[path] += n
	}
	return all
}

func TestRunsToTheEnd(t *testing.T) {
	w := newWorld(t, read(t, upgrade))
	record := w.run()
	if record.State.End.Outcome != workflow.EndSuccess || w.firmware != "2" {
		t.Fatalf("it ended as %+v with firmware %s:\n%s", record.State.End, w.firmware, strings.Join(w.lines, "\n"))
	}
	want := map[string]int{"/drain": 1, "/reboot?to=2": 1, "/state": 1, "/undrain": 1}
	if got := w.calls(); !maps.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
	for key := range w.keys {
		if !strings.HasPrefix(key, "push-1/upgrade/") {
			t.Errorf("the key %q is not that of the run", key)
		}
	}
}

// TestKilledAnywhere kills the process at each point where it waits for somebody else, on both
// sides of what happens there, and goes on with another one from what is kept. What runs at most
// once never happens twice, and where it cannot be known whether it happened that is said; what runs
// at least once is repeated with its key.
func TestKilledAnywhere(t *testing.T) {
	definition := read(t, upgrade)
	whole := newWorld(t, definition)
	whole.run()
	unknown, repeated := 0, 0
	for fault := range whole.points {
		for _, after := range []bool{false, true} {
			w := newWorld(t, definition)
			w.fault, w.after = fault, after
			record := w.run()
			place := fmt.Sprintf("killed at point %d, after=%t", fault, after)
			trace := strings.Join(record.Trace, "\n")
			wasUnknown := strings.Contains(trace, "rebooting/2 is unknown")
			calls := w.calls()
			if calls["/reboot?to=2"] > 1 {
				t.Errorf("%s: the reboot happened %d times:\n%s", place, calls["/reboot?to=2"], trace)
			}
			if calls["/reboot?to=2"] == 0 && !wasUnknown {
				t.Errorf("%s: the reboot did not happen, and the run says that it did:\n%s", place, trace)
			}
			for _, path := range []string{"/drain", "/state", "/undrain"} {
				n := 0
				for key := range w.keys {
					if strings.HasSuffix(key, " "+path) {
						n++
					}
				}
				// A reboot that never came is asked about three times.
				if calls[path] == 0 && calls["/reboot?to=2"] > 0 || n > 1 && path != "/state" {
					t.Errorf("%s: %s was called with %d keys, %d times:\n%s", place, path, n, calls[path], trace)
				}
				if calls[path] > n {
					repeated++
				}
			}
			if calls["/reboot?to=2"] > 0 && record.State.End.Outcome != workflow.EndSuccess {
				t.Errorf("%s: it ended as %s:\n%s", place, record.State.End.Outcome, trace)
			}
			if wasUnknown {
				unknown++
			}
		}
	}
	// Between that it is marked (kept) and that its answer is kept: the save itself, the second
	// permit, the call and the save of the answer, each on its sides.
	if unknown != 6 || repeated == 0 {
		t.Errorf("the reboot was unknown after %d faults, and something was repeated after %d", unknown, repeated)
	}
}

// TestStopped: without a permit nothing happens, and what follows goes on from there.
func TestStopped(t *testing.T) {
	definition := read(t, upgrade)
	for stop := 1; ; stop++ {
		w := newWorld(t, definition)
		w.stop = stop
		err := w.driver().Run(t.Context())
		if err == nil {
			if stop != 7 { // One to begin, one for each call, and a second for the one that runs once.
				t.Errorf("the run ended with %d permits", stop-1)
			}
			return
		}
		before := w.calls()
		if n := len(before); n > stop-1 {
			t.Errorf("%d calls happened with %d permits", n, stop-1)
		}
		w.stop = 0
		if record := w.run(); record.State.End.Outcome != workflow.EndSuccess && stop != 4 {
			t.Errorf("stopped at permit %d, it ended as %s:\n%s", stop, record.State.End.Outcome, strings.Join(record.Trace, "\n"))
		}
		for path, n := range w.calls() {
			if n > 1 && path != "/state" {
				t.Errorf("stopped at permit %d, %s happened %d times", stop, path, n)
			}
		}
	}
}

func answering(status int, text string) func() (Answer, error) {
	return func() (Answer, error) { return Answer{Status: status, Text: text, Words: text}, nil }
}

func failing(err error) func() (Answer, error) {
	return func() (Answer, error) { return Answer{}, err }
}

// TestAnswers: what the answers of an API come to.
func TestAnswers(t *testing.T) {
	lost := errors.New("no answer within 1s")
	for name, c := range map[string]struct {
		path    string
		answers []func() (Answer, error)
		outcome workflow.EndOutcome
		trace   string
		pages   int
	}{
		"a refusal":                      {"/drain", []func() (Answer, error){answering(409, "not now")}, workflow.EndFailure, "draining/1 is failed: it answered with status 409: not now", 1},
		"too busy, repeated":             {"/drain", []func() (Answer, error){answering(503, ""), answering(429, "")}, workflow.EndSuccess, "draining/1 is done", 0},
		"no answer, repeated":            {"/drain", []func() (Answer, error){failing(lost)}, workflow.EndSuccess, "draining/1 is done", 0},
		"not allowed":                    {"/drain", []func() (Answer, error){failing(&NotSent{lost})}, workflow.EndSuccess, "draining/1 is done", 0},
		"once: no answer":                {"/reboot?to=2", []func() (Answer, error){failing(lost)}, workflow.EndFailure, "rebooting/2 is unknown: no answer within 1s", 1},
		"once: broken":                   {"/reboot?to=2", []func() (Answer, error){answering(500, "")}, workflow.EndFailure, "rebooting/2 is unknown: it answered with status 500", 1},
		"once: no connection, sent anew": {"/reboot?to=2", []func() (Answer, error){failing(&NotSent{lost}), failing(&NotSent{lost})}, workflow.EndSuccess, "rebooting/2 is done", 0},
		"an answer of another form":      {"/state", []func() (Answer, error){answering(200, "[]")}, workflow.EndFailure, "not a JSON object", 1},
		"an answer without the output":   {"/state", []func() (Answer, error){answering(200, "{}")}, workflow.EndFailure, "has no output firmware", 1},
		"the page is refused":            {"/undrain", []func() (Answer, error){answering(400, "")}, workflow.EndFailure, "undraining/5 is failed", 1},
		"other firmware, three times": {"/state", []func() (Answer, error){
			answering(200, `{"firmware": "1"}`), answering(200, `{"firmware": "1"}`), answering(200, `{"firmware": "1"}`),
		}, workflow.EndFailure, "looking → paging", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, read(t, upgrade))
			w.answers[c.path] = slices.Clone(c.answers)
			for i, give := range c.answers { // One that has a status of 2xx is given in place of the usual one.
				if answer, err := give(); err == nil && answer.Status < 300 {
					w.answers[c.path][i] = func() (Answer, error) { return Answer{}, &given{answer} }
				}
			}
			d := w.driver()
			call := d.Call
			d.Call = func(ctx context.Context, one Call) (Answer, error) {
				answer, err := call(ctx, one)
				if g, ok := errors.AsType[*given](err); ok {
					return g.answer, nil
				}
				return answer, err
			}
			if err := d.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			trace := strings.Join(d.Record.Trace, "\n")
			if d.Record.State.End.Outcome != c.outcome || !strings.Contains(trace, c.trace) {
				t.Errorf("it ended as %s, want %s with %q:\n%s", d.Record.State.End.Outcome, c.outcome, c.trace, trace)
			}
			if n := w.calls()["pager/pages"]; n != c.pages {
				t.Errorf("%d pages, want %d", n, c.pages)
			}
		})
	}
}

// given is an answer that a test gives in place of the usual one.
type given struct{ answer Answer }

func (g *given) Error() string { return "given" }

// TestNotAllowed: a call that may not be made is a failure, and not tried again.
func TestNotAllowed(t *testing.T) {
	w := newWorld(t, read(t, upgrade))
	d := w.driver()
	tried := 0
	call := d.Call
	d.Call = func(ctx context.Context, one Call) (Answer, error) {
		if one.Path == "/drain" {
			tried++
			return Answer{}, &Refused{errors.New("not listed")}
		}
		return call(ctx, one)
	}
	if err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d.Record.State.End.Outcome != workflow.EndFailure || tried != 1 {
		t.Errorf("it ended as %s after %d attempts", d.Record.State.End.Outcome, tried)
	}
}

// TestExpires: the timeout of an action goes on while no process runs.
func TestExpires(t *testing.T) {
	w := newWorld(t, read(t, upgrade))
	w.fault = 5 // Drained is kept, the permit of the reboot is not there yet.
	if err := live(w, w.driver()); !errors.Is(err, errKilled) || w.calls()["/drain"] != 1 || w.calls()["/reboot?to=2"] != 0 {
		t.Fatalf("the fault is elsewhere: %v, %v", err, w.calls())
	}
	w.fault = -1
	w.now = w.now.Add(time.Hour)
	record := w.run()
	if trace := strings.Join(record.Trace, "\n"); record.State.End.Outcome != workflow.EndFailure || w.calls()["/reboot?to=2"] != 0 || !strings.Contains(trace, "rebooting → paging") {
		t.Errorf("it ended as %s, with %v:\n%s", record.State.End.Outcome, w.calls(), trace)
	}
}

// TestPauses before a call is repeated grow, and are as long as the API asks for.
func TestPauses(t *testing.T) {
	w := newWorld(t, read(t, upgrade))
	w.answers["/drain"] = []func() (Answer, error){answering(503, ""), answering(503, ""), failing(serve.Busy(errors.New("too busy"), time.Minute))}
	start := w.now
	w.run()
	// 2 s, 4 s, the minute, and the wait of the definition.
	if took := w.now.Sub(start); took != 71*time.Second {
		t.Errorf("it took %s", took)
	}
}
