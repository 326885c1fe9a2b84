package web

import (
	"net/url"
	"testing"
)

// FuzzAddress: a page's address is read as it is written.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"/", "/partition/shop", "/partition/shop/asset/a/b?at=shop@1", "/partition/%2e%2e/asset/%00", "/partition//asset/x", "/partition/x/assets?filter=%28%28", "//partition/x", "/partition/x/incarnation/1?a=1&a=2;b", "/partition/\x1b[31m", "inbox", "partition/shop/act/hold?asset=a", "./"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		at, err := parseAddress(u)
		if err != nil {
			return
		}
		written, err := url.Parse(at.String())
		if err != nil {
			t.Fatalf("%q is written as %q: %v", text, at, err)
		}
		if again, err := parseAddress(written); err != nil || again.String() != at.String() {
			t.Errorf("%q is written as %q, and read as %q: %v", text, at, again, err)
		}
	})
}
