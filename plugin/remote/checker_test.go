package remote

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lehr.dev/fault"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
)

// TestAPluginOfChecksIsStartedWhenItIsAsked, and again after it was killed; what it
// says is told apart from what it cannot.
func TestAPluginOfChecksIsStartedWhenItIsAsked(t *testing.T) {
	folder := t.TempDir()
	program, quiet := filepath.Join(folder, "quiet"), filepath.Join(folder, "please")
	build := exec.Command("go", "build", "-o", program, "../../examples/protection")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the example: %v\n%s", err, output)
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
	<-first.gone
	says(c, pluginpb.JudgeResponse_JUDGEMENT_BLOCKING, "we sleep")
	last := c.living.process
	c.Close()
	if <-last.gone; last == first {
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
	build := exec.Command("go", "build", "-o", program, "../../examples/selection")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the example: %v\n%s", err, output)
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
