package procedures

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	workflowpb "lehr.dev/gen/lehr/workflow/v1"
	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

const definition = `
workflow: v1
name: set-value
inputs: {value: string}
machines:
  change:
    initial: setting
    states:
      setting:
        action: {tell: {url: /value, method: PUT, body: '{"value": "${inputs.value}"}'}, runs: at-most-once, leaves: []}
      set: {end: success}
      telling:
        action: {tell: {endpoint: pager, url: /pages}, runs: at-most-once, leaves: []}
      told: {end: failure}
    transitions:
      - {from: setting, to: set, on: done}
      - {from: setting, to: telling, on: [failed, unknown]}
      - {from: telling, to: told, on: [done, failed, unknown]}
`

// device is a thing with one value, and a pager.
type device struct {
	*httptest.Server
	mutex sync.Mutex
	state map[string]any
	// refuse is the status of what changes it; 0: it is changed.
	refuse int
	// broken: it tells no state.
	broken bool
	calls  []string
	keys   []string
	paths  []string
	// enter is called when a change arrives, leave when it has happened; nil: nothing.
	enter, leave func()
}

func newDevice(t *testing.T) *device {
	d := &device{state: map[string]any{"value": "0", "ports": 8}}
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Close)
	return d
}

func (d *device) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && d.enter != nil {
		d.enter()
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.paths = append(d.paths, r.URL.Path)
	switch {
	case r.Method == http.MethodGet && d.broken:
		http.Error(w, `{"problem": "no table"}`, http.StatusInternalServerError)
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(d.state)
	case r.URL.Path == "/pages":
		d.calls = append(d.calls, "page")
	case d.refuse > 0:
		http.Error(w, "it is locked", d.refuse)
	default:
		var given map[string]any
		_ = json.NewDecoder(r.Body).Decode(&given)
		maps.Copy(d.state, given)
		d.calls, d.keys = append(d.calls, fmt.Sprint("set ", given["value"])), append(d.keys, r.Header.Get("Idempotency-Key"))
		if d.leave != nil {
			d.leave()
		}
	}
}

func (d *device) did() string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return strings.Join(d.calls, ", ")
}

// bench is the kind with an operator's list, and what Lehr does.
type bench struct {
	*testing.T
	*Procedures
	*device
	memos  []serve.Memo
	pushes int
	lines  []string
	// refuseMemo: nothing is kept.
	refuseMemo error
	covered    []string
}

