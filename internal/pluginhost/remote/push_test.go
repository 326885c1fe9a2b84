package remote

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// troubled starts the folder plugin with one job of the version, and returns
// the push that would create it.
func troubled(t *testing.T, version string) (child *Child, dir string, push plugin.Push) {
	t.Helper()
	contents := newIntents()
	payload := job(1)
	payload.Version = version
	contents.put("job/1", payload)
	child, dir = folderChild(t, Options{Contents: contents})
	return child, dir, admitted(diffed(t, child, "job/1")["job/1"])
}

// notes reads the times at which a plugin noted something in its folder.
func notes(t testing.TB, dir, what string) (processes []int, times []time.Time) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == what {
			process, _ := strconv.Atoi(fields[1])
			at, _ := strconv.ParseInt(fields[2], 10, 64)
			processes, times = append(processes, process), append(times, time.Unix(0, at))
		}
	}
	return processes, times
}

func TestPushOfAnotherPlanIsStale(t *testing.T) {
	t.Parallel()
	child, dir, push := troubled(t, "1")
	push.Plan = intent.Sum("another plan")
	if result := child.Push(t.Context(), push); result.Ending != plugin.Stale {
		t.Errorf("%+v", result)
	}
	if _, err := os.Stat(filepath.Join(dir, "shop_job-1")); err == nil {
		t.Error("a stale push changed production")
	}
}

func TestPushIsIdempotent(t *testing.T) {
	t.Parallel()
	child, _, push := troubled(t, "1")
	for i := range 2 {
		if result := child.Push(t.Context(), push); result.Ending != plugin.Pushed {
			t.Errorf("push %d: %+v", i, result)
		}
	}
}

func TestMovedBaseNeedsAPermitThatNamesIt(t *testing.T) {
	t.Parallel()
	for _, refused := range []error{nil, errors.New("the lease was lost")} {
		child, dir, push := troubled(t, "1")
		push.Base = "what was there before"
		var asked atomic.Pointer[string]
		push.Permit = func(_ context.Context, base string) error {
			if base == push.Base {
				return nil // Before the start, when the plugin had not asked yet.
			}
			asked.Store(&base)
			return refused
		}
		result := child.Push(t.Context(), push)
		if base := asked.Load(); base == nil || *base != "" {
			t.Errorf("permit asked for base %v, want the empty one", base)
		}
		_, err := os.Stat(filepath.Join(dir, "shop_job-1"))
		switch {
		case refused == nil && (result.Ending != plugin.Pushed || err != nil):
			t.Errorf("permitted: %+v, %v", result, err)
		case refused != nil && (result.Ending != plugin.Stopped || err == nil || !strings.Contains(result.Reason, "the lease was lost")):
			t.Errorf("refused: %+v, %v", result, err)
		}
	}
}

func TestRefusedPermitStopsEffects(t *testing.T) {
	t.Parallel()
	child, dir, push := troubled(t, "apply-loop")
	var refusedAt atomic.Pointer[time.Time]
	push.Permit = func(context.Context, string) error {
		if !hasEffect(t, dir) {
			return nil // On a busy machine it may be asked before the start.
		}
		now := time.Now()
		refusedAt.Store(&now)
		return errors.New("a stop is on")
	}
	result := child.Push(t.Context(), push)
	if result.Ending != plugin.Stopped || !strings.Contains(result.Reason, "a stop is on") || result.Gone != nil {
		t.Errorf("%+v", result)
	}
	_, effects := notes(t, dir, "effect")
	_, stops := notes(t, dir, "stopped")
	if len(effects) == 0 || len(stops) != 1 || stops[0].Before(effects[len(effects)-1]) {
		t.Errorf("%d effects, %d stops", len(effects), len(stops))
	}
	if late := stops[0].Sub(*refusedAt.Load()); late >= plugin.PermitPeriod {
		t.Errorf("effects stopped %s after the refusal", late)
	}
}

// hasEffect reports whether the plugin has begun its first effect.
func hasEffect(t *testing.T, dir string) bool {
	t.Helper()
	processes, _ := notes(t, dir, "effect")
	return len(processes) > 0
}

