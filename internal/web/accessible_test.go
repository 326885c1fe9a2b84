package web_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// axeRun asks axe-core (testdata/axe.min.js.gz, version 4.14.1, MPL 2.0, from the npm package axe-core: npm pack axe-core, and gzip -9 -n)
// for what a page breaks of WCAG 2.2 A and AA.
const axeRun = `%s
;axe.run(document, {runOnly: %s, resultTypes: ["violations"]}).then(found => found.violations.map(v => v.id + ": " + v.nodes.map(n => n.html.slice(0, 200)).join(" | ")).join("\n"))`

// TestAccessible: axe-core finds nothing on the pages in light and dark, and at 320 pixels
// nothing but what scrolls within its frame is wider than the window.
func TestAccessible(t *testing.T) {
	r := newReal(t)
	compressed, err := os.Open("testdata/axe.min.js.gz")
	r.must(err)
	defer compressed.Close()
	reader, err := gzip.NewReader(compressed)
	r.must(err)
	axe, err := io.ReadAll(reader)
	r.must(err)
	r.lehr("wait", "web", "--timeout", "60s")
	r.lehr("hold", "db", "--reason", "moving racks", "--for", "2h")
	r.want("v2")
	base := r.in(r.lehr("page"))
	r.until(`document.getElementById("wrong").innerText.includes("moving racks")`)
	paths := []string{
		"/", "/inbox", "/calendar", "/calendar?view=month", "/search?q=web", "/partition/shop", "/partition/shop/asset/web", "/partition/shop/asset/db?diff=unified",
		"/partition/shop/provenance/web?field=payload.input", "/partition/shop/references/db", "/partition/shop/timeline/web", "/partition/shop/groups", "/partition/shop/group/site",
		"/partition/shop/graph/site", "/partition/shop/graph/site?view=tree", "/partition/shop/causes", "/partition/shop/incarnations", "/partition/shop/incarnation/1",
		"/partition/shop/candidates", "/partition/shop/rollouts", "/partition/shop/delivery", "/partition/shop/orphans", "/partition/shop/act/hold?asset=web", "/nothing",
	}
	for _, path := range paths {
		r.scheme("light")
		r.visit(base + path)
		r.accessible(path+" in light", string(axe), `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]`)
		r.scheme("dark") // Nothing but colours differs.
		r.accessible(path+" in dark", string(axe), `{type: "rule", values: ["color-contrast", "link-in-text-block"]}`)
		r.width(320)
		if wide := r.ask(`String(document.documentElement.scrollWidth)`); wide != "320" {
			t.Errorf("%s is %s pixels wide in a window of 320", path, wide)
		}
		r.accessible(path+" at 320 pixels", string(axe), `{type: "rule", values: ["target-size"]}`)
		r.width(1280)
	}
	// Who asks for little motion gets none.
	_, err = chromedp.Call(r.browser, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}})
	r.must(err)
	r.visit(base + "/partition/shop")
	if moves := r.ask(`document.querySelector("tbody tr").classList.add("fresh"), getComputedStyle(document.querySelector("tbody tr")).animationName`); moves != "none" {
		t.Errorf("a row that changes is animated by %s", moves)
	}
}

// accessible runs axe-core on the page as it is. A page that loads itself anew meanwhile, for it
// has other parts, is asked again.
func (r *real) accessible(name, axe, rules string) {
	r.Helper()
	r.until(`document.readyState === "complete"`) // With its style sheet.
	for deadline := time.Now().Add(patience); ; {
		found, err := chromedp.Run(r.browser, chromedp.Evaluate[string](fmt.Sprintf(axeRun, axe, rules), chromedp.EvalAwaitPromise))
		if err == nil {
			if found != "" {
				r.Errorf("%s: %s", name, found)
			}
			return
		}
		if time.Now().After(deadline) || r.browser.Err() != nil {
			r.Fatalf("%s cannot be examined: %v", name, err)
		}
	}
}

// scheme sets the theme that a person prefers.
func (r *real) scheme(name string) {
	r.Helper()
	_, err := chromedp.Call(r.browser, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
	r.must(err)
}

func (r *real) width(pixels int64) {
	r.Helper()
	_, err := chromedp.Call(r.browser, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: pixels, Height: 800, DeviceScaleFactor: 1})
	if err != nil {
		r.Fatal(fmt.Errorf("cannot make the window %d pixels wide: %w", pixels, err))
	}
}
