package app_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/access"
	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/prodspec/generate"
)

// A browser that was let in reads pages, and its cookie opens no call; the
// token opens calls, and no page.
func TestPagesAndCallsAreGuardedApart(t *testing.T) {
	options := app.DefaultOptions()
	options.Store = filepath.Join(t.TempDir(), "lehr.db")
	options.Register = map[intent.PartitionID]string{"one": partition(t, "one", "a")}
	options.Log = slog.New(slog.DiscardHandler)
	options.Parts.Plugins = func([]string) plugin.Plugin { return newProduction() }
	options.Parts.Runner = generate.InProcess{Limits: generate.DefaultLimits()}
	running, err := app.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer running.Stop(context.Background())
	address := running.Address()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	in, out := &http.Client{Jar: jar}, &http.Client{}
	pages := access.PagePath(address.Token)
	const call = "/lehr.api.v1.PartitionService/ListPartitions"
	for _, test := range []struct {
		name         string
		browser      *http.Client
		method, path string
		token        string
		status       int
		says         string
	}{
		{"by the link", in, "GET", strings.TrimPrefix(access.PageLink(address.URL, address.Token), address.URL), "", 200, "partition/one"},
		{"a page", in, "GET", pages + "/partition/one", "", 200, "Partition one"},
		{"a call with the cookie", in, "POST", call, "", 401, "token"},
		{"a call with the token", out, "POST", call, address.Token, 200, `"id":"one"`},
		{"a page with the token", out, "GET", pages + "/partition/one", address.Token, 401, "lehr page"},
		{"a page with nothing", out, "GET", pages + "/", "", 401, "lehr page"},
		{"a stream with nothing", out, "GET", pages + "/events?of=/", "", 401, "lehr page"},
		{"a stylesheet with nothing", out, "GET", pages + "/static/style.css", "", 401, "lehr page"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), test.method, address.URL+test.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if test.token != "" {
			request.Header.Set("Authorization", "Bearer "+test.token)
		}
		answer, err := test.browser.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != test.status || !strings.Contains(string(body), test.says) {
			t.Errorf("%s: answered %s, want %d saying %q: %.300s", test.name, answer.Status, test.status, test.says, body)
		}
	}
}
