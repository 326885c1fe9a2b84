package web_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

const rolling = `validate: {shrink: {floor: 1}}
rollouts:
  site:
    select: id != "db"
    stages:
      - {name: canary, where: id == "api", soak: 1s}
      - {name: rest, rest: true, count: 1, soak: 1s, approval: {quorum: 1}}
`

// approvesStage approves the stage that the page shows, by keys: the confirmation says what of, and nothing begins
// before that.
func (r *real) approvesStage() {
	r.Helper()
	button := `Array.from(document.querySelectorAll("a.button")).find(a => a.textContent === "Approve the stage")`
	r.until(button + ` !== undefined`)
	if text := r.ask(`document.getElementById("rollout").innerText`); !strings.Contains(text, "0 of 1") {
		r.Errorf("the page asks for no approval: %s", text)
	}
	r.ask(button + `.focus(), ""`)
	r.key("\r")
	r.until(`document.activeElement.name === "reason"`)
	if text := r.ask(`document.querySelector("main").innerText`); !strings.Contains(text, "rest") || !strings.Contains(text, "site") {
		r.Errorf("the confirmation does not say which stage: %s", text)
	}
	if status := r.lehr("rollout", "status", "site"); !strings.Contains(status, "0 of 1") {
		r.Errorf("a look at the confirmation approved the stage:\n%s", status)
	}
	r.key("it looks good " + hostile[0] + "\r")
	r.until(`document.getElementById("done") !== null`)
	if status := r.lehr("rollout", "status", "site"); !strings.Contains(status, "1 of 1") || !strings.Contains(status, "it looks good") {
		r.Errorf("the stage is not approved:\n%s", status)
	}
	r.key("\r") // Back to the rollout, which has the focus.
	r.until(`location.pathname.endsWith("/partition/shop/rollout/site") && ` + isLive)
}

// TestRolloutInABrowser follows a rollout of real assets: it waits for what a person
// holds, is paused, and goes on, without the page being loaded again.
func TestRolloutInABrowser(t *testing.T) {
	r := newReal(t)
	r.lehr("wait", "--timeout", "30s")
	r.write("lehr.yaml", definition+rolling)
	r.lehr("rollout", "status", "site")
	base := r.in(r.lehr("page"))
	r.until(isLive)
	// What the next publication does not change is governed too.
	if pins := r.lehr("get", "pins"); strings.Count(pins, "rollout/site") != 3 {
		t.Errorf("not all that it selects is pinned:\n%s", pins)
	}
	r.lehr("hold", "api", "--reason", "moving racks "+hostile[0])
	r.want("v2")

	// From the list by keys to the board, down to what it waits for.
	r.visit(base + "/partition/shop/rollouts")
	r.until(isLive)
	r.until(`document.getElementById("row:site").innerText.includes("moving racks")`)
	r.key("j")
	r.key("\r")
	r.until(`location.pathname.endsWith("/partition/shop/rollout/site") && ` + isLive)
	stages := `document.querySelector(".stages").innerText`
	r.until(stages + `.includes("canary to come") || ` + stages + `.includes("canary under way")`)
	r.until(`document.getElementById("rollout").innerText.includes("moving racks")`)
	r.ask(`window.same = true, ""`)
	r.lehr("rollout", "pause", "site", "--reason", hostile[1])
	r.until(`document.getElementById("rollout").innerText.includes("Paused") && document.getElementById("orders").innerText.includes("lehr rollout resume site")`)
	if text := r.ask(`document.getElementById("rollout").innerText`); !strings.Contains(text, hostile[1]) {
		t.Errorf("it does not say why it is paused: %s", text)
	}
	r.lehr("unhold", "api", "--reason", "over")
	r.lehr("rollout", "resume", "site", "--reason", "over")
	r.approvesStage()
	r.ask(`window.same = true, ""`)
	r.until(`document.getElementById("rollout").innerText.includes("done") && ` + stages + `.includes("rest done") && window.same`)
	if text := r.ask(`document.getElementById("events").innerText`); !strings.Contains(text, "resume") || !strings.Contains(text, "goes on: api") {
		t.Errorf("the events are %s", text)
	}
	// In a narrow window nothing is cut off, and a command is no column of letters.
	_, err := chromedp.Call(r.browser, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 400, Height: 800, DeviceScaleFactor: 1})
	r.must(err)
	r.until(`document.documentElement.scrollWidth <= 400 && [...document.querySelectorAll("#orders code")].every(c => c.offsetWidth > 200)`)
	_, err = chromedp.Call(r.browser, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1200, Height: 800, DeviceScaleFactor: 1})
	r.must(err)
	r.key("j")
	if focused := r.ask(`document.activeElement.className`); focused != "name" && focused != "" {
		t.Errorf("j leads to %q", focused)
	}
	r.visit(base + "/partition/shop/runs/site")
	r.until(isLive)
	r.until(`document.querySelector("tbody").innerText.includes("done")`)
	if found := r.ask(`String(document.querySelectorAll("img, iframe, main script, main [onerror], main style").length)`); found != "0" {
		t.Errorf("%s elements were brought by a text", found)
	}
	if title := r.ask(`document.title`); title != "Runs of site · Lehr" {
		t.Errorf("the title is %q", title)
	}
	axe := r.axe()
	for _, path := range rolloutPaths {
		r.examines(base, path, axe)
	}
	r.visit(base + "/partition/shop/asset/api?at=1s")
	r.reflows("an asset as it was")
	r.width(1200)
	r.reviewsCandidate(base)
	r.quiet()
}

