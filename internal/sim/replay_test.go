package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// replayed names, for a process of its own, the seed that it is to run.
const replayed = "LEHR_REPLAYED_SEED"

func replayOptions(seed uint64) Options { return Options{Seed: seed, Hours: 1.5, Density: 60} }

func TestMain(m *testing.M) {
	if seed, err := strconv.ParseUint(os.Getenv(replayed), 10, 64); err == nil {
		outcome, err := Run(context.Background(), replayOptions(seed))
		if err != nil {
			panic(err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(outcome); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// TestSameSeedSameRun runs seeds again in another process, where no run was made before: what
// one leaves in this process would show in the next. Of the runs that CI makes, each twentieth
// is made twice as well: see package campaign.
func TestSameSeedSameRun(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 1
	}
	different := map[string]bool{}
	for seed := range seeds {
		first, err := Run(t.Context(), replayOptions(seed))
		if err != nil {
			t.Fatal(err)
		}
		different[first.Hash] = true
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), replayed+"="+strconv.FormatUint(seed, 10), "GOMAXPROCS=1")
		var errs bytes.Buffer
		child.Stderr = &errs
		said, err := child.Output()
		if err != nil {
			t.Fatalf("seed %d in another process: %v\n%s", seed, err, errs.String())
		}
		var elsewhere struct {
			Hash  string
			Story []string
		}
		if err := json.Unmarshal(said, &elsewhere); err != nil {
			t.Fatal(err)
		}
		if first.Hash != elsewhere.Hash {
			t.Errorf("seed %d: %s, in another process %s", seed, first.Hash, elsewhere.Hash)
		}
		if one, two := strings.Join(first.Story, "\n"), strings.Join(elsewhere.Story, "\n"); one != two {
			t.Errorf("seed %d tells another story:\n%s\n\n%s", seed, one, two)
		}
		if first.Failed() {
			t.Errorf("seed %d: %v", seed, first.Violations)
		}
	}
	if len(different) != int(seeds) {
		t.Errorf("%d seeds gave %d runs", seeds, len(different))
	}
}
