// Package nemesis breaks three real replicas and their database on purpose:
// processes in networks of their own, PostgreSQL with a standby, links that
// are cut one way, clocks that count from elsewhere, disks that are full,
// while people edit, brake and approve. Production is a program that writes
// down every effect; a checker holds its records, joined with the journal and
// the audit, to what Lehr promises. docs/design/nemesis.md tells how to run it and
// how to read what it says. Nothing imports it.
package nemesis

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/sim/mutation"
	"lehr.dev/test/building"
)

var (
	minutes = flag.Float64("minutes", 0, "how long faults come; 0: not at all")
	seed    = flag.Uint64("seed", 0, "which faults; 0: by the clock")
	only    = flag.String("faults", "", "only those that match")
	lossy   = flag.Bool("lossy", false, "commits do not wait for the standby, so that its promotion loses some")
	broken  = flag.String("mutants", "", "deliberate defects of internal/sim/mutation, with commas between, that the checker must find")
)

// pluginArgument makes the test binary the plugin of things.
const pluginArgument = "nemesis:plugin"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == pluginArgument {
		os.Exit(pluginProgram(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// TestNemesis lets everything go wrong, and judges what production saw.
func TestNemesis(t *testing.T) {
	if *minutes == 0 {
		t.Skip("runs for minutes, and best alone: make nemesis")
	}
	chosen := *seed
	if chosen == 0 {
		chosen = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", chosen)
	programs := t.TempDir()
	build(t, programs)
	w := newWorld(t, programs, chosen, "")
	defer w.close()
	for _, v := range w.run(time.Duration(*minutes * float64(time.Minute))) {
		t.Errorf("seed %d: %s", chosen, v)
	}
}

// TestMutants builds Lehr with deliberate defects, switches those named on, all
// at once, and expects of each a violation of a property that it breaks.
func TestMutants(t *testing.T) {
	if *broken == "" {
		t.Skip("no defects are named: -mutants NAME,NAME")
	}
	programs := t.TempDir()
	if _, err := mutation.Build(t.Context(), "../..", programs); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(programs, builds[0]), filepath.Join(programs, builds[1])); err != nil {
		t.Fatal(err)
	}
	chosen := max(*seed, 1)
	w := newWorld(t, programs, chosen, *broken)
	defer w.close()
	found := map[string]string{}
	for _, v := range w.run(time.Duration(*minutes * float64(time.Minute))) {
		found[v.Property] = v.Text
	}
	for name := range strings.SplitSeq(*broken, ",") {
		mutant, ok := mutation.Find(name)
		told := slices.ContainsFunc(strings.Fields(mutant.Breaks), func(property string) bool { return found[property] != "" })
		if !ok || !told {
			t.Errorf("seed %d: nothing told of the mutant %s, which breaks %q: only %v", chosen, name, mutant.Breaks, slices.Sorted(maps.Keys(found)))
			continue
		}
		t.Logf("%s (%s): found", name, mutant.Breaks)
	}
	for property, text := range found {
		t.Logf("%s: %s", property, text)
	}
}

// run starts everything, lets faults come for a while, heals everything, and returns the verdict.
func (w *world) run(period time.Duration) []violation {
	w.Helper()
	w.begin()
	w.steady()
	w.rage(period)
	w.heal()
	if err := w.scribe.finish(); err != nil {
		w.Fatal(err)
	}
	w.keep()
	for _, folder := range []string{w.folder, w.records} {
		w.secrets.SearchFolder(w.T, folder, w.hidden...)
	}
	w.Logf("seed %d: %s\n%sthe machine stood still for %s in all; production was as wanted %s after the end of all faults",
		w.seed, w.history.told(), &w.tally, short(w.vigil.between(0, w.now())), short(w.history.Settled-w.history.Healed))
	return judge(w.history)
}

// keep writes the history beside the target's records.
func (w *world) keep() {
	text, err := json.Marshal(w.history)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.records, "history.json"), text, 0o600)
	}
	if err != nil {
		w.Error(err)
	}
}

// wallVariable sets the wall clock of a lehr-next ahead.
const wallVariable = "NEMESIS_WALL"

// next is what the other build does otherwise: its wall clock can be set, and
// its collector is keen.
var next = []struct{ file, old, new string }{
	{"internal/ground/loop/loop.go", "func (real) Now() time.Time        { return time.Now() }",
		`func (real) Now() time.Time { return time.Now().Add(ahead) }; var ahead, _ = time.ParseDuration(os.Getenv("` + wallVariable + `"))`},
	{"internal/ground/loop/loop.go", `	"context"`, `	"context"; "os"`},
	{"internal/app/collect.go", "Every: time.Hour,", "Every: 3 * time.Second,"},
	{"internal/app/collect.go", "Incarnations: 100, Period: 30 * day", "Incarnations: 20, Period: 20 * time.Second"},
}

// build builds the programs: as they are, and as the next build.
func build(t *testing.T, into string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	replaced := map[string]string{}
	for _, change := range next {
		original := filepath.Join(root, change.file)
		from := original
		if replaced[original] != "" {
			from = replaced[original]
		}
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(text), change.old) != 1 {
			t.Fatalf("%s does not hold %q once: the code moved, and with it the next build", change.file, change.old)
		}
		replaced[original] = filepath.Join(into, strings.ReplaceAll(change.file, "/", "_"))
		if err := os.WriteFile(replaced[original], []byte(strings.Replace(string(text), change.old, change.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(into, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	for binary, arguments := range map[string][]string{builds[0]: nil, builds[1]: {"-overlay", path}} {
		command := exec.Command("go", append(slices.Concat([]string{"build", "-buildvcs=false"}, building.RaceFlags(), arguments), "-o", filepath.Join(into, binary), "./cmd/lehr")...)
		command.Dir = root
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatal(fmt.Errorf("building %s: %w\n%s", binary, err, output))
		}
	}
}