// reviewsCandidate goes from the list of candidates to one that a guard holds, looks at what its pushes would do,
// and lets it through there, by keys. Until then production and head stay as they are.
func (r *real) reviewsCandidate(base string) {
	r.Helper()
	r.write("source/service.yaml", "folder: "+r.folder+"/production\nitems:\n  db: {text: \"db v3 "+hostile[0]+"\"}\n")
	r.visit(base + "/partition/shop/candidates")
	r.until(isLive)
	r.until(`document.querySelector("tbody tr").innerText.includes("held")`)
	r.ask(`document.querySelector("tbody a").focus(), ""`)
	r.key("\r")
	link := `Array.from(document.querySelectorAll("main a")).find(a => a.textContent === "What its pushes would do")`
	r.until(`location.pathname.includes("/partition/shop/candidate/") && ` + link + ` !== undefined`)
	// What it changes, field by field, is there without asking production.
	r.until(`document.getElementById("changes").innerText.includes("db v3")`)
	r.ask(link + `.focus(), ""`)
	r.key("\r")
	r.until(`location.search === "?plan=1" && document.getElementById("planned") !== null`)
	planned := r.ask(`document.getElementById("planned").innerText`)
	for _, want := range []string{"1 asset would be pushed", "WOULD LEAVE INTENT", "api", "evil", "web", "not as it should be", "lehr plan --candidate"} {
		if !strings.Contains(strings.ToUpper(planned), strings.ToUpper(want)) {
			r.Errorf("what it would do does not say %q: %s", want, planned)
		}
	}
	if now := r.lehr("get", "partitions"); !strings.Contains(now, "shop@3") {
		r.Errorf("looking changed head: %s", now)
	}
	r.reflows("what the pushes of a candidate would do")
	r.width(1200)
	r.ask(`Array.from(document.querySelectorAll("a.button")).find(a => a.textContent === "Let it through").focus(), ""`)
	r.key("\r")
	r.until(`document.activeElement.name === "reason"`)
	if form := r.ask(`document.querySelector("main").innerText`); !strings.Contains(form, "1 asset would be pushed") {
		r.Errorf("the form does not say what its pushes would do: %s", form)
	}
	r.key("they move to another partition\r")
	r.until(`document.getElementById("done") !== null`)
	r.lehr("wait", "db", "--timeout", "30s")
	if content, err := os.ReadFile(filepath.Join(r.folder, "production", "db")); err != nil || !strings.Contains(string(content), "db v3") {
		r.Errorf("production has %s, %v", content, err)
	}
	if _, err := os.Stat(filepath.Join(r.folder, "production", "web")); err != nil {
		r.Errorf("what left intent is gone from production: %v", err)
	}
}
