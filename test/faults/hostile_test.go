package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
)

// What a tenant writes harms neither the server nor another tenant, and the
// tenant is told what is wrong (S12). Each table of hostile inputs runs against
// one server with two partitions: the tenant's, and a good one that must be
// served while the input is there. To add an input, add a row; to add a way in,
// a table.

// hostile is one input.
type hostile struct {
	name string
	// write makes the tenant's folder hostile.
	write func(h *attack)
	// told are patterns of what is said of the tenant's asset, or of another
	// that the row names; none: the input is harmless, and what the tenant wants
	// besides comes about.
	told  []string
	asset string
}

// Bounds on the server: its memory at its peak, and how long the good partition
// waits for a change beside the hostile input.
const (
	mostMegabytes = 256
	mostBeside    = 20 * time.Second
)

// attack is a server with a good and a hostile partition.
type attack struct {
	*world
	tenant string
	// value is the good partition's, mine the tenant's.
	value, mine int
}

const tenantDefinition = `lehr: v1
partition: tenant
mode: enforce
sources:
  service: {dir: source, files: ["**/*.yaml"]}
generate:
  web: {starlark: web.star, from: [service]}
plugins:
  Command: {run: lehr-command}
`

// newAttack has both partitions converge once.
func newAttack(t *testing.T, name string) *attack {
	t.Helper()
	h := &attack{world: newWorld(t, partition{name: name}), tenant: t.TempDir()}
	h.fresh()
	h.wantBoth()
	h.serve("-p", filepath.Join(h.tenant, "lehr.yaml"))
	h.converges(values{"a": h.value, "t": h.mine})
	return h
}

// mend makes the tenant's folder as it should be, and waits until what it
// wants comes about: whatever was there before does not stay in the way (L3).
func (h *attack) mend() {
	h.Helper()
	h.mine++
	h.fresh()
	h.converges(values{"t": h.mine})
}

// fresh makes the tenant's folder as it should be.
func (h *attack) fresh() {
	h.Helper()
	entries, err := os.ReadDir(h.tenant)
	for _, entry := range entries {
		if err == nil {
			err = os.RemoveAll(filepath.Join(h.tenant, entry.Name()))
		}
	}
	if err != nil {
		h.Fatal(err)
	}
	h.put("lehr.yaml", tenantDefinition)
	h.put("web.star", usualProgram)
	h.wantIn(h.tenant, values{"t": h.mine})
}

func (h *attack) wantBoth() {
	h.value++
	h.mine++
	h.want(values{"a": h.value})
	h.wantIn(h.tenant, values{"t": h.mine})
}

// put writes a file of the tenant's.
func (h *attack) put(name, content string) { h.write(filepath.Join(h.tenant, name), content) }

// change replaces a text in a file of the tenant's.
func (h *attack) change(name, old, by string) { h.edit(filepath.Join(h.tenant, name), old, by) }

// must ends the test after an error of the test's own.
func (h *attack) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *attack) at(name string) string { return filepath.Join(h.tenant, name) }

// run makes each row's attack.
func (h *attack) run(rows []hostile) {
	h.Helper()
	pid := h.server.Process.Pid
	for _, row := range rows {
		h.mend()
		row.write(h)
		asset := row.asset
		if asset == "" {
			asset = "resource/t"
		}
		began := time.Now()
		if len(row.told) > 0 {
			told := ""
			if missing := h.within(patience, func() string {
				told = h.why(asset, "-p", "tenant")
				return unmatched(told, row.told...)
			}); missing != "" {
				h.Errorf("%s: the tenant is not told: %s", row.name, missing)
			}
			h.Logf("%s, told after %s: %s", row.name, time.Since(began).Round(time.Millisecond), last(told, 600))
		}
		h.besides(row.name)
		if len(row.told) == 0 {
			h.mine++
			h.wantIn(h.tenant, values{"t": h.mine})
			h.converges(values{"t": h.mine})
		}
	}
	h.shows()
	h.mend()
	select {
	case <-h.server.ended:
		h.Fatalf("the server ended: %v", h.server.err)
	default:
	}
	if h.server.Process.Pid != pid {
		h.Errorf("the server is process %d, and was %d", h.server.Process.Pid, pid)
	}
	if most := h.residentMegabytes(); most > mostMegabytes {
		h.Errorf("the server took %d MB, want at most %d", most, mostMegabytes)
	}
	plainText(h.T, "the server's log", h.logged())
	h.Logf("%d inputs; the server took at most %d MB", len(rows), h.residentMegabytes())
}

// besides pushes a change of the good partition.
func (h *attack) besides(what string) {
	h.Helper()
	h.value++
	began := time.Now()
	h.want(values{"a": h.value})
	h.converges(values{"a": h.value})
	if took := time.Since(began); took > mostBeside {
		h.Errorf("beside %q, a change of the good partition took %s, want at most %s", what, took, mostBeside)
	}
}

// shows looks at all that a person may be shown.
func (h *attack) shows() {
	h.Helper()
	for _, arguments := range [][]string{
		{"get", "partitions"}, {"get", "candidates", "-p", "tenant"}, {"describe", "candidate", "-p", "tenant"}, {"describe", "partition", "tenant"},
		{"get", "reports", "-p", "tenant", "-o", "wide"}, {"get", "assets", "-p", "tenant"}, {"why", "resource/t", "-p", "tenant"},
	} {
		told, err := h.lehr(arguments...)
		plainText(h.T, "lehr "+strings.Join(arguments, " "), told+text(err))
	}
}

// plainText wants nothing in a text that makes a terminal do or show anything
// but what is written.
func plainText(t *testing.T, what, text string) {
	t.Helper()
	at := strings.IndexFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
	})
	if at >= 0 {
		t.Errorf("%s holds %q", what, text[max(0, at-40):min(len(text), at+40)])
	}
}

var quoted = regexp.QuoteMeta

// repeat numbers what a format makes.
func repeat(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}
