package tasks

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	taskpb "lehr.dev/gen/lehr/task/v1"
	"lehr.dev/sdk/serve"
)

// items that ran, sorted.
func (m *machine) items() string {
	var items []string
	for _, line := range m.ran() {
		_, item, _ := strings.Cut(line, " ")
		items = append(items, item)
	}
	slices.Sort(items)
	return strings.Join(items, " ")
}

func TestItemsRunOnce(t *testing.T) {
	m := newMachine(t)
	m.task.Items, m.task.AtOnce = []string{"a", "b", "c", "it's $x"}, 2
	m.is(serve.Differs, "0 of 4 items are done, 4 are to be run", "items:  → 4 of 4")
	m.mustPush()
	if d := m.is(serve.InSync); !strings.Contains(d.Health.Reason, "4 of 4 items ended well") {
		t.Errorf("health %+v", d.Health)
	}
	if got := m.items(); got != "a b c it's $x" {
		t.Errorf("it ran for %s", got)
	}
	m.task.Items = []string{"d", "a", "c"}
	m.is(serve.Differs, "2 of 3 items are done, 1 are to be run")
	m.mustPush()
	m.task.Items = []string{"a"}
	m.is(serve.InSync)
	m.task.Rerun = &taskpb.Rerun{Id: "1", Reason: "all again"}
	m.mustPush()
	m.task.Rerun = nil
	m.is(serve.InSync)
	if got := m.items(); got != "a a b c d it's $x" {
		t.Errorf("it ran for %s", got)
	}
}

// No more than at_once items are worked on, and no fewer.
func TestItemsAtOnce(t *testing.T) {
	m := newMachine(t)
	folder := t.TempDir()
	// Each waits until three are at work; a fourth would be seen.
	m.task.Env["THEN"] = "cd " + folder + "; touch $LEHR_ITEM; while [ $(ls | wc -l) -lt 3 ] && [ ! -e ../met ]; do sleep 0.02; done; touch ../met; [ $(ls | wc -l) -le 3 ]; code=$?; rm $LEHR_ITEM; exit $code"
	m.task.Items, m.task.AtOnce = []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}, 3
	m.mustPush()
	m.is(serve.InSync)
	m.ranTimes(9)
}

func TestItemsThatFail(t *testing.T) {
	m := newMachine(t)
	good := t.TempDir() + "/good"
	m.task.RetryableExitCodes = []int32{75}
	m.task.Env["THEN"] = `[ -e ` + good + ` ] && exit 0; case $LEHR_ITEM in b) echo no b >&2; exit 3;; c) exit 75;; esac`
	m.task.Items = []string{"a", "b", "c", "d"}
	outcome := m.push(t.Context())
	if outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, `2 of 4 items ended well; 2 did not: "b" (failed, code 3) no b; "c" (failed, code 75)`) {
		t.Errorf("push ended %+v", outcome)
	}
	m.is(serve.Pending, "2 of 4 items")
	if err := os.WriteFile(good, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.ahead = 10 * time.Second
	m.is(serve.Differs, "1 may not be repeated unasked")
	m.push(t.Context())
	m.is(serve.Unknown, `3 of 4 items are done; 1 may not be repeated unasked: "b" ended with exit code 3`, "only_unfinished")
	m.task.Rerun = &taskpb.Rerun{Id: "1", Reason: "b is there now", OnlyUnfinished: true}
	m.is(serve.Differs, "3 of 4 items are done, 1 are to be run")
	m.mustPush()
	m.task.Rerun = nil
	m.is(serve.InSync)
	if got := m.items(); got != "a b b c c d" {
		t.Errorf("it ran for %s", got)
	}
}

// What fails for ten items is not tried with the others.
func TestItemsThatAllFail(t *testing.T) {
	m := newMachine(t)
	m.task.Env["THEN"] = "exit 1"
	for i := range 50 {
		m.task.Items = append(m.task.Items, fmt.Sprint(i))
	}
	if outcome := m.push(t.Context()); !strings.Contains(outcome.Reason, "40 were not begun after that") {
		t.Errorf("push ended %+v", outcome)
	}
	m.ranTimes(10)
}

// A run that is killed in the middle goes on where it was: what was done is not repeated, and
// what was under way only where it may be.
func TestItemsGoOnAfterAKill(t *testing.T) {
	for _, repeatable := range []bool{false, true} {
		t.Run(fmt.Sprint(repeatable), func(t *testing.T) {
			m := newMachine(t)
			file, good := t.TempDir()+"/pid", t.TempDir()+"/good"
			m.task.Repeatable = repeatable
			m.task.Env["THEN"] = "[ $LEHR_ITEM != c ] || [ -e " + good + " ] && exit 0; echo $$ >" + file + "; exec sleep 1000"
			m.task.Items = []string{"a", "b", "c", "d"}
			m.begin()
			var pid int
			m.until("the third item", func() bool {
				text, _ := os.ReadFile(file)
				_, err := fmt.Sscan(string(text), &pid)
				return err == nil
			})
			if err := os.WriteFile(good, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(m.keeper(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			m.until("the keeper to be gone", func() bool { return !m.look().state.IsLive && syscall.Kill(pid, 0) == syscall.ESRCH })
			m.ahead = time.Minute
			if repeatable {
				m.is(serve.Differs, "2 of 4 items are done, 2 are to be run")
				m.mustPush()
				m.is(serve.InSync)
				if got := m.items(); got != "a b c c d" {
					t.Errorf("it ran for %s", got)
				}
				return
			}
			m.is(serve.Differs, "2 of 4 items are done, 1 are to be run, 1 may not be repeated unasked")
			m.push(t.Context())
			m.is(serve.Unknown, `"c" was cut off`)
			if got := m.items(); got != "a b c d" {
				t.Errorf("it ran for %s", got)
			}
		})
	}
}

// Without the list of what is done, nothing is repeated unasked.
func TestItemsWhoseListIsLost(t *testing.T) {
	m := newMachine(t)
	m.task.Items = []string{"a", "b"}
	m.mustPush()
	m.loseRecords()
	m.is(serve.InSync) // The memo has that all are done.
	m.task.Items = []string{"a", "b", "c"}
	m.is(serve.Unknown, "the list of those that are done is lost", "set rerun with a reason")
	m.task.Rerun = &taskpb.Rerun{Id: "1", Reason: "all again", OnlyUnfinished: true}
	m.is(serve.Unknown, "without only_unfinished")
	m.task.Rerun.OnlyUnfinished = false
	m.mustPush()
	m.is(serve.InSync)
	if got := m.items(); got != "a a b b c" {
		t.Errorf("it ran for %s", got)
	}
}
