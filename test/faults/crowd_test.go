package faults

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// crowdProgram takes some milliseconds for each file.
const crowdProgram = `
def generate(ctx):
    n = 0
    for i in range(400000):
        n += i
    return [asset(ctx.file.removesuffix(".yaml"), lehr.intent.v1.Owner(owner = str(n)))]
`

// TestACrowdDelaysNoOther: while some partitions have 10 000 slow runs each, others' do
// not end, and others again lose their children one after the other, a small one
// is built in about its own time (S12, L2).
func TestACrowdDelaysNoOther(t *testing.T) {
	if testing.Short() {
		t.Skip("ten thousand runs")
	}
	t.Parallel()
	w := newWorld(t, partition{name: "small"})
	w.want(values{"a": 1})
	alone, value := time.Duration(0), 1
	w.serve()
	w.converges(values{"a": 1})
	// The worst of some changes, from the saved file to changed production.
	changes := func() (worst time.Duration) {
		for range 5 {
			value++
			began := time.Now()
			w.want(values{"a": value})
			w.converges(values{"a": value})
			worst = max(worst, time.Since(began))
		}
		return worst
	}
	alone = changes()

	// A partition runs one child at a time, so one crowd more than there are cores makes
	// sure that one always waits for its turn, however fast the machine is.
	const files = 10_000
	crowd, crowds := t.TempDir(), runtime.GOMAXPROCS(0)+1
	for i := range files {
		w.write(filepath.Join(crowd, fmt.Sprintf("many/%05d.yaml", i)), "a: 1\n")
	}
	add := func(name, folder, program string) {
		t.Helper()
		definition := filepath.Join(folder, name+".yaml")
		w.write(definition, fmt.Sprintf("lehr: v1\npartition: %s\nsources:\n  many: {files: [\"many/*.yaml\"]}\ngenerate:\n  each: {starlark: each.star, from: [many], for_each: file}\n", name))
		w.write(filepath.Join(folder, "each.star"), program)
		if out, err := w.lehr("partition", "add", definition); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for i := range crowds {
		add(fmt.Sprintf("crowd-%d", i), crowd, crowdProgram)
	}
	for name, program := range map[string]string{
		"endless": "def generate(ctx):\n    for _ in range(1 << 40):\n        pass\n",
		"hung":    "def generate(ctx):\n    return [] if len(\"a\" * 100000000 * 2 + ctx.file) > 5 and [x for x in range(1 << 40)] else []\n",
		"dying":   "def generate(ctx):\n    x = \"a\" * (1 << 29)\n    return []\n",
	} {
		folder := t.TempDir()
		for i := range 200 {
			w.write(filepath.Join(folder, fmt.Sprintf("many/%d.yaml", i)), "a: 1\n")
		}
		add(name, folder, program)
	}
	w.await("somebody waits for a turn", func() string {
		out, err := w.lehr("get", "partitions")
		if err != nil || !strings.Contains(out, "wait for their turn to be built since") {
			return fmt.Sprint(err, out)
		}
		return ""
	})
	besides := changes()
	for i := range crowds {
		name := fmt.Sprintf("crowd-%d", i)
		if out, err := w.lehr("describe", "partition", name); err != nil || strings.Contains(out, name+"@1") {
			t.Fatalf("%s was built already, so it delayed nobody: %s", name, out)
		}
	}
	t.Logf("a change alone took %s at worst, beside the crowd %s", alone, besides)
}
