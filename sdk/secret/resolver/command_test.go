package resolver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
)

// TestACommandThatHangs is killed with all that it started, and delays a look only for
// a short while.
func TestACommandThatHangs(t *testing.T) {
	d := newDesk(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	d.write("hangs.sh", fmt.Sprintf("sh -c 'echo $$ >%s; exec sleep 600' & sleep 600", d.path("child")))
	e := listEntry{Command: "hangs", Run: []string{"/bin/sh", d.path("hangs.sh")}}
	var pid int
	for pid == 0 { // On a busy machine it may have been killed before it wrote.
		_, err := run(ctx, e)
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "did not end") {
			t.Fatalf("it hangs: %v", err)
		}
		content, _ := os.ReadFile(d.path("child"))
		if _, err := fmt.Sscan(string(content), &pid); err != nil {
			ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
		}
	}
	for deadline := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
		state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if bytes.Contains(state, []byte(") Z ")) {
			break // Nobody reaps it here.
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d, which the command started, lives on", pid)
		}
	}
}

// TestACommandKeepsNothingOfThePlugin: no input and no variable but those of the list.
func TestACommandKeepsNothingOfThePlugin(t *testing.T) {
	d := newDesk(t)
	t.Setenv("LEHR_TEST_PASSWORD", "hunter2")
	r := d.permit("command: env, run: " + d.program("env.sh", `env | cut -d= -f1 | grep -v -e ^PWD -e ^_ -e ^SHLVL | sort | tr '\n' ' '; cat; ps -o pgid= -p $$ >`+d.path("group")) + ", variables: {B: b, HOME: /}")
	if got := text(t, r, look, ofCommand("env")); got != "B HOME PATH " {
		t.Errorf("its variables are %q", got)
	}
}
