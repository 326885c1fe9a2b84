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
