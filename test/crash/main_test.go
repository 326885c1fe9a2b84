// Package crash ends the embedded store at every operation on its files: by
// killing the process, by taking the power away, by errors of the disk and by
// a full one. Afterwards it opens the store as a server does, and holds what
// it finds against all that had been committed and answered (S14), against the
// store's own digests (S6, S7) and against what the collector may take (S17).
// Nothing imports it.
package crash

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// points is how many kills and power losses are constructed, over all
// operations; the other tests take theirs from it.
var points = flag.Int("points", 1100, "crash points to construct")

// seed of the choices of what a power loss leaves.
var seed = flag.Uint64("seed", 1, "first seed of what a power loss leaves")

// What tells the test binary to be the process that dies, the one that backs up
// or restores, and the one whose
// calls of the system are traced.
const (
	killed = "LEHR_TEST_KILLED"
	kept   = "LEHR_TEST_KEPT"
	traced = "LEHR_TEST_TRACED"
)

func TestMain(m *testing.M) {
	for variable, program := range map[string]func(string) error{killed: dying, traced: starting, kept: keep} {
		if argument := os.Getenv(variable); argument != "" {
			if err := program(argument); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}
