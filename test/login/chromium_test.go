package login

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/test/chromium"
)

// A person logs in with a real browser, sees pages that are live, and logs out.
func TestInChromium(t *testing.T) {
	w := newWorld(t)
	chromium.Require(t, "logging in")
	named := "https://lehr.test:" + w.port()
	w.provider.allow(named + "/login/callback")
	w.serve("--url", named)
	// It believes this certificate's key, and no other that it does not know.
	key := sha256.Sum256(w.presented().RawSubjectPublicKeyInfo)
	browser := chromium.Start(t, 2*patience, chromedp.Flag("host-resolver-rules", "MAP lehr.test 127.0.0.1"),
		chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(key[:])))
	c := &chrome{t, browser}

	c.visit(named + "/partition/shop")
	c.until(`location.origin === "` + w.provider.issuer + `" && document.querySelector("input[name=user]")`)
	c.ask(`document.querySelector("input[name=user]").value = "ann", document.querySelector("input[name=password]").value = "` + password + `", ""`)
	c.ask(`document.querySelector("form").submit(), ""`)
	c.until(`location.href === "` + named + `/partition/shop" && document.getElementById("status")?.textContent === "live"`)
	if text := c.ask(`document.querySelector("header").innerText`); !strings.Contains(text, "ann@example.com") {
		t.Errorf("the page does not say who is logged in: %s", text)
	}
	if cookies := c.ask(`document.cookie`); cookies != "" {
		t.Errorf("scripts see the cookies %s", cookies)
	}
	// A page of hers that is open says so when her session ends.
	sessions, err := w.here().Auth.ListTokens(t.Context(), &apipb.ListTokensRequest{})
	if err != nil || len(sessions.Tokens) != 1 {
		t.Fatalf("sessions: %v, %v", sessions, err)
	}
	w.revoke(sessions.Tokens[0].Id)
	c.until(`document.getElementById("status").textContent.includes("not logged in any more")`)
	// Loaded again, it leads to the provider.
	c.visit(named + "/")
	c.until(`location.origin === "` + w.provider.issuer + `"`)
	c.ask(`document.querySelector("input[name=user]").value = "ann", document.querySelector("input[name=password]").value = "` + password + `", ""`)
	c.ask(`document.querySelector("form").submit(), ""`)
	c.until(`location.href === "` + named + `/" && document.querySelector("a[href='logout']")`)
	c.ask(`document.querySelector("a[href='logout']").click(), ""`)
	c.until(`document.body.innerText.includes("You are logged out")`)
	c.ask(`document.querySelector("a").click(), ""`)
	c.until(`location.origin === "` + w.provider.issuer + `"`)
}

type chrome struct {
	*testing.T
	browser context.Context
}

func (c *chrome) visit(address string) {
	c.Helper()
	if err := chromedp.Do(c.browser, chromedp.Navigate(address)); err != nil {
		c.Fatalf("%s: %v", address, err)
	}
}

// ask evaluates an expression in the page.
func (c *chrome) ask(expression string) string {
	c.Helper()
	answer, err := chromedp.Run(c.browser, chromedp.Evaluate[string](expression))
	if err != nil {
		c.Fatalf("%s: %v", expression, err)
	}
	return answer
}

// until waits for an expression to be true in the page, also across loading
// another.
func (c *chrome) until(expression string) {
	c.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		is, err := chromedp.Run(c.browser, chromedp.Evaluate[bool](`Boolean(`+expression+`)`))
		if err == nil && is {
			return
		}
		if time.Now().After(deadline) || c.browser.Err() != nil {
			text, _ := chromedp.Run(c.browser, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
			c.Fatalf("it does not become so that %s: %v; the page:\n%s", expression, err, text)
		}
	}
}