func TestPermitsThatGoOnKeepAPushGoing(t *testing.T) {
	t.Parallel()
	child, dir, push := troubled(t, "apply-loop")
	ctx, cancel := context.WithCancel(t.Context())
	began := time.Now()
	push.Permit = func(context.Context, string) error {
		// Longer than one permit holds.
		if time.Since(began) > plugin.PermitPeriod+500*time.Millisecond {
			cancel()
		}
		return nil
	}
	result := child.Push(ctx, push)
	if result.Ending != plugin.InDoubt || result.Gone == nil {
		t.Errorf("a push that lehr abandons is in doubt until its process is gone: %+v", result)
	}
	eventually(t, "the plugin is told to stop", func() bool {
		_, stops := notes(t, dir, "stopped")
		return len(stops) == 1
	})
	_, effects := notes(t, dir, "effect")
	if lasted := effects[len(effects)-1].Sub(began); lasted < plugin.PermitPeriod {
		t.Errorf("the push lasted only %s", lasted)
	}
}

func TestPermitThatRunsOutStopsEffects(t *testing.T) {
	t.Parallel()
	child, dir, push := troubled(t, "apply-loop")
	var granted atomic.Pointer[time.Time]
	push.Permit = func(ctx context.Context, _ string) error {
		if !hasEffect(t, dir) {
			now := time.Now()
			granted.Store(&now)
			return nil // On a busy machine it may be asked before the start.
		}
		<-ctx.Done()
		return ctx.Err()
	}
	began := time.Now()
	granted.Store(&began)
	result := child.Push(t.Context(), push)
	if result.Ending != plugin.Stopped || !strings.Contains(result.Reason, "ran out") {
		t.Errorf("%+v", result)
	}
	_, effects := notes(t, dir, "effect")
	if len(effects) == 0 {
		t.Fatal("the push had no effect")
	}
	if late := effects[len(effects)-1].Sub(*granted.Load()); late > plugin.PermitPeriod {
		t.Errorf("an effect began %s after the last permit, longer than a permit holds", late)
	}
}

// A push whose owner does not answer whether it may start is given up: nothing waits for
// ever on a store that hangs.
func TestPushWithoutAnAnswerDoesNotStart(t *testing.T) {
	t.Parallel()
	child, dir, push := troubled(t, "1")
	push.Checked = time.Time{} // So that it is asked before the start.
	push.Permit = func(ctx context.Context, _ string) error {
		<-ctx.Done()
		return ctx.Err()
	}
	result := child.Push(t.Context(), push)
	if result.Ending != plugin.Failed || !result.Retryable || !strings.Contains(result.Reason, "was not known within") {
		t.Errorf("%+v", result)
	}
	if _, err := os.Stat(filepath.Join(dir, "shop_job-1")); err == nil {
		t.Error("a push that was not started changed production")
	}
}

func TestPushThatDoesNotStopEndsItsProcess(t *testing.T) {
	t.Parallel()
	child, dir, push := troubled(t, "apply-deaf")
	push.Permit = func(context.Context, string) error {
		if !hasEffect(t, dir) {
			return nil // Before that it may stop as well as any, or is asked before the start.
		}
		return errors.New("a stop is on")
	}
	result := child.Push(t.Context(), push)
	if result.Ending != plugin.InDoubt || result.Gone == nil {
		t.Fatalf("%+v", result)
	}
	closes(t, "the deaf process is gone", result.Gone)
	processes, _ := notes(t, dir, "effect")
	if alive(processes[0]) {
		t.Errorf("process %d is said to be gone, and lives", processes[0])
	}
}

func TestCrashInPush(t *testing.T) {
	t.Parallel()
	child, dir, push := troubled(t, "apply-crash")
	result := child.Push(t.Context(), push)
	if result.Ending != plugin.InDoubt || result.Gone == nil {
		t.Fatalf("%+v", result)
	}
	closes(t, "the crashed process is gone", result.Gone)
	processes, _ := notes(t, dir, "effect")
	if len(processes) != 1 || alive(processes[0]) {
		t.Errorf("effects by %v, want one process, gone", processes)
	}
	eventually(t, "the plugin serves again", func() bool {
		_, err := child.Describe()
		return err == nil
	})
}

// A push whose stream broke is in doubt for as long as its process lives, so
// the process is ended.
func TestBrokenStreamEndsItsProcess(t *testing.T) {
	t.Parallel()
	contents := newIntents()
	ids := jobs(contents, 1)
	child := started(t, Options{Run: self(t, "liar"), Contents: contents})
	result := child.Push(t.Context(), admitted(intent.Difference{Asset: ids[0], Incarnation: head}))
	if result.Ending != plugin.InDoubt || !strings.Contains(result.Reason, "dropped it") {
		t.Fatalf("%+v", result)
	}
	closes(t, "the process is gone", result.Gone)
	eventually(t, "the plugin serves again", func() bool {
		_, err := child.Describe()
		return err == nil
	})
}

