package remote

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/test/building"
)

// TestAPluginOfChecksIsStartedWhenItIsAsked, and again after it was killed; what it
// says is told apart from what it cannot.
func TestAPluginOfChecksIsStartedWhenItIsAsked(t *testing.T) {
	folder := t.TempDir()
	program, quiet := filepath.Join(folder, "quiet"), filepath.Join(folder, "please")
	if err := (building.Program{Of: "../../../examples/protection"}).At(program); err != nil {
		t.Fatal(err)
	}
	checker := func(run ...string) *Checker {
		c := NewChecker(Options{Run: run, Log: slog.New(slog.DiscardHandler)})
		t.Cleanup(c.Close)
		return c
	}
	asked := &pluginpb.JudgeRequest{Asset: "web", Content: "c", PlanDigest: "p", Phase: "before"}
	says := func(c *Checker, want pluginpb.JudgeResponse_Judgement, reason string) {
		t.Helper()
		said, err := c.Judge(t.Context(), asked)
		if err != nil || said.Judgement != want || !strings.Contains(said.Reason, reason) {
			t.Fatalf("it says %v: %v", said, err)
		}
	}
	c := checker(program, quiet)
	if c.living != nil {
		t.Error("it was started before it was asked")
	}
	says(c, pluginpb.JudgeResponse_JUDGEMENT_PASS, "nobody wants quiet")
	if err := os.WriteFile(quiet, []byte("we sleep\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says(c, pluginpb.JudgeResponse_JUDGEMENT_BLOCKING, "also of web: we sleep")
	first := c.living.process
	_ = syscall.Kill(first.pid, syscall.SIGKILL)
	<-first.terminated
	says(c, pluginpb.JudgeResponse_JUDGEMENT_BLOCKING, "we sleep")
	last := c.living.process
	c.Close()
	if <-last.terminated; last == first {
		t.Error("it was not started again")
	}
	if _, err := c.Judge(t.Context(), asked); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after its end: %v", err)
	}
	for name, wrong := range map[string]struct {
		run  []string
		kind fault.Kind
		says string
	}{
		"no argument": {[]string{program}, fault.Invalid, "without the name of a file"},
		"no file":     {[]string{program, folder}, fault.Unavailable, "is a directory"},
		"no program":  {[]string{filepath.Join(folder, "none")}, fault.Invalid, "looking for the plugin program"},
		"no plugin":   {[]string{"/bin/true"}, fault.Unavailable, "ended while starting"},
	} {
		if _, err := checker(wrong.run...).Judge(t.Context(), asked); !fault.Is(err, wrong.kind) || !strings.Contains(err.Error(), wrong.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAPluginThatSelects says which go on, from what it is told; what is no answer is an
// error.
func TestAPluginThatSelects(t *testing.T) {
	folder := t.TempDir()
	program, users := filepath.Join(folder, "quietest"), filepath.Join(folder, "users")
	if err := (building.Program{Of: "../../../examples/selection"}).At(program); err != nil {
		t.Fatal(err)
	}
	c := NewChecker(Options{Run: []string{program, users}, Log: slog.New(slog.DiscardHandler)})
	defer c.Close()
	asked := &pluginpb.SelectRequest{Stage: "rest", Run: 1, Targets: []*pluginpb.SelectedTarget{
		{Asset: "web/a", Scopes: map[string]string{"cluster": "a"}}, {Asset: "web/b", Scopes: map[string]string{"cluster": "b"}},
	}}
	if _, err := c.Select(t.Context(), asked); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no such file") {
		t.Fatalf("without its file: %v", err)
	}
	if err := os.WriteFile(users, []byte("a 100\nb 20\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := c.Select(t.Context(), asked)
	if err != nil || len(said.Assets) != 1 || said.Assets[0] != "web/b" {
		t.Fatalf("it selects %v: %v", said, err)
	}
	asked.Targets[1].Selected = true
	if said, err = c.Select(t.Context(), asked); err != nil || len(said.Assets) != 0 || said.Reason != "cluster b is under way" {
		t.Errorf("with b under way: %v: %v", said, err)
	}
	asked.Targets[1].InSync, asked.Targets[1].Well = true, true
	if said, err = c.Select(t.Context(), asked); err != nil || len(said.Assets) != 1 || said.Assets[0] != "web/a" {
		t.Errorf("with b done: %v: %v", said, err)
	}
	if _, err := c.Judge(t.Context(), &pluginpb.JudgeRequest{Asset: "web", Content: "c", PlanDigest: "p", Phase: "before"}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "judges no pushes") {
		t.Errorf("asked to judge: %v", err)
	}
}

// TestAPluginThatMeasures gives samples of the assets and the time that it is asked about;
// what is no answer is an error.
func TestAPluginThatMeasures(t *testing.T) {
	folder := t.TempDir()
	program, log := filepath.Join(folder, "slowest"), filepath.Join(folder, "log")
	if err := (building.Program{Of: "../../../examples/measurement"}).At(program); err != nil {
		t.Fatal(err)
	}
	c := NewChecker(Options{Run: []string{program, log}, Log: slog.New(slog.DiscardHandler)})
	defer c.Close()
	start := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	asked := &pluginpb.MeasureRequest{
		Validation: "web", Metric: "slowest", Partition: "shop", Side: "experiment", Assets: []string{"web/a", "web/b"}, Most: 5000,
		Start: timestamppb.New(start), End: timestamppb.New(start.Add(10 * time.Minute)), Step: durationpb.New(15 * time.Second),
	}
	if _, err := c.Measure(t.Context(), asked); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no such file") {
		t.Fatalf("without its file: %v", err)
	}
	text := "2026-11-21T07:59:59Z web/a 900\n2026-11-21T08:00:02Z web/a 35\n2026-11-21T08:00:14Z web/b 40\n2026-11-21T08:00:14Z web/c 900\n2026-11-21T08:10:00Z web/a 7\n2026-11-21T08:10:01Z web/a 900\n"
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := c.Measure(t.Context(), asked)
	if err != nil || len(said.Samples) != 2 || said.Samples[0].Value != 40 || !said.Samples[0].At.AsTime().Equal(start) || said.Samples[1].Value != 7 {
		t.Fatalf("it measures %v: %v", said, err)
	}
	if _, err := c.Select(t.Context(), &pluginpb.SelectRequest{Stage: "rest", Targets: []*pluginpb.SelectedTarget{{Asset: "web/a"}}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("asked to select: %v", err)
	}
	quiet := filepath.Join(folder, "quiet")
	if err := (building.Program{Of: "../../../examples/protection"}).At(quiet); err != nil {
		t.Fatal(err)
	}
	judges := NewChecker(Options{Run: []string{quiet, log}, Log: slog.New(slog.DiscardHandler)})
	defer judges.Close()
	if _, err := judges.Measure(t.Context(), asked); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "it measures nothing") {
		t.Errorf("one that only judges: %v", err)
	}
	for says, wrong := range map[string]*pluginpb.MeasureResponse{
		"for the side control":        {Metric: "slowest", Side: "control"},
		"the metric errors":           {Metric: "errors", Side: "experiment"},
		"sample 1 has no time":        {Metric: "slowest", Side: "experiment", Samples: []*pluginpb.MeasuredSample{{Value: 1}}},
		"it gave 5001 samples":        {Metric: "slowest", Side: "experiment", Samples: slices.Repeat([]*pluginpb.MeasuredSample{{At: asked.Start}}, 5001)},
		"2026-11-21T07:59:59Z, which": {Metric: "slowest", Side: "experiment", Samples: []*pluginpb.MeasuredSample{{At: timestamppb.New(start.Add(-time.Second))}}},
	} {
		if err := CheckMeasures(asked, wrong); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
