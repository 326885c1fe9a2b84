package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// opensViews opens the saved views by a key, again where the page loaded itself anew in that moment.
func (r *real) opensViews() {
	r.Helper()
	const isOpen = `String(document.getElementById("views")?.open === true)`
	for deadline := time.Now().Add(patience); r.ask(isOpen) != "true"; {
		if time.Now().After(deadline) {
			r.Fatal("v does not open the saved views")
		}
		r.key("v")
		for second := time.Now().Add(time.Second); r.ask(isOpen) != "true" && time.Now().Before(second); {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// namesView opens the saved views by a key, and gives the page a name.
func (r *real) namesView(name string) {
	r.Helper()
	r.opensViews()
	// The protocol sends the character of a key apart from the key, into what has the focus by then.
	r.ask(`document.querySelector("#views-form input").focus(), document.activeElement.value = ""`)
	r.key(name + "\r")
	r.until(`document.getElementById("views-news").textContent.endsWith(" is saved.")`)
}

// TestSavedViews: a reader names a page with its filter by keys alone, comes back to it from another page, and takes
// the name away. What the browser has kept is text, and leads nowhere else, whatever it is.
func TestSavedViews(t *testing.T) {
	r := newReal(t)
	axe := r.axe()
	r.lehr("wait", "web", "--timeout", "60s")
	base := r.in(r.lehr("page"))
	r.visit(base + "/partition/shop?prefix=w&state=&filter=")
	r.until(isLive)
	r.opensViews()
	r.until(`document.getElementById("views-empty").checkVisibility()`)
	r.key("\x1b")
	r.until(`!document.getElementById("views").open`)
	r.namesView("the web " + hostile[0])
	if kept := r.ask(`localStorage.getItem("lehr-views")`); !strings.Contains(kept, `"address":"partition/shop?prefix=w"`) {
		t.Errorf("the browser keeps %s", kept)
	}
	for _, theme := range []string{"light", "dark"} {
		r.scheme(theme)
		r.accessible("saved views in "+theme, axe, `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]`)
	}
	r.width(320)
	r.until(`document.getElementById("views").scrollWidth <= document.getElementById("views").clientWidth && document.documentElement.scrollWidth === 320`)
	r.width(1280)

	// From another page, the first link has the focus.
	r.visit(base + "/")
	r.until(isLive)
	r.opensViews()
	r.until(`document.activeElement.matches("#views-list a")`)
	if text := r.ask(`document.activeElement.textContent`); text != "the web "+hostile[0] {
		t.Errorf("the view is named %q", text)
	}
	r.key("\r")
	r.until(`location.pathname.endsWith("/partition/shop") && location.search === "?prefix=w" && ` + isLive)

	// A second one of the same name takes its place; of others, those of the partition come first.
	r.visit(base + "/inbox")
	r.until(isLive)
	r.namesView("a list")
	r.namesView("a list")
	r.visit(base + "/partition/shop")
	r.until(isLive)
	r.opensViews()
	if names := r.ask(`[...document.querySelectorAll("#views-list a")].map(a => a.textContent).join("|")`); names != "the web "+hostile[0]+"|a list" {
		t.Errorf("the views are %s", names)
	}
	r.ask(`document.querySelector("#views-list button").focus(), ""`)
	r.key("\r")
	r.until(`document.querySelectorAll("#views-list a").length === 1 && document.activeElement.ariaLabel === "remove a list"`)
	r.key("\r")
	r.until(`document.querySelectorAll("#views-list a").length === 0 && document.activeElement.name === "name"`)

	// What is no view is left out, and what is one is text.
	r.ask(`localStorage.setItem("lehr-views", JSON.stringify([null, 1, {name: 1, address: ""}, {name: "a", address: "javascript:document.title=1"},
		{name: "b", address: "https://example.com/"}, {name: "c", address: "//example.com/"}, {name: "d", address: "../../etc"}, {name: "<img src=x onerror=document.title=1>", address: "inbox"}])), ""`)
	r.visit(base + "/")
	r.until(isLive)
	r.opensViews()
	if shown := r.ask(`[...document.querySelectorAll("#views-list a")].map(a => a.textContent + " " + a.href).join("|")`); shown != "<img src=x onerror=document.title=1> "+base+"/inbox" {
		t.Errorf("the views are %s", shown)
	}
	r.ask(`localStorage.setItem("lehr-views", "{"), ""`)
	r.visit(base + "/")
	r.until(isLive)
	r.opensViews()
	r.until(`document.getElementById("views-empty").checkVisibility() && document.querySelectorAll("main img").length === 0`)
	r.quiet()

	// Without script there is nothing to press.
	_, err := chromedp.Call(r.browser, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	r.must(err)
	r.visit(base + "/")
	// Chromium still answers the protocol.
	if shown := r.ask(`String(document.getElementById("views-button").checkVisibility())`); shown != "false" {
		t.Errorf("without script the button is there")
	}
}
