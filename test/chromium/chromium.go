// Package chromium starts a real browser for the tests of pages.
package chromium

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// path is where Debian installs it.
const path = "/usr/bin/chromium"

// starts is how often a browser is started that ends before it listens: on a small virtual
// machine it crashes at its start now and then, whatever it is to show.
const starts = 4

// Require skips a test on a machine that has no browser, and fails it in CI. what is what
// would not be tested.
func Require(t testing.TB, what string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not tested: %v", what, err)
		}
		t.Skipf("NOT TESTED IN A BROWSER: %s: %v; apt-get install chromium", what, err)
	}
}

// Start starts a browser with a profile of its own, and returns the context of a tab in it,
// which ends with the test or after the limit. The events of the tab's network are on.
func Start(t testing.TB, limit time.Duration, options ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	for attempt := 1; ; attempt++ {
		tab, cancel := open(t, limit, options)
		_, err := chromedp.Call(tab, network.Enable, network.EnableParams{})
		if err == nil {
			t.Cleanup(cancel)
			return tab
		}
		cancel()
		if attempt == starts {
			t.Fatalf("the browser did not start, %d times: %v", starts, err)
		}
		t.Logf("the browser did not start: %v", err)
	}
}

func open(t testing.TB, limit time.Duration, options []chromedp.ExecAllocatorOption) (context.Context, context.CancelFunc) {
	all := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	browser, endBrowser := chromedp.NewExecAllocator(t.Context(), append(all, options...)...)
	tab, endTab := chromedp.NewContext(browser)
	tab, endLimit := context.WithTimeout(tab, limit)
	return tab, func() { endLimit(); endTab(); endBrowser() }
}