func open(t *testing.T) *bench {
	t.Helper()
	d := newDevice(t)
	path := filepath.Join(t.TempDir(), "endpoints.yaml")
	text := "http-endpoints: v1\nendpoints:\n"
	for name, url := range map[string]string{"device": d.URL + "/devices", "pager": d.URL} {
		text += fmt.Sprintf("- {name: %s, url: %q, profile: calls, partitions: [net], requests_per_second: 1000, timeout: 2s}\n", name, url)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := endpoint.OpenSource(path, resolver.New("lehr-workflow", ""), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{T: t, Procedures: New(source), device: d}
}

func procedure(value string) *workflowpb.Procedure {
	return &workflowpb.Procedure{
		Endpoint: "device", Path: "/a", Also: []string{"pager"}, Definition: definition, Inputs: map[string]string{"value": value},
		Observe: &workflowpb.Observation{Want: map[string]string{"/value": "${inputs.value}", "/ports": "8"}},
	}
}

func (b *bench) intent(p *workflowpb.Procedure) serve.Intent {
	asset := serve.Intent{Incarnation: serve.IncarnationID{Partition: "net"}, Memos: b.memos}
	asset.ID = "device/a"
	asset.Payload.Type = procedureType
	asset.Payload.Bytes, _ = proto.MarshalOptions{Deterministic: true}.Marshal(p)
	return asset
}

func (b *bench) look(p *workflowpb.Procedure) serve.Difference {
	b.Helper()
	return b.Diff(b.Context(), []serve.Intent{b.intent(p)})[0]
}

// Effect and Cover are the permits of a push: always.
func (b *bench) Effect(ctx context.Context) error { return context.Cause(ctx) }

func (b *bench) Cover(ctx context.Context, base string) error {
	b.covered = append(b.covered, base)
	return b.Effect(ctx)
}

// push the plan of a difference.
func (b *bench) push(ctx context.Context, p *workflowpb.Procedure, d serve.Difference) serve.Outcome {
	b.Helper()
	b.pushes++
	return b.Push(ctx, serve.Push{
		ID: serve.PushID(fmt.Sprintf("push-%d", b.pushes)), Asset: b.intent(p), Plan: d.Plan.Digest(), Base: d.Base,
		Progress: func(text string) { b.lines = append(b.lines, text) },
		SaveMemo: func(ctx context.Context, key serve.ResourceKey, bytes []byte) error {
			if err := errors.Join(context.Cause(ctx), b.refuseMemo); err != nil {
				return err
			}
			memo := serve.Memo{Key: key, Bytes: slices.Clone(bytes)}
			if err := memo.Check(); err != nil {
				return err
			}
			b.memos = []serve.Memo{memo}
			return nil
		},
	}, b)
}

func changes(d serve.Difference) string {
	var all []string
	for _, c := range d.Plan.Changes {
		all = append(all, fmt.Sprintf("%s: %s → %s", c.Path, c.Current, c.Target))
	}
	return strings.Join(all, "\n")
}

func TestDiffersAndIsBroughtInSync(t *testing.T) {
	b := open(t)
	p := procedure("1")
	d := b.look(p)
	if d.Outcome != serve.Differs || d.Plan.Action != serve.ActionUpdate || !strings.Contains(changes(d), "value: 0 → 1\nrun:  → run 1\n") || strings.Contains(changes(d), "ports") {
		t.Fatalf("the difference is %d %s:\n%s", d.Outcome, d.Reason, changes(d))
	}
	current := &workflowpb.Procedure{}
	if err := proto.Unmarshal(d.Current, current); err != nil || current.Observe.Want["/value"] != "0" {
		t.Errorf("what there is now is told as %v (%v)", current.GetObserve().GetWant(), err)
	}
	if end := b.push(t.Context(), p, d); end.Ending != serve.Pushed || b.did() != "set 1" || !strings.Contains(end.Reason, "run 1 ended in success; its last steps: change/setting/1 is done; change: setting → set") {
		t.Fatalf("the push ended as %v %q, having done %s", end.Ending, end.Reason, b.did())
	}
	if d := b.look(p); d.Outcome != serve.InSync || d.Health.State != serve.Healthy {
		t.Errorf("after it: %d %s, %v", d.Outcome, d.Reason, d.Health)
	}
	if b.keys[0] != "push-1/change/setting/1" || !slices.Contains(b.paths, "/devices/a/value") {
		t.Errorf("keys %v, paths %v", b.keys, b.paths)
	}
	// Drift begins another run, with other keys.
	b.state["value"] = "9"
	if d = b.look(p); d.Outcome != serve.Differs || !strings.Contains(changes(d), "run: run 1 → run 2") {
		t.Errorf("drift is told as %d:\n%s", d.Outcome, changes(d))
	}
	if end := b.push(t.Context(), p, d); end.Ending != serve.Pushed || b.keys[1] != "push-2/change/setting/1" {
		t.Errorf("the second push ended as %v %q, keys %v", end.Ending, end.Reason, b.keys)
	}
}

// TestFailureIsNotRepeated unless intent asks for it, and says why.
func TestFailureIsNotRepeated(t *testing.T) {
	b := open(t)
	b.refuse = http.StatusLocked
	p := procedure("1")
	end := b.push(t.Context(), p, b.look(p))
	if end.Ending != serve.Failed || end.Retryable || !strings.Contains(end.Reason, "run 1 ended in failure because of change") || !strings.Contains(end.Reason, "status 423: it is locked") {
		t.Fatalf("the push ended as %v %q", end.Ending, end.Reason)
	}
	d := b.look(p)
	if d.Outcome != serve.Unknown || !strings.Contains(d.Reason, "is not repeated: mend the thing, or set rerun") || d.Health.State != serve.Unhealthy {
		t.Errorf("after a failure: %d %q, %v", d.Outcome, d.Reason, d.Health)
	}
	if end := b.push(t.Context(), p, d); end.Ending != serve.Stale || b.did() != "page" {
		t.Errorf("a push after it ended as %v, having done %s", end.Ending, b.did())
	}
	// Somebody mends it by hand, and undoes that.
	b.state["value"] = "1"
	if d := b.look(p); d.Outcome != serve.InSync {
		t.Errorf("mended by hand: %d %q", d.Outcome, d.Reason)
	}
	b.state["value"] = "0"
	b.refuse = 0
	p.Rerun = &workflowpb.Rerun{Id: "OPS-7", Reason: "it is unlocked"}
	if d = b.look(p); d.Outcome != serve.Differs || !strings.Contains(changes(d), "run.rerun:  → it is unlocked") {
		t.Fatalf("with rerun: %d %q\n%s", d.Outcome, d.Reason, changes(d))
	}
	if end := b.push(t.Context(), p, d); end.Ending != serve.Pushed {
		t.Fatalf("the rerun ended as %v %q", end.Ending, end.Reason)
	}
	b.refuse, b.state["value"] = http.StatusLocked, "5"
	b.push(t.Context(), p, b.look(p))
	// The same rerun asks for nothing more; nor does one that is taken out.
	for range 2 {
		if d := b.look(p); d.Outcome != serve.Unknown {
			t.Errorf("the same rerun, or none: %d", d.Outcome)
		}
		p.Rerun = nil
	}
	// Other content is another run.
	b.refuse = 0
	p = procedure("2")
	if end := b.push(t.Context(), p, b.look(p)); end.Ending != serve.Pushed || b.did() != "page, set 1, page, set 2" {
		t.Errorf("other content ended as %v %q, having done %s", end.Ending, end.Reason, b.did())
	}
}

// TestWhatCannotBeReadIsUnknown, and so is an intent that means nothing.
func TestWhatCannotBeReadIsUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *bench, p *workflowpb.Procedure)
		want   string
	}{
		"an error":    {func(b *bench, _ *workflowpb.Procedure) { b.broken = true }, "status 500: {\"problem\": \"no table\"}"},
		"no endpoint": {func(_ *bench, p *workflowpb.Procedure) { p.Endpoint = "other" }, "not listed"},
		"a bad definition": {func(_ *bench, p *workflowpb.Procedure) {
			p.Definition = strings.Replace(definition, "to: told", "to: tlod", 1)
		}, "is told meant?"},
		"one that is stuck": {func(_ *bench, p *workflowpb.Procedure) {
			p.Definition = strings.Replace(definition, "set: {end: success}", "set:", 1)
		}, "a run can get stuck in change/set"},
		"no input":         {func(_ *bench, p *workflowpb.Procedure) { p.Inputs = nil }, "needs input value"},
		"a wrong input":    {func(_ *bench, p *workflowpb.Procedure) { p.Inputs["vlaue"] = "1" }, "no input \"vlaue\""},
		"a placeholder":    {func(_ *bench, p *workflowpb.Procedure) { p.Observe.Want["/value"] = "${inputs.vlaue}" }, "which is no input"},
		"a path elsewhere": {func(_ *bench, p *workflowpb.Procedure) { p.Observe.Get = "/../b" }, "no path below the thing"},
		"a damaged memo": {func(b *bench, _ *workflowpb.Procedure) {
			b.memos = []serve.Memo{{Key: b.key("/a"), Bytes: []byte("{")}}
		}, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			p := procedure("1")
			c.change(b, p)
			if d := b.look(p); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, c.want) {
				t.Errorf("it is %d: %s\nwant %q", d.Outcome, d.Reason, c.want)
			}
			if end := b.push(t.Context(), p, serve.Difference{}); end.Ending == serve.Pushed || b.did() != "" {
				t.Errorf("a push ended as %v, having done %q", end.Ending, b.did())
			}
		})
	}
}

