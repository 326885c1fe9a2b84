package faults

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"lehr.dev/test/freeport"
)

// measured returns the value of a metric, as a scrape shows it; -1: it does not.
func measured(address, metric string) float64 {
	client := &http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return -1
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(metric) + ` (\S+)$`).FindSubmatch(body)
	if found == nil {
		return -1
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return -1
	}
	return value
}

// A task that is killed is replaced at once, though the sweep is far away: its plugin
// hints the exit.
func TestExitIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	const (
		taken = `lehr_plugin_hints_total{outcome="taken",plugin="lehr-process"}`
		looks = `lehr_diff_assets_sum{partition="hints",plugin="lehr-process"}`
		// quiet: without a look for so long, the pause is at least 32 s, less a fifth.
		quiet, soon = 20 * time.Second, 10 * time.Second
	)
	w := newWorld(t, partition{name: "hints", plugins: "Job: {run: lehr-process}"})
	w.jobs["one"] = job{Replicas: 2}
	w.want(values{})
	monitoring := freeport.Address(t)
	w.serve("--sweep", "10m", "--metrics", monitoring)
	w.await("all processes run", w.runs(2))
	w.await("hints are relied on", func() string {
		if measured(monitoring, `lehr_plugin_hints_reliable{plugin="lehr-process"}`) != 1 {
			return "they are not"
		}
		return ""
	})
	last, since := measured(monitoring, looks), time.Now()
	w.await("nothing is looked at for a while", func() string {
		if now := measured(monitoring, looks); now != last {
			last, since = now, time.Now()
		}
		if rest := time.Since(since); rest < quiet {
			return fmt.Sprintf("the last look was %s ago", rest)
		}
		return ""
	})
	before, hints := w.pids(), measured(monitoring, taken)
	killAll(w.tasks()[:1])
	if missing := w.within(soon, func() string {
		// First that it is gone: what runs after that is what took its place.
		if slices.Equal(w.pids(), before) {
			return "the task was not killed"
		}
		return w.runs(2)()
	}); missing != "" {
		t.Errorf("within %s of a kill, with a sweep of 10 min: %s", soon, missing)
	}
	if now := measured(monitoring, taken); now <= hints {
		t.Errorf("%v hints were taken, before the kill %v", now, hints)
	}
}
