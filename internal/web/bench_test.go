package web_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store/sqlite"
)

// BenchmarkPages times whole pages beside 100 000 assets, or as many as ASSETS says, as a browser gets them. Nine of ten
// assets wait for the one before. The first look at each page is reported by itself, for the process then reads what it keeps in
// memory. It takes three to fifteen minutes to write a million.
func BenchmarkPages(b *testing.B) {
	assets := 100_000
	if text := os.Getenv("ASSETS"); text != "" {
		var err error
		if assets, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	b.Run(fmt.Sprint(assets), func(b *testing.B) { benchmarkPages(b, assets) })
}

func benchmarkPages(b *testing.B, assets int) {
	w := newWorldOf(b, sqlite.Options{Path: filepath.Join(b.TempDir(), "lehr.db")}) // What is in memory has at most 1 GiB.
	w.fill(assets)
	for name, path := range map[string]func(i int) string{
		"assets":          func(i int) string { return "/partition/shop?after=" + numbered(i) },
		"assets by state": func(i int) string { return "/partition/shop?state=waiting&after=" + numbered(i) },
		"asset":           func(i int) string { return "/partition/shop/asset/" + numbered(i) },
		"partitions":      func(int) string { return "/" },
		"partition":       func(int) string { return "/partition/shop" },
		"causes":          func(int) string { return "/partition/shop/causes" },
		"search":          func(i int) string { return "/search?q=" + numbered(i) },
		"groups":          func(int) string { return "/partition/shop/groups" },
		"service":         func(i int) string { return fmt.Sprintf("/partition/shop/group/service-%02d", i%100) },
		"instance":        func(i int) string { return fmt.Sprintf("/partition/shop/group/service-%02d/%d", i%100, i%10) },
		"timeline":        func(i int) string { return "/partition/shop/timeline/" + numbered(i) },
		"incarnation":     func(int) string { return "/partition/shop/incarnation/1" },
	} {
		b.Run(name, func(b *testing.B) {
			get := func(i int) time.Duration {
				began := time.Now()
				answer, err := w.browser.Get(w.base + path(i*7919%assets))
				w.must(err)
				_, err = io.Copy(io.Discard, answer.Body)
				w.must(err)
				answer.Body.Close()
				if answer.StatusCode != http.StatusOK {
					b.Fatalf("%s answered %s", path(i*7919%assets), answer.Status)
				}
				return time.Since(began)
			}
			first := get(0)
			var took []time.Duration
			for i := 1; b.Loop(); i++ {
				took = append(took, get(i))
			}
			slices.Sort(took)
			b.ReportMetric(milliseconds(first), "first-ms")
			b.ReportMetric(milliseconds(took[len(took)*99/100]), "p99-ms")
		})
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func numbered(i int) string { return fmt.Sprintf("web/%06d", i) }

// fill publishes and reports many assets.
func (w *world) fill(count int) {
	w.Helper()
	var assets []intent.Asset
	var reports []intent.Report
	for i := range count {
		assets = append(assets, w.ofGroup(w.command(intent.AssetID(numbered(i)), "x"), fmt.Sprintf("service-%02d", i/1000), fmt.Sprint(i/100%10)))
		report := intent.Report{Asset: intent.AssetID(numbered(i)), Type: "lehr.command.v1.Command", State: intent.StateInSync}
		if i%10 != 0 {
			report = waits(report.Asset, intent.WaitOrder, "must come after another", intent.AssetID(numbered(i-1)))
		}
		reports = append(reports, report)
	}
	w.publish(0, assets...)
	for batch := range slices.Chunk(reports, 5000) {
		w.report(batch...)
	}
}

// BenchmarkHome times the first page over 500 partitions, all of which are stopped or none.
func BenchmarkHome(b *testing.B) {
	w := newWorld(b)
	w.three()
	for i := range 499 {
		w.must(w.store.AddPartition(b.Context(), intent.PartitionID(fmt.Sprintf("part-%03d", i)), "/lehr.yaml", "a try", ann))
	}
	for _, name := range []string{"quiet", "stopped"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w.shows("/")
			}
		})
		w.must(w.store.SetStop(b.Context(), intent.Stop{Owner: ann, Reason: "a fire", Since: time.Now()}))
	}
}
