package web_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store"
	"lehr.dev/internal/web"
	"lehr.dev/test/chromium"
)

// axeRun asks axe-core (testdata/axe.min.js.gz, version 4.14.1, MPL 2.0, from the npm package axe-core: npm pack axe-core, and gzip -9 -n)
// for what a page breaks of WCAG 2.2 A and AA.
const axeRun = `%s
;axe.run(document, {runOnly: %s, resultTypes: ["violations"]}).then(found => found.violations.map(v => v.id + ": " + v.nodes.map(n => n.html.slice(0, 200)).join(" | ")).join("\n"))`

// printed is what is wrong with a page on paper: what acts or leads away is there, or text of it is cut off or
// not shown.
const printed = `(() => {
  const faults = [];
  const tell = (what, node) => faults.push(what + ": " + (node.outerHTML || node.textContent).slice(0, 160));
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && element.getClientRects().length > 0;
  for (const element of document.querySelectorAll("form, button, input, select, textarea, dialog, header, nav, .skip, .acts, .button, .views, .back")) {
    if (isShown(element)) tell("it is printed", element);
  }
  const main = document.getElementById("main");
  const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode, parent = text.parentElement;
    if (!text.textContent.trim() || parent.closest("form, button, .acts, .button, .views, .back, .hidden, title, time")) continue;
    if (!isShown(parent)) { tell("it is not printed", text); continue; }
    const range = document.createRange();
    range.selectNodeContents(text);
    for (const place of range.getClientRects()) {
      if (place.left < -1 || place.right > innerWidth + 1) { tell("it is cut off", text); break; }
    }
  }
  for (const element of main.querySelectorAll("*")) {
    const style = getComputedStyle(element);
    const frames = [[style.overflowX, element.scrollWidth, element.clientWidth], [style.overflowY, element.scrollHeight, element.clientHeight]];
    if (!element.closest("svg") && frames.some(([overflow, all, shown]) => overflow !== "visible" && all > shown)) tell("it is cut off by its frame", element);
  }
  for (const time of main.querySelectorAll("time")) {
    if (!isShown(time)) continue;
    const after = getComputedStyle(time, "::after");
    if (!after.content.includes("UTC") || parseFloat(after.fontSize) < 8) tell("it is no time on paper", time);
  }
  return faults.join("\n");
})()`

// reflowed is what of a page needs a second direction to scroll in, in a narrow window: the page itself, or a frame that
// no key reaches or that has no name.
const reflowed = `(() => {
  const faults = [], root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) faults.push("the page is " + root.scrollWidth + " pixels wide in a window of " + root.clientWidth);
  for (const element of document.querySelectorAll("main *")) {
    if (element.closest("svg") || element.matches("input, select") || element.scrollWidth <= element.clientWidth || element.clientWidth === 0) continue;
    if (!["auto", "scroll", "hidden"].includes(getComputedStyle(element).overflowX)) continue;
    if (element.role !== "region" || element.tabIndex !== 0 || !(element.ariaLabel || element.getAttribute("aria-labelledby"))) faults.push("it scrolls, and has no name or no key reaches it: " + element.outerHTML.slice(0, 160));
  }
  return faults.join("\n");
})()`

// reflows checks the page as it is in a window of 320 pixels, and that a table there has no column of letters.
func (r *real) reflows(name string) {
	r.Helper()
	r.width(320)
	r.until(`document.readyState === "complete"`)
	faults := r.ask(reflowed)
	// The script notices shortly after that the window is another.
	for deadline := time.Now().Add(5 * time.Second); faults != "" && time.Now().Before(deadline); faults = r.ask(reflowed) {
		time.Sleep(50 * time.Millisecond)
	}
	if faults != "" {
		r.Errorf("%s at 320 pixels: %s", name, faults)
	}
	const narrow = `[...document.querySelectorAll("main tbody th")].filter(e => e.clientWidth > 0 && e.clientWidth < 64).map(e => e.outerHTML.slice(0, 160)).join("\n")`
	if found := r.ask(narrow); found != "" {
		r.Errorf("%s at 320 pixels has names in a column of letters: %s", name, found)
	}
}