func (b *bench) key(path string) serve.ResourceKey {
	return serve.ResourceKey("workflow:" + strings.TrimPrefix(b.URL, "http://") + "/devices" + path)
}

// TestInputLeadsNowhereElse: a value in a path cannot leave the thing.
func TestInputLeadsNowhereElse(t *testing.T) {
	b := open(t)
	p := procedure("/../../b")
	p.Definition = strings.Replace(definition, "url: /value", "'url': '/${inputs.value}'", 1)
	end := b.push(t.Context(), p, b.look(p))
	if end.Ending != serve.Failed || !strings.Contains(end.Reason, "no path below the thing") || b.did() != "page" {
		t.Errorf("it ended as %v %q, having done %q", end.Ending, end.Reason, b.did())
	}
}

// TestNothingBeginsThatIsNotKept.
func TestNothingBeginsThatIsNotKept(t *testing.T) {
	b := open(t)
	p := procedure("1")
	b.refuseMemo = serve.ErrMemoRefused
	if end := b.push(t.Context(), p, b.look(p)); end.Ending != serve.Failed || !end.Retryable || b.did() != "" {
		t.Errorf("it ended as %v %q, having done %q", end.Ending, end.Reason, b.did())
	}
}

// TestOnePushAtATime: while a run is under way the thing is pending, and another push does nothing.
func TestOnePushAtATime(t *testing.T) {
	b := open(t)
	p := procedure("1")
	arrived, leave := make(chan struct{}), make(chan struct{})
	b.enter = sync.OnceFunc(func() { close(arrived); <-leave })
	before := b.look(p)
	ended := make(chan serve.Outcome, 1)
	go func() { ended <- b.push(t.Context(), p, before) }()
	<-arrived
	if d := b.look(p); d.Outcome != serve.Pending || d.Reason != "run 1 is under way" || d.PendingEnd == "" || time.Since(d.PendingSince) > time.Minute {
		t.Errorf("under way: %d %q", d.Outcome, d.Reason)
	}
	second := serve.Push{ID: "push-9", Asset: b.intent(p), Plan: before.Plan.Digest(), Base: before.Base, Progress: func(string) {}}
	if end := b.Push(t.Context(), second, b); end.Ending != serve.Stale {
		t.Errorf("another push ended as %v %q", end.Ending, end.Reason)
	}
	close(leave)
	if end := <-ended; end.Ending != serve.Pushed || b.did() != "set 1" {
		t.Errorf("it ended as %v %q, having done %q", end.Ending, end.Reason, b.did())
	}
}

