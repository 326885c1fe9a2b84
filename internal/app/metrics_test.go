package app_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/internal/access"
	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// sampleOf finds a sample, as "name{labels}", in what is shown; 0: there is none.
func sampleOf(t *testing.T, text, sample string) float64 {
	t.Helper()
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, sample+" "); ok {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return number
		}
	}
	return 0
}

// What is shown is what production and the store are, and names nobody's assets.
func TestMetrics(t *testing.T) {
	assets := []string{"private-a", "private-b", "private-c"}
	running, _ := begin(t, newProduction(), map[intent.PartitionID]string{"one": partition(t, "one", assets...)}, func(o *app.Options) {
		o.Parts.Store, o.Store = nil, filepath.Join(t.TempDir(), "lehr.db")
		o.Listen, o.Metrics = "127.0.0.1:0", "127.0.0.1:0"
	})
	shows := func(sample string, want float64) {
		t.Helper()
		eventually(t, sample+" is "+strconv.FormatFloat(want, 'g', -1, 64), func() bool { return metric(t, running, sample) == want })
	}
	shows(`lehr_assets{partition="one",state="in-sync",waiting=""}`, 3)
	shows(`lehr_assets{partition="one",state="unseen",waiting=""}`, 0)
	shows(`lehr_push_duration_seconds_count{ending="pushed",partition="one"}`, 3)
	shows(`lehr_pushes_open{partition="one"}`, 0)
	shows(`lehr_head_sequence{partition="one"}`, 1)
	shows(`lehr_partition_held{partition="one"}`, 1)
	shows(`lehr_partition_acting{partition="one"}`, 1)
	shows(`lehr_sources_unserved_seconds{partition="one"}`, 0)
	shows(`lehr_candidate{partition="one",state="held"}`, 0)
	shows(`lehr_store_up`, 1)
	shows(`lehr_ready`, 1)
	_, text := get(t, "http://"+running.Monitoring()+"/metrics", "", "")
	for _, positive := range []string{
		"lehr_store_commit_duration_seconds_count", "lehr_store_bytes", `lehr_lease_epoch{partition="one"}`, `lehr_head_timestamp_seconds{partition="one"}`,
		`lehr_build_duration_seconds_count{outcome="serving",partition="one"}`, `lehr_generator_runs_total{how="ran",partition="one"}`,
		`lehr_diff_assets_sum{partition="one",plugin="memory"}`, "go_goroutines",
	} {
		if sampleOf(t, text, positive) <= 0 {
			t.Errorf("%s is not shown, or not positive", positive)
		}
	}
	if strings.Contains(text, "private-") {
		t.Error("an asset is named")
	}
	if err := running.Store().SetStop(t.Context(), intent.Stop{Owner: by, Reason: "a fire", Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	shows(`lehr_stop{partition="one"}`, 1)
	if err := os.WriteFile(filepath.Join(filepath.Dir(definitionOf(t, running)), "web.star"), []byte("broken("), 0o644); err != nil {
		t.Fatal(err)
	}
	shows(`lehr_candidate{partition="one",state="rejected"}`, 1)
	eventually(t, "the age of what is not served grows", func() bool { return metric(t, running, `lehr_sources_unserved_seconds{partition="one"}`) > 0 })
	// What is counted by a fleet that rests stands still.
	before := metric(t, running, "lehr_store_commit_duration_seconds_count")
	for range 10 {
		metric(t, running, "lehr_ready")
	}
	if after := metric(t, running, "lehr_store_commit_duration_seconds_count"); after != before {
		t.Errorf("being looked at made %g commits", after-before)
	}
}

// definitionOf is where the first partition is defined.
func definitionOf(t *testing.T, running *app.App) string {
	t.Helper()
	list, err := running.Store().ListPartitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list[0].Definition
}

// Metrics name partitions: at the server's own address only who may read all of
// them sees any.
func TestWhoMayReadMetrics(t *testing.T) {
	running, opened, _ := watched(t, map[intent.PartitionID]string{"one": partition(t, "one", "a")})
	address := running.Address()
	token := func(owner string) string {
		t.Helper()
		made, secret := access.Mint(store.Token{Owner: owner})
		if _, err := opened.CreateToken(t.Context(), made, 0); err != nil {
			t.Fatal(err)
		}
		return secret
	}
	for _, test := range []struct {
		name, url, host, token string
		status                 int
	}{
		{"nobody", address.URL, "", "", 401},
		{"an unknown token", address.URL, "", "lehr_x_y", 401},
		{"the local user", address.URL, "", address.Token, 200},
		{"who may read nothing", address.URL, "", token("nobody@example.com"), 403},
		{"whoever reaches the address", "http://" + running.Monitoring(), "", "", 200},
		{"a page of another site, by a name of its own", "http://" + running.Monitoring(), "evil.example.com", "", 403},
	} {
		if status, body := get(t, test.url+"/metrics", test.host, test.token); status != test.status {
			t.Errorf("%s: %d, want %d: %.200s", test.name, status, test.status, body)
		}
	}
	if status, _ := get(t, "http://"+running.Monitoring()+"/", "", ""); status != 404 {
		t.Errorf("the address for metrics serves pages: %d", status)
	}
}

// Many who ask for metrics while the store does not answer make no more work than a
// few: the others are told to come later.
func TestManyScrapesAreFew(t *testing.T) {
	running, ails, _ := watched(t, map[intent.PartitionID]string{"one": partition(t, "one", "a")})
	ails.stuck.Store(true)
	address := running.Address()
	var few, many atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			switch status, _ := get(t, address.URL+"/metrics", "", address.Token); status {
			case 200:
				few.Add(1)
			case 503:
				many.Add(1)
			}
		})
	}
	all.Wait()
	if few.Load()+many.Load() != 20 || ails.asking.Load() > few.Load() || many.Load() == 0 {
		t.Errorf("%d were answered, %d told to come later, and the store was asked %d times", few.Load(), many.Load(), ails.asking.Load())
	}
}

// docs/operate/monitoring.md lists exactly the metrics that there are.
func TestEveryMetricIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operate/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(lehr_[a-z_]+)`").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(listed)
	if names := app.MetricNames(); !slices.Equal(listed, names) {
		t.Errorf("the page lists\n%s\nand there are\n%s", strings.Join(listed, " "), strings.Join(names, " "))
	}
}
