package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"lehr.dev/test/building"
)

// Two servers on one store never both act: the second is refused and told by
// whom, the first goes on; what the dead leave, the next takes over.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "second"})
	w.want(values{"a": 1})
	w.serve()
	w.converges(values{"a": 1})
	first := w.server
	told, err := w.lehr("serve", "--store", w.store)
	if err == nil {
		t.Fatalf("a second server served: %s", told)
	}
	if missing := unmatched(err.Error(), fmt.Sprintf(`is being served by process %d`, first.Process.Pid), `store of its own`); missing != "" {
		t.Error(missing)
	}
	w.want(values{"a": 2})
	w.converges(values{"a": 2})
	// The address of a server that lives is not free for another either.
	other := filepath.Join(t.TempDir(), "other.db")
	address := regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`).FindStringSubmatch(w.logged())
	told, err = w.lehr("serve", "--store", other, "--listen", address[1])
	if err == nil {
		t.Fatalf("a second server listens on %s: %s", address[1], told)
	}
	if missing := unmatched(err.Error(), `cannot listen on `+address[1]+`: the address is in use`, `choose another`); missing != "" {
		t.Error(missing)
	}
	// After a crash the same address and store serve again at once.
	w.kill()
	w.serve("--listen", address[1])
	w.want(values{"a": 3})
	w.converges(values{"a": 3})
}

// endless and greedy are programs that never yield anything.
const (
	endless = `
def generate(ctx):
    for _ in range(1 << 40):
        pass
    return []
`
	greedy = `
def generate(ctx):
    hoard = []
    for i in range(1 << 40):
        hoard.append("x" * (1 << 20) + str(i))
    return hoard
`
)

// What a tenant writes harms neither the server nor another tenant (S12).
func TestGreedyTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "good"})
	w.want(values{"a": 1})
	folder := t.TempDir()
	w.define(folder, partition{name: "tenant"})
	w.wantIn(folder, values{"t": 1})
	w.serve("-p", filepath.Join(folder, "lehr.yaml"))
	w.converges(values{"a": 1, "t": 1})
	heaviest, value := 0, 1
	for name, c := range map[string]struct{ program, told string }{
		"endless": {endless, `web\.star:3: it took too many steps`},
		"greedy":  {greedy, `web\.star:5: .*256 MB`},
	} {
		w.define(folder, partition{name: "tenant", program: c.program})
		w.await("the place is told", func() string {
			// Meanwhile the other tenant's changes are pushed.
			value++
			w.want(values{"a": value})
			w.converges(values{"a": value})
			heaviest = max(heaviest, w.residentMegabytes())
			return unmatched(w.why("resource/t", "-p", "tenant"), c.told)
		})
		t.Logf("%s: %s", name, w.why("resource/t", "-p", "tenant"))
		if missing := w.holds(values{"t": 1})(); missing != "" {
			t.Errorf("%s: %s", name, missing)
		}
	}
	const bound = 300
	if heaviest > bound && building.RaceFlags() == nil { // The race detector takes several times as much.
		t.Errorf("the server took %d MB, want at most %d", heaviest, bound)
	}
	t.Logf("%d changes of the other tenant were pushed meanwhile; the server took at most %d MB", value-1, heaviest)
	w.define(folder, partition{name: "tenant"})
	w.wantIn(folder, values{"t": 2})
	w.converges(values{"t": 2})
}

// residentMegabytes is the most memory that the server ever had.
func (w *world) residentMegabytes() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.server.Process.Pid))
	if err != nil {
		w.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		w.Fatal(err)
	}
	return kilobytes >> 10
}