func TestPanicInPushIsAFailure(t *testing.T) {
	t.Parallel()
	child, _, push := troubled(t, "apply-panic")
	result := child.Push(t.Context(), push)
	if result.Ending != plugin.Failed || !strings.Contains(result.Reason, "dropped it") {
		t.Errorf("%+v", result)
	}
}

func TestKnownTokenIsHandedOn(t *testing.T) {
	t.Parallel()
	child, _, push := troubled(t, "apply-outranked")
	push.Token = 7
	result := child.Push(t.Context(), push)
	if result.Ending != plugin.Failed || result.KnownToken != 57 || !strings.Contains(result.Reason, "token 57") {
		t.Errorf("%+v", result)
	}
}

// TestABusyTargetSaysForHowLong: of a push and of a look; and what spans are below is
// handed on.
func TestABusyTargetSaysForHowLong(t *testing.T) {
	t.Parallel()
	child, _, push := troubled(t, "apply-busy")
	push.Traceparent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	result := child.Push(t.Context(), push)
	if result.Ending != plugin.Failed || !result.Retryable || result.RetryAfter != 1500*time.Millisecond || !strings.Contains(result.Reason, push.Traceparent) {
		t.Errorf("%+v", result)
	}
	contents := newIntents()
	payload := job(1)
	payload.Version = "read-busy"
	contents.put("job/1", payload)
	child, _ = folderChild(t, Options{Contents: contents})
	if d := diffed(t, child, "job/1")["job/1"]; d.Outcome != intent.Unknown || d.RetryAfter != 42*time.Second || !strings.Contains(d.Reason, "429") {
		t.Errorf("%+v", d)
	}
}

func TestProgressIsHandedOn(t *testing.T) {
	t.Parallel()
	child, _, push := troubled(t, "apply-progress")
	var text, logged string
	push.Progress = func(words string) { text = words }
	push.Log = func(words string) { logged = words }
	if result := child.Push(t.Context(), push); result.Ending != plugin.Pushed {
		t.Fatalf("%+v", result)
	}
	if text != `half\x1b way` {
		t.Errorf("progress %q", text)
	}
	if logged != "first\n"+`half\x1b way` {
		t.Errorf("logged is %q", logged)
	}
}

func TestChatterIsThinnedOut(t *testing.T) {
	t.Parallel()
	child, _, push := troubled(t, "apply-chatter")
	var told, logged []string
	push.Progress = func(words string) { told = append(told, words) }
	push.Log = func(words string) { logged = append(logged, words) }
	if result := child.Push(t.Context(), push); result.Ending != plugin.Pushed {
		t.Fatalf("%+v", result)
	}
	if len(told) > 10 || len(told) < 2 || told[len(told)-1] != "step 200" {
		t.Errorf("told %d times in a second: %q", len(told), told)
	}
	if len(logged) != 200 || logged[0] != "step 1" || logged[199] != "step 200" {
		t.Errorf("%d texts are logged of 200: %q", len(logged), logged)
	}
}

func TestPushWhileDownIsNotInDoubt(t *testing.T) {
	t.Parallel()
	child := start(t, Options{Run: self(t, "exits")})
	result := child.Push(t.Context(), plugin.Push{ID: "1", Asset: "job/1", Incarnation: head})
	if result.Ending != plugin.Failed || !result.Retryable {
		t.Errorf("%+v", result)
	}
}

// Who ends a link knows of the pushes that are open on it, however fast they leave it.
func TestEndOfALinkCountsItsPushes(t *testing.T) {
	t.Parallel()
	for range 2000 {
		link := newPushLink(&session{answers: newAnswers(newIntents())})
		open := &openPush{push: plugin.Push{ID: "p", Asset: "job/0", Incarnation: head}}
		if err := link.begin(open); err != nil {
			t.Fatal(err)
		}
		left := make(chan struct{})
		go func() {
			defer close(left)
			<-link.dead
			link.finish(open)
		}()
		if !link.end(errors.New("the stream broke")) {
			t.Fatal("a push was open, and the link's end knows of none")
		}
		<-left
		if link.end(errors.New("again")) {
			t.Fatal("an empty link is said to be busy")
		}
	}
}
