package web_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/web"
	"lehr.dev/test/chromium"
)

// largestPaint is when the largest part of the page was painted, in milliseconds since it was asked for.
const largestPaint = `new Promise(done => new PerformanceObserver(list => done(list.getEntries().at(-1).startTime)).observe({type: "largest-contentful-paint", buffered: true}))`

// isShown checks that the tab shows a page, and not that it is not let in.
func (w *world) isShown(tab context.Context) {
	w.Helper()
	text, err := chromedp.Run(tab, chromedp.Evaluate[string](`document.getElementById("status") ? "" : document.body.innerText`))
	w.must(err)
	if text != "" {
		w.Fatalf("the tab shows %q", text)
	}
}

// BenchmarkPaint loads pages beside 100 000 assets in a real browser, and reports when the largest part of each is painted.
func BenchmarkPaint(b *testing.B) {
	const assets = 100_000
	chromium.Require(b, "when pages are painted")
	w := newWorld(b)
	w.fill(assets)
	browser := chromium.Start(b, time.Hour)
	w.must(chromedp.Do(browser, chromedp.Navigate(w.link())))
	for _, page := range []struct {
		name string
		path func(i int) string
	}{
		{"home", func(int) string { return "/" }},
		{"partition", func(int) string { return "/partition/shop" }},
		{"asset", func(i int) string { return "/partition/shop/asset/" + numbered(i) }},
		{"causes", func(int) string { return "/partition/shop/causes" }},
		{"groups", func(int) string { return "/partition/shop/groups" }},
		{"service", func(i int) string { return fmt.Sprintf("/partition/shop/group/service-%02d", i%100) }},
		{"search", func(i int) string { return "/search?q=" + numbered(i) }},
	} {
		b.Run(page.name, func(b *testing.B) {
			var painted []float64
			for i := 0; b.Loop(); i++ {
				w.must(chromedp.Do(browser, chromedp.Navigate(w.base+page.path(i*7919%assets))))
				w.isShown(browser)
				at, err := chromedp.Run(browser, chromedp.Evaluate[float64](largestPaint, chromedp.EvalAwaitPromise))
				w.must(err)
				painted = append(painted, at)
			}
			slices.Sort(painted)
			b.ReportMetric(painted[len(painted)/2], "p50-ms")
			b.ReportMetric(painted[len(painted)*99/100], "p99-ms")
		})
	}
}

// watchFreezes keeps, in the page, the longest time for which nothing else could run.
const watchFreezes = `window.frozen = 0; (() => {
	let last = performance.now();
	setInterval(() => { const now = performance.now(); window.frozen = Math.max(window.frozen, now - last - 20); last = now; }, 20);
})()`

// BenchmarkLive keeps pages open beside 100 000 assets of which 1 000 change each second, in a real browser. Each round of
// it is such a second. It reports the longest time for which the tab stood still, and by how much its heap, its nodes and its
// listeners grew between the sixth round and the last.
func BenchmarkLive(b *testing.B) {
	const assets, changes, settled = 100_000, 1_000, 5
	chromium.Require(b, "how live pages bear many changes")
	// In a file: in memory the store has at most 1 GiB, which is full after some minutes.
	w := newWorldOf(b, sqlite.Options{Path: filepath.Join(b.TempDir(), "lehr.db")}, func(o *web.Options) { o.Period = web.DefaultOptions(o.Client).Period })
	w.fill(assets)
	browser := chromium.Start(b, 3*time.Hour)
	w.must(chromedp.Do(browser, chromedp.Navigate(w.link())))
	measure := func() map[string]float64 {
		_, err := chromedp.Call(browser, heapprofiler.CollectGarbage, cdp.Empty{})
		w.must(err)
		answer, err := chromedp.Call(browser, performance.GetMetrics, cdp.Empty{})
		w.must(err)
		values := map[string]float64{}
		for _, metric := range answer.Metrics {
			values[metric.Name] = metric.Value
		}
		return values
	}
	_, err := chromedp.Call(browser, performance.Enable, performance.EnableParams{})
	w.must(err)
	for name, path := range map[string]string{"home": "/", "partition": "/partition/shop", "service": "/partition/shop/group/service-00"} {
		b.Run(name, func(b *testing.B) {
			w.must(chromedp.Do(browser, chromedp.Navigate(w.base+path)))
			w.isShown(browser)
			_, err := chromedp.Run(browser, chromedp.Evaluate[any](watchFreezes))
			w.must(err)
			random := rand.New(rand.NewPCG(5, 6))
			var first map[string]float64
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				for range 10 {
					var reports []intent.Report
					for range changes / 10 {
						id := random.IntN(assets)
						if random.IntN(5) == 0 {
							id = random.IntN(100) // Those that the pages show.
						}
						report := intent.Report{Asset: intent.AssetID(numbered(id)), Type: "lehr.command.v1.Command", State: intent.StateInSync, At: time.Now()}
						if random.IntN(2) == 0 {
							report = waits(report.Asset, intent.WaitOrder, fmt.Sprintf("must come after another, %d", random.IntN(1000)), intent.AssetID(numbered(max(0, id-1))))
						}
						reports = append(reports, report)
					}
					w.report(reports...)
				}
				if i == settled {
					first = measure()
				}
				time.Sleep(time.Until(began.Add(time.Second)))
			}
			last := measure()
			frozen, err := chromedp.Run(browser, chromedp.Evaluate[float64](`window.frozen`))
			w.must(err)
			b.ReportMetric(frozen, "longest-freeze-ms")
			b.ReportMetric((last["JSHeapUsedSize"]-first["JSHeapUsedSize"])/1024, "heap-growth-KiB")
			b.ReportMetric(last["JSHeapUsedSize"]/1024, "heap-KiB")
			b.ReportMetric(last["Nodes"]-first["Nodes"], "node-growth")
			b.ReportMetric(last["JSEventListeners"]-first["JSEventListeners"], "listener-growth")
		})
	}
}