// TestPermitEnds in the middle of a call: the push is stopped, and the next one says that nobody
// knows what came of it.
func TestPermitEnds(t *testing.T) {
	b := open(t)
	p := procedure("1")
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("a person stopped it")
	leave, left := make(chan struct{}), make(chan struct{})
	b.enter = sync.OnceFunc(func() { cancel(stopped); <-leave })
	b.leave = sync.OnceFunc(func() { close(left) })
	end := b.push(ctx, p, b.look(p))
	if end.Ending != serve.Stopped || end.Reason != stopped.Error() {
		t.Fatalf("it ended as %v %q", end.Ending, end.Reason)
	}
	d := b.look(p)
	if d.Outcome != serve.Differs || !strings.Contains(changes(d), "run: run 1 at change at setting → run 1 to its end") ||
		!strings.Contains(changes(d), "run.in_doubt:  → change/setting/1") || d.Health.State != serve.Unhealthy {
		t.Fatalf("after it: %d %q, %v\n%s", d.Outcome, d.Reason, d.Health, changes(d))
	}
	close(leave) // It takes effect late.
	<-left
	if end := b.push(t.Context(), p, d); end.Ending != serve.Stale {
		t.Errorf("with the plan of before it ended as %v %q", end.Ending, end.Reason)
	}
	end = b.push(t.Context(), p, b.look(p))
	if end.Ending != serve.Failed || !strings.Contains(end.Reason, "change/setting/1 is unknown") || b.did() != "set 1, page" {
		t.Errorf("the next ended as %v %q, having done %q", end.Ending, end.Reason, b.did())
	}
}

// TestMovedBaseNeedsAPermit, and another plan is stale.
func TestMovedBaseNeedsAPermit(t *testing.T) {
	b := open(t)
	p := procedure("1")
	d := b.look(p)
	d.Base = "another"
	if end := b.push(t.Context(), p, d); end.Ending != serve.Pushed || len(b.covered) != 1 {
		t.Errorf("it ended as %v, having asked for %v", end.Ending, b.covered)
	}
	b.state["value"] = "0"
	d = b.look(p)
	b.state["value"] = "7"
	if end := b.push(t.Context(), p, d); end.Ending != serve.Stale || b.did() != "set 1" {
		t.Errorf("another plan ended as %v, having done %s", end.Ending, b.did())
	}
}

// TestSuccessIsNotBelieved: production says whether it is as wanted.
func TestSuccessIsNotBelieved(t *testing.T) {
	b := open(t)
	p := procedure("1")
	p.Observe.Want["/ports"] = "9"
	if end := b.push(t.Context(), p, b.look(p)); end.Ending != serve.Failed || !strings.Contains(end.Reason, `it has "8" at /ports, not "9"`) {
		t.Errorf("it ended as %v %q", end.Ending, end.Reason)
	}
}

// TestInterruptedForOtherContent begins anew, and says what was left.
func TestInterruptedForOtherContent(t *testing.T) {
	b := open(t)
	p := procedure("1")
	p.Definition = strings.Replace(strings.Replace(definition, "leaves: []", "leaves: [locked]", 1), "told: {end: failure}", "told: {end: failure, accepts: locked}", 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	b.enter = sync.OnceFunc(func() { cancel(errors.New("stopped")) })
	if end := b.push(ctx, p, b.look(p)); end.Ending != serve.Stopped {
		t.Fatalf("it ended as %v %q", end.Ending, end.Reason)
	}
	p.Inputs["value"] = "2"
	d := b.look(p)
	if d.Outcome != serve.Differs || !strings.Contains(changes(d), "→ run 2\n") || !strings.Contains(changes(d), "run.left: locked → ") {
		t.Fatalf("for other content: %d %q\n%s", d.Outcome, d.Reason, changes(d))
	}
	if end := b.push(t.Context(), p, d); end.Ending != serve.Pushed || b.state["value"] != "2" {
		t.Errorf("it ended as %v %q", end.Ending, end.Reason)
	}
}
