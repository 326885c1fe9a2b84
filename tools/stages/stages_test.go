package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestStagesRunBesideEachOther: two that compute, one that fills and one that waits run
// at a time, each after those that it needs, and beside one that runs alone none.
func TestStagesRunBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mutex sync.Mutex
		got := map[string][2]time.Duration{}
		run := func(_ context.Context, s stage) (cost, error) {
			start := time.Since(began)
			time.Sleep(time.Minute)
			mutex.Lock()
			defer mutex.Unlock()
			got[s.Name] = [2]time.Duration{start, time.Since(began)}
			return cost{Stage: s.Name, Clock: time.Minute}, nil
		}
		costs, failed := runAll(t.Context(), []stage{
			{Name: "build", Lane: computes},
			{Name: "alone", After: []string{"build"}, Lane: waits, Alone: true},
			{Name: "w1", After: []string{"build"}, Lane: waits},
			{Name: "w2", After: []string{"build"}, Lane: waits},
			{Name: "w3", After: []string{"build"}, Lane: waits},
			{Name: "c1", After: []string{"build"}, Lane: computes},
			{Name: "c2", After: []string{"build"}, Lane: computes},
			{Name: "c3", After: []string{"build"}, Lane: computes},
			{Name: "f1", After: []string{"build"}, Lane: fills},
			{Name: "last", After: []string{"w3", "c2"}, Lane: computes},
		}, run)
		minutes := func(from, to time.Duration) [2]time.Duration {
			return [2]time.Duration{from * time.Minute, to * time.Minute}
		}
		want := map[string][2]time.Duration{
			"build": minutes(0, 1), "alone": minutes(1, 2), "w1": minutes(2, 3), "w2": minutes(3, 4), "c1": minutes(2, 3), "f1": minutes(2, 3),
			"w3": minutes(4, 5), "c2": minutes(2, 3), "c3": minutes(3, 4), "last": minutes(5, 6),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("when they ran (-want +got):\n%s", diff)
		}
		if len(costs) != 10 || len(failed) > 0 {
			t.Errorf("%d costs, %v failed; want 10 and none", len(costs), failed)
		}
	})
}

// TestFailureStopsOnlyWhatNeedsIt: a run tells of all failures, and what comes after one
// counts as failed.
func TestFailureStopsOnlyWhatNeedsIt(t *testing.T) {
	run := func(_ context.Context, s stage) (cost, error) {
		if s.Name == "bad" {
			return cost{Stage: s.Name}, errors.New("it fails")
		}
		return cost{Stage: s.Name}, nil
	}
	costs, failed := runAll(t.Context(), []stage{
		{Name: "bad", Lane: computes}, {Name: "needs it", After: []string{"bad"}, Lane: computes},
		{Name: "needs that", After: []string{"needs it"}, Lane: waits}, {Name: "alone", Lane: computes},
	}, run)
	if want := []string{"bad", "needs it", "needs that"}; !slices.Equal(failed, want) {
		t.Errorf("failed: %q, want %q", failed, want)
	}
	if len(costs) != 2 {
		t.Errorf("%d stages ran, want 2: %v", len(costs), costs)
	}
}

// TestShellMeasuresAndKeepsItsOutput: with real processes.
func TestShellMeasuresAndKeepsItsOutput(t *testing.T) {
	logs := t.TempDir()
	run := runShell(logs, temporary{})
	c, err := run(t.Context(), stage{Name: "computes", Lane: fills, Script: `echo priority $(nice); sha256sum </dev/zero & sleep 0.5; kill $!; wait $! || true`})
	if err != nil || c.Clock < 500*time.Millisecond || c.Computing == 0 {
		t.Errorf("it cost %+v, %v; want at least half a second, and some computing", c, err)
	}
	// The test may have been given a lower priority itself.
	text, err := os.ReadFile(filepath.Join(logs, "computes.log"))
	if err != nil || !strings.HasPrefix(string(text), "priority ") || strings.TrimSpace(string(text)) == "priority 0" {
		t.Errorf("its log is %q, %v; want the priority that the stage has", text, err)
	}
	if _, err := run(t.Context(), stage{Name: "fails", Lane: computes, Script: `false; echo not reached`}); err == nil {
		t.Error("a command that fails did not fail its stage")
	}
	if text, _ := os.ReadFile(filepath.Join(logs, "fails.log")); len(text) > 0 {
		t.Errorf("it went on after a failure: %q", text)
	}
}