// prints checks the page as it would be on A4 with margins of 10 mm.
func (r *real) prints(name string) {
	r.Helper()
	_, err := chromedp.Call(r.browser, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	r.must(err)
	r.width(718)
	if faults := r.ask(printed); faults != "" {
		r.Errorf("%s on paper: %s", name, faults)
	}
	// What is no page has no address of its own.
	if name != "/nothing" && !strings.Contains(r.ask(`document.querySelector(".printed").innerText`), strings.TrimPrefix(name, "/")) {
		r.Errorf("%s on paper does not say where it is from", name)
	}
	_, err = chromedp.Call(r.browser, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	r.must(err)
}

// accessiblePaths are examined by TestAccessible, and deliveryPaths by TestDeliveryIsAccessible, rolloutPaths by
// TestRolloutInABrowser, and taskPaths, with an id for each %s, by TestTenTasks.
var (
	accessiblePaths = []string{
		"/", "/inbox", "/calendar", "/calendar?view=month", "/search?q=web", "/partition/shop", "/partition/shop/asset/web", "/partition/shop/asset/db?diff=unified",
		"/partition/shop/provenance/web?field=payload.input", "/partition/shop/references/db", "/partition/shop/timeline/web", "/partition/shop/groups", "/partition/shop/group/site",
		"/partition/shop/graph/site", "/partition/shop/graph/site?view=tree", "/partition/shop/causes", "/partition/shop/incarnations", "/partition/shop/incarnation/1",
		"/partition/shop/candidates", "/partition/shop/rollouts", "/partition/shop/delivery", "/partition/shop/previews", "/partition/shop/workflows", "/partition/shop/workflow-run/1", "/partition/shop/act/workflow-start?workflow=promote",
		"/partition/shop/orphans", "/partition/shop/act/hold?asset=web", "/nothing",
		"/audit", "/access", "/server", "/partition/shop/plugins", "/partition/shop/notifications",
		"/act/token-create", "/act/partition-add", "/partition/shop/act/partition-remove",
	}
	deliveryPaths = []string{
		"/board", "/board?environment=production", "/partition/shop/changelog?application=web", "/partition/shop/changelog?application=web&from=1.0.0&to=1.1.0",
		"/partition/shop/act/approve-together", "/partition/shop/delivery", "/partition/shop/version/1.1.0?application=web", "/partition/shop/environment/production?application=web", "/partition/shop/releases?line=main",
		"/partition/shop/release/1?line=main", "/partition/shop/documents", "/partition/shop/document/knobs", "/partition/shop/act/document-set?document=knobs", "/partition/shop/incarnation/1?from=1", "/partition/shop/act/abort-release?line=main&release=1",
		"/partition/shop/judgement/20261130T120000Z/frontends@3/canary/errors", "/partition/shop/act/release-create?line=main", "/partition/shop/act/release-create?line=main&versions=web%3D1.1.0", "/partition/shop/previews", "/partition/shop/plugins",
		"/audit?actor=ann&partition=shop", "/audit?partition=shop&verify=yes", "/access?name=eve&role=approver",
	}
	rolloutPaths = []string{"/partition/shop/rollouts", "/partition/shop/rollout/site", "/partition/shop/runs/site", "/partition/shop/act/rollout-start?rollout=site"}
	taskPaths    = []string{"/commit?revision=%s", "/calendar?from=%s", "/partition/shop/candidate/%s", "/partition/shop/push/%s", "/partition/shop/asset/database"}
)

// TestEveryKindOfPageIsExamined: no kind of page is left out where pages are examined by axe-core.
func TestEveryKindOfPageIsExamined(t *testing.T) {
	examined := map[string]bool{}
	for _, path := range slices.Concat(accessiblePaths, deliveryPaths, rolloutPaths, taskPaths) {
		path, _, _ = strings.Cut(path, "?")
		kind, isOfPartition := strings.CutPrefix(path, "/partition/shop")
		kind, _, _ = strings.Cut(strings.TrimPrefix(kind, "/"), "/")
		if isOfPartition && kind == "" {
			kind = "partition"
		}
		examined[kind] = true
	}
	for _, kind := range web.Kinds() {
		if !examined[kind] {
			t.Errorf("no page of the kind %q is examined", kind)
		}
	}
}

// TestDeliveryIsAccessible is TestAccessible of pages of delivery, and of those that tell how Lehr itself does.
func TestDeliveryIsAccessible(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	chromium.Require(t, "the pages of delivery")
	w := newWorld(t)
	w.deliver(func(p *intentpb.Policy) {
		p.Deliveries[0].Releases = "shop/main"
		p.ReleaseLines = []*intentpb.ReleaseLine{{Name: "main", Applications: []string{"shop/web", "gone/mail"}}}
		p.Previews = []*intentpb.PreviewRule{{Name: "review", Before: "preview/", After: "/", Generator: "review", Source: "shop", Branches: []string{"*"}, AtMost: 10}}
		p.Plugins = []*intentpb.PluginBinding{{Type: "lehr.command.v1.Command", Run: []string{"lehr-command"}}, {Type: "lehr.process.v1.Job", Run: []string{"lehr-process"}}}
	})
	_, err := w.store.SavePreviews(t.Context(), w.lease, "review", document.Edit{Reason: "a try", Operations: []document.Operation{
		{Path: "/feature-cart", Value: json.RawMessage(`{"branch": "feature/cart", "commit": "0123456789abcdef", "url": "https://cart.example.com", "created_at": "2026-11-28T08:00:00Z", "expires_at": "2026-12-05T08:00:00Z"}`)},
		{Path: "/pr-7", Value: json.RawMessage(`{"branch": "menu", "commit": "fedcba", "pull_request": 7, "created_at": "2026-11-28T08:00:00Z", "expires_at": "2026-12-05T08:00:00Z", "ending": {"since": "2026-11-29T08:00:00Z", "cause": "pull-request-closed"}}`)},
	}})
	w.must(err)
	_, err = w.store.RecordDelivery(t.Context(), intent.DeliveryRecord{
		Partition: "shop", Application: "main", Kind: intent.DeliveryRelease, By: ann, Reason: "the week",
		Versions: map[string]intent.VersionName{"shop/web": {Name: "1.1.0", Digest: "sha256:b"}, "gone/mail": {Name: "2.0.0"}},
	}, store.DeliveryAuthority{Partition: "shop", AnyOf: []intent.Role{intent.Operator}})
	w.must(err)
	w.judged()
	w.asked = func(binding *intentpb.PluginBinding) server.AskedPlugin {
		if binding.Run[0] == "lehr-process" {
			return server.AskedPlugin{Problem: errors.New("it ended: exit status 1")}
		}
		return server.AskedPlugin{Name: "lehr-command", Version: "1", Types: []server.ServedType{{Type: "lehr.command.v1.Command", Guarantee: "N", LongestEffect: 10 * time.Second}}}
	}
	r := &real{T: t, asked: map[string]bool{}}
	r.open()
	base, axe := r.in(w.link()), r.axe()
	r.until(isLive)
	for _, path := range deliveryPaths {
		r.examines(base, path, axe)
	}
	r.quiet()
}

// TestAccessible: axe-core finds nothing on the pages in light and dark, and at 320 pixels
// nothing but what scrolls within its frame is wider than the window.
func TestAccessible(t *testing.T) {
	r := newReal(t)
	axe := r.axe()
	r.lehr("wait", "web", "--timeout", "60s")
	r.lehr("hold", "db", "--reason", "moving racks", "--for", "2h")
	r.want("v2")
	r.lehr("workflow", "run", "promote", "--input", "version=v2", "--reason", "a try")
	base := r.in(r.lehr("page"))
	r.until(`document.getElementById("wrong").innerText.includes("moving racks")`)
	for _, path := range accessiblePaths {
		r.examines(base, path, axe)
	}
	// On paper it is said where a link leads whose text does not say it.
	r.visit(base + "/partition/shop/asset/web")
	_, err := chromedp.Call(r.browser, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	r.must(err)
	r.until(`getComputedStyle(document.querySelector("#pushes td a"), "::after").content.includes("/push/")`)
	r.followsAPush(base, axe)
	// Who asks for little motion gets none.
	_, err = chromedp.Call(r.browser, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}})
	r.must(err)
	r.visit(base + "/partition/shop")
	if moves := r.ask(`document.querySelector("tbody tr").classList.add("fresh"), getComputedStyle(document.querySelector("tbody tr")).animationName`); moves != "none" {
		t.Errorf("a row that changes is animated by %s", moves)
	}
}

// axe is the text of axe-core.
func (r *real) axe() string {
	r.Helper()
	compressed, err := os.Open("testdata/axe.min.js.gz")
	r.must(err)
	defer compressed.Close()
	reader, err := gzip.NewReader(compressed)
	r.must(err)
	axe, err := io.ReadAll(reader)
	r.must(err)
	return string(axe)
}

// examines looks at a page in light and dark, in a narrow window, and on paper.
func (r *real) examines(base, path, axe string) {
	r.Helper()
	r.scheme("light")
	r.visit(base + path)
	r.accessible(path+" in light", axe, `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]`)
	r.savePicture(path, "light")
	r.scheme("dark") // Nothing but colours differs.
	r.savePicture(path, "dark")
	r.accessible(path+" in dark", axe, `{type: "rule", values: ["color-contrast", "link-in-text-block"]}`)
	r.reflows(path)
	r.accessible(path+" at 320 pixels", axe, `{type: "rule", values: ["target-size"]}`)
	r.prints(path)
	r.width(1280)
}

// savePicture writes a picture of the page into the folder of LEHR_SCREENSHOTS, for people who look at all pages.
func (r *real) savePicture(path, scheme string) {
	r.Helper()
	folder := os.Getenv("LEHR_SCREENSHOTS")
	if folder == "" {
		return
	}
	r.until(`document.readyState === "complete"`)
	picture, err := chromedp.Run(r.browser, chromedp.FullScreenshot(100))
	r.must(err)
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' {
			return c
		}
		return '-'
	}, strings.TrimPrefix(path, "/"))
	r.must(os.WriteFile(filepath.Join(folder, scheme+"-"+name+".png"), picture, 0o644))
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

