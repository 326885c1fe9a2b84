package sim

import (
	"os"
	"strings"
	"testing"
)

func TestOne(t *testing.T) {
	for seed := range uint64(40) {
		o := Options{Seed: seed, Hours: 1}
		out, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("seed %d: %v steps %d hours %.2f effects %d struck %d/%d violations %.1400v marks %d", seed, out.Hash, out.Steps, out.Hours, out.Effects, out.Struck, len(out.Plan), out.Violations, len(out.Marks))
		if seed%4 == 0 {
			again, _ := Run(t.Context(), o)
			if again.Hash != out.Hash {
				t.Errorf("seed %d: not the same again", seed)
				for n := range 2 {
					w, _ := os.Create("/tmp/trace" + string(rune('0'+n)))
					o.Trace = w
					Run(t.Context(), o)
					w.Close()
				}
				return
			}
		}
		if out.Failed() && os.Getenv("ON") == "" {
			t.Log(strings.Join(out.Story, "\n"))
			return
		}
	}
}