// TestTimedStagesHavePriority: stages that real clocks judge keep the priority of the caller, which
// needs no privilege, and each other lane has a notably lower one. A stage says nothing of it.
func TestTimedStagesHavePriority(t *testing.T) {
	if waits.nice() != 0 {
		t.Errorf("what real clocks judge has nice %d, want that of the caller", waits.nice())
	}
	const least = 5 // Of two processes that compete, the other then gets a quarter.
	for l := range lanes {
		if l != waits && l.nice() < waits.nice()+least {
			t.Errorf("the lane %s has nice %d, want at least %d more than what real clocks judge", l, l.nice(), least)
		}
	}
	output, err := exec.Command("nice").Output()
	if err != nil {
		t.Fatal(err)
	}
	own, err := strconv.Atoi(strings.TrimSpace(string(output))) // A stage runs this test, too.
	if err != nil {
		t.Fatal(err)
	}
	for l := range lanes {
		logs := t.TempDir()
		if _, err := runShell(logs, temporary{})(t.Context(), stage{Name: "says", Lane: l, Script: "nice"}); err != nil {
			t.Fatal(err)
		}
		said, err := os.ReadFile(filepath.Join(logs, "says.log"))
		const lowest = 19
		if want := strconv.Itoa(min(own+l.nice(), lowest)) + "\n"; err != nil || string(said) != want {
			t.Errorf("a stage of the lane %s says %q, %v; want %q", l, said, err, want)
		}
	}
}