// followsAPush looks at the page of an asset while it is pushed: what its plugin tells comes by itself, as text, and goes
// with the push.
func (r *real) followsAPush(base, axe string) {
	r.Helper()
	r.scheme("light")
	r.write("production/api.wait", "")
	// The push that is looked at is of the newest: one of v2 would be stopped when v3 comes.
	r.want("v3")
	r.untilSaid("shop@3", "get", "partitions")
	r.lehr("unhold", "db", "--reason", "over")
	r.visit(base + "/partition/shop/asset/api")
	r.until(isLive)
	r.ask(`window.same = true, ""`)
	lines := `document.getElementById("progress").innerText`
	r.until(lines + `.includes("step 3 <script>document.title=1</script> \\x1b[31m") && window.same`)
	r.accessible("an asset under way", axe, `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]`)
	r.until(`document.getElementById("progress-heading")`) // The page may have loaded itself anew.
	push := r.ask(`document.getElementById("progress-heading").innerText.split(" ").pop()`)
	if text := r.lehr("describe", "push", push); !strings.Contains(text, `step 1 <script>document.title=1</script> \x1b[31m`) {
		r.Errorf("lehr describe push does not tell what the plugin tells:\n%s", text)
	}
	r.must(os.Remove(r.folder + "/production/api.wait"))
	r.until(lines + `.trim() === "" && window.same`)
}
