package oidc_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"lehr.dev/internal/access/oidc"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/store"
)

// noTokens has none.
type noTokens struct{ down bool }

func (n noTokens) TokenByID(context.Context, string) (store.Token, error) {
	if n.down {
		return store.Token{}, fault.New(fault.Unavailable, "the store is down")
	}
	return store.Token{}, fault.New(fault.NotFound, "no such token")
}

func (noTokens) CreateToken(_ context.Context, token store.Token, _ int) (store.Token, error) {
	return token, nil
}

func (noTokens) RevokeToken(context.Context, string, string) (store.Token, error) {
	return store.Token{}, nil
}

// guarded is a server's pages, and who logs in to them.
func guarded(i *issuer, tokens oidc.Tokens, secret string) http.Handler {
	urls := []*url.URL{{Scheme: "https", Host: "lehr.example.com"}, {Scheme: "https", Host: "other.example.com:7474"}}
	browsers := oidc.NewBrowsers(i.provider, oidc.NewSessions(tokens, i.time, func() int { return 0 }), urls, secret, slog.New(slog.DiscardHandler))
	return browsers.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { i.Error("a page is shown") }))
}

func ask(handler http.Handler, address string, change ...func(*http.Request)) *http.Response {
	request := httptest.NewRequest(http.MethodGet, address, nil)
	for _, change := range change {
		change(request)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder.Result()
}

func TestWhereABrowserIsLed(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	pages := guarded(i, noTokens{}, "")
	for address, want := range map[string]struct {
		status int
		to     string
	}{
		"https://lehr.example.com/":                 {302, i.server.URL + "/authorize?"},
		"https://other.example.com:7474/partition":  {302, "redirect_uri=https%3A%2F%2Fother.example.com%3A7474%2Flogin%2Fcallback"},
		"https://127.0.0.1:7474/partition/shop?a=b": {302, "https://lehr.example.com/partition/shop"},
		"https://lehr.example.com:9/":               {302, "https://lehr.example.com/"},
		"https://lehr.example.com/static/style.css": {401, ""},
		"https://lehr.example.com/events?of=/":      {401, ""},
		"https://lehr.example.com/login/callback":   {400, ""},
		"https://evil.example/":                     {403, ""},
	} {
		answer := ask(pages, address)
		if to := answer.Header.Get("Location"); answer.StatusCode != want.status || !strings.Contains(to, want.to) {
			t.Errorf("%s: %s to %s", address, answer.Status, to)
		}
	}
	embedded := ask(pages, "https://lehr.example.com/", func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", "navigate")
		r.Header.Set("Sec-Fetch-Dest", "iframe")
	})
	if embedded.StatusCode != http.StatusForbidden {
		t.Errorf("in another site's frame: %s", embedded.Status)
	}
	if answer := ask(guarded(i, noTokens{down: true}, ""), "https://lehr.example.com/"); answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusFound {
		t.Errorf("a browser without a cookie needs no store: %s", answer.Status)
	}
	withCookie := func(r *http.Request) {
		r.AddCookie(&http.Cookie{Name: "__Host-lehr", Value: "lehr_abc_DEF"})
	}
	if answer := ask(guarded(i, noTokens{down: true}, ""), "https://lehr.example.com/", withCookie); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("while the store is down nobody is sent away: %s", answer.Status)
	}
}

// What a login under way needs is sealed, ends, and is known to all who share
// the web client's secret.
func TestALoginUnderWayIsSealed(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	begun := ask(guarded(i, noTokens{}, "shared"), "https://lehr.example.com/")
	flow := begun.Cookies()[0]
	to, err := url.Parse(begun.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	state := to.Query().Get("state")
	if strings.Contains(flow.Value, state) {
		t.Error("the cookie shows the state")
	}
	back := "https://lehr.example.com/login/callback?error=access_denied&state=" + url.QueryEscape(state)
	says := func(name, secret, want string) {
		t.Helper()
		answer := ask(guarded(i, noTokens{}, secret), back, func(r *http.Request) { r.AddCookie(flow) })
		var text strings.Builder
		_ = answer.Write(&text)
		if answer.StatusCode != http.StatusBadRequest || !strings.Contains(text.String(), want) {
			t.Errorf("%s: %s", name, text.String())
		}
	}
	says("at another replica", "shared", "refused the login: access_denied")
	says("at another server", "another", "not in the middle of a login")
	says("at a server without a secret", "", "not in the middle of a login")
	i.now.Add(601)
	says("too late", "shared", "took more than 10m0s")
}