// TestEnvironmentOfStages: what the caller set counts.
func TestEnvironmentOfStages(t *testing.T) {
	name, value, _ := strings.Cut(environment[0], "=")
	run := func() string {
		t.Helper()
		logs := t.TempDir()
		if _, err := runShell(logs, temporary{})(t.Context(), stage{Name: "says", Lane: computes, Script: "echo $" + name}); err != nil {
			t.Fatal(err)
		}
		said, err := os.ReadFile(filepath.Join(logs, "says.log"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(said))
	}
	t.Setenv(name, "100")
	if said := run(); said != "100" {
		t.Errorf("%s is %q, and was set to 100", name, said)
	}
	if err := os.Unsetenv(name); err != nil { // Setenv puts it back.
		t.Fatal(err)
	}
	if said := run(); said != value {
		t.Errorf("%s is %q, want %q where nobody set it", name, said, value)
	}
}

// TestGrowthIsSeen: a stage that computes notably more than the page says is marked.
func TestGrowthIsSeen(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("# Before\n\n"+tableBegins+"\n"+tableEnds+"\n\nAfter.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeDocs(page, []cost{{"unit", 90 * time.Second, 100 * time.Second}, {"lint", time.Second, time.Second}}); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(page); !strings.HasPrefix(string(text), "# Before\n") || !strings.HasSuffix(string(text), "\n\nAfter.\n") {
		t.Errorf("the rest of the page was not kept:\n%s", text)
	}
	known, err := readDocs(page)
	if err != nil {
		t.Fatal(err)
	}
	now := []cost{{"unit", 90 * time.Second, 150 * time.Second}, {"lint", time.Second, 9 * time.Second}, {"new", time.Second, time.Second}}
	text := render(now, known)
	for row, want := range map[string]bool{"unit": true, "lint": false, "new": false} {
		i := strings.Index(text, row)
		line, _, _ := strings.Cut(text[i:], "\n")
		if got := strings.Contains(line, "GREW"); got != want {
			t.Errorf("%q is marked as grown: %t, want %t", line, got, want)
		}
	}
	path := filepath.Join(t.TempDir(), "cost.tsv")
	if err := writeCosts(path, now); err != nil {
		t.Fatal(err)
	}
	read, err := readCosts(path)
	if diff := cmp.Diff(now, read); err != nil || diff != "" {
		t.Errorf("costs that were written and read (-want +got):\n%s%v", diff, err)
	}
}

// TestTableIsWhole: each package is tested by exactly one stage, and the page has
// just these stages.
func TestTableIsWhole(t *testing.T) {
	list := exec.Command("go", "list", "./...")
	list.Dir = "../.."
	output, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string][]string{}
	for _, s := range table {
		for _, needed := range s.After {
			if i := slices.IndexFunc(table, func(other stage) bool { return other.Name == needed }); i < 0 {
				t.Errorf("%s comes after %q, which is no stage", s.Name, needed)
			}
		}
		if len(s.Packages) == 0 {
			continue
		}
		list := exec.Command("bash", "-c", "go list "+s.Packages)
		list.Dir = "../.."
		output, err := list.Output()
		if err != nil {
			t.Fatalf("the packages of %s: %v", s.Name, err)
		}
		for name := range strings.FieldsSeq(string(output)) {
			tested[name] = append(tested[name], s.Name)
		}
	}
	for name := range strings.FieldsSeq(string(output)) {
		if len(tested[name]) != 1 {
			t.Errorf("%s is tested by the stages %q, want one", name, tested[name])
		}
	}
	known, err := readDocs("../../" + docsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range table {
		if _, ok := known[s.Name]; !ok || s.Purpose == "" {
			t.Errorf("%s does not say what the stage %s costs, or what it is for: make test-cost WRITE=1", docsFile, s.Name)
		}
	}
	if len(known) != len(table)+1 {
		t.Errorf("%s has %d stages, the table has %d", docsFile, len(known), len(table))
	}
}

// TestDigest: of a log longer than what is kept, the failures are told.
func TestDigest(t *testing.T) {
	log := strings.Repeat("a line of no interest\n", 1000) +
		strings.Repeat("=== RUN\n", digestBefore-1) + "    one_test.go:2: what it logged before, with -v\n" +
		"--- FAIL: TestOne (0.01s)\n    one_test.go:3: it is 1\n" + strings.Repeat("    more\n", 20) +
		"ok  \tlehr.dev/other\t1s\n" + strings.Repeat("ok  \tlehr.dev/more\n", digestBefore-1) + strings.Repeat("x", 2*digestWidth) + "\n" +
		"FAIL\tlehr.dev/one\t1s\n"
	told := digest(log, digestBytes)
	for _, want := range []string{"what it logged before", "--- FAIL: TestOne", "it is 1", "FAIL\tlehr.dev/one"} {
		if !strings.Contains(told, want) {
			t.Errorf("the digest has no %q:\n%s", want, told)
		}
	}
	if strings.Contains(told, "no interest") || strings.Contains(told, "lehr.dev/other") {
		t.Errorf("the digest tells of what did not fail:\n%s", told)
	}
	if told := digest("step one\nstep two: command not found\n", digestBytes); !strings.Contains(told, "command not found") {
		t.Errorf("a log that names no failure ends with %q", told)
	}
	// However much failed, each failure is named as long as there is room.
	var many strings.Builder
	for i := range 30 {
		fmt.Fprintf(&many, "    --- FAIL: TestMany/%d\n", i)
		for range 40 {
			fmt.Fprintln(&many, strings.Repeat("y", 2*digestWidth))
		}
	}
	many.WriteString("        > lehr why web\n        FAIL: scripts/one.txtar:7: no match\n")
	long := digest(many.String(), 2000)
	if len(long) > 2000+len("…") || !strings.Contains(long, "TestMany/29") || !strings.Contains(long, "one.txtar:7") {
		t.Errorf("a digest of %d bytes:\n%s", len(long), long)
	}
	if long := digest(strings.Repeat("--- FAIL: TestMany\n", 1000), 2000); len(long) > 2000+len("…") {
		t.Errorf("a digest of %d bytes", len(long))
	}
}

// TestHugePagesAreGivenBack checks that a run puts the machine's setting back, and changes
// none that is as it wants or that it cannot read.
func TestHugePagesAreGivenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "enabled")
	for text, changes := range map[string]bool{
		"always [madvise] never\n":                       true,
		"always madvise [never]\n":                       true,
		"[always] madvise never\n":                       false,
		"always within_size advise [never] deny force\n": true,
		"something else\n":                               false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		restore, changed := useHugePages(path)
		during, _ := os.ReadFile(path)
		restore()
		after, _ := os.ReadFile(path)
		_, before, _ := strings.Cut(strings.TrimSpace(text), "[")
		before, _, _ = strings.Cut(before, "]")
		if changed != changes || changes && (string(during) != "always" || string(after) != before) || !changes && string(after) != text {
			t.Errorf("%q: changed %v, then %q, then %q", text, changed, during, after)
		}
	}
	if _, changed := useHugePages(filepath.Join(t.TempDir(), "missing")); changed {
		t.Error("a file that does not exist was changed")
	}
}
