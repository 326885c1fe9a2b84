package fetch

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lehr.dev/internal/external/githost"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// pulls is a small host of pull requests; people merge with git.
type pulls struct {
	requests []map[string]any
}

func (p *pulls) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPatch:
		var number int
		_, _ = fmt.Sscanf(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], "%d", &number)
		p.requests[number-1]["state"] = "closed"
		_ = json.NewEncoder(w).Encode(p.requests[number-1])
	case r.Method == http.MethodPost:
		var sent map[string]any
		if json.NewDecoder(r.Body).Decode(&sent) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		made := map[string]any{"number": len(p.requests) + 1, "state": "open", "head": sent["head"], "title": sent["title"], "body": sent["body"]}
		p.requests = append(p.requests, made)
		_ = json.NewEncoder(w).Encode(made)
	case strings.HasSuffix(r.URL.Path, "/pulls"):
		list := []map[string]any{}
		for i := len(p.requests) - 1; i >= 0; i-- {
			one := p.requests[i]
			if state := r.URL.Query().Get("state"); r.URL.Query().Get("head") == fmt.Sprintf("team:%s", one["head"]) && (state == "all" || state == one["state"]) {
				list = append(list, one)
			}
		}
		_ = json.NewEncoder(w).Encode(list)
	default:
		var number int
		_, _ = fmt.Sscanf(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], "%d", &number)
		_ = json.NewEncoder(w).Encode(p.requests[number-1])
	}
}

// A promotion that people decide on is a commit on a branch and a request: made once, followed, and
// not opened anew once it was merged or closed.
func TestProposals(t *testing.T) {
	d := newDesk(t)
	host := &pulls{}
	server := httptest.NewServer(host)
	t.Cleanup(server.Close)
	proposals := &Proposals{d.open(), githost.Host{Kind: githost.GitHub, API: server.URL, Repository: "team/shop", Runtime: loop.Real()}}
	base := d.own.Git("rev-parse", "main")
	actor := intent.Actor{Name: "delivery"}
	edit := func(version string) document.Edit {
		return document.Edit{Base: base, Reason: "Promote web " + version + "\nStaging soaked 4 h.", Operations: []document.Operation{{Path: "/clusters/b/version", Value: json.RawMessage(fmt.Sprintf("%q", version))}}}
	}
	propose := func(version string, want githost.Progress, number int) {
		t.Helper()
		got, err := proposals.Propose(t.Context(), "web/production/"+version, edit(version), actor)
		if err != nil || got.Progress != want || got.Number != number {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	propose("1.5", githost.Open, 1)
	const branch = "lehr/shop/knobs/web/production/1.5"
	d.own.Git("fetch", "--quiet", "bare", branch)
	commit := d.own.Git("rev-parse", "FETCH_HEAD")
	if diff := d.own.Git("diff", base, "FETCH_HEAD"); strings.Count(diff, "\n+") != 2 || !strings.Contains(diff, `+    version: "1.5"`) || !strings.Contains(d.own.Git("show", "FETCH_HEAD:prod/knobs.yaml"), "# the old one") {
		t.Errorf("the commit is\n%s", diff)
	}
	if d.own.Git("--git-dir", d.bare, "rev-parse", "main") != base {
		t.Error("the branch that is read was changed")
	}
	if title, body := host.requests[0]["title"], host.requests[0]["body"].(string); title != "Promote web 1.5" || !strings.Contains(body, "Staging soaked 4 h.") || !strings.Contains(body, "delivery through Lehr") {
		t.Errorf("the request is %q: %q", title, body)
	}
	// Again, also by another process, and after people pushed to the branch: nothing is made twice.
	propose("1.5", githost.Open, 1)
	proposals.Writing = d.open()
	propose("1.5", githost.Open, 1)
	d.own.Git("checkout", "--quiet", "-B", "review", commit)
	d.own.Write("other.txt", "reviewed")
	reviewed := d.own.Commit("A person's own change")
	d.own.Git("push", "--quiet", "bare", "HEAD:"+branch)
	propose("1.5", githost.Open, 1)
	if now := d.own.Git("--git-dir", d.bare, "rev-parse", branch); now != reviewed || len(host.requests) != 1 {
		t.Errorf("the branch is %s, want %s; %d requests", now, reviewed, len(host.requests))
	}
	// Merged is landed, closed is rejected, and neither is opened again.
	d.own.Git("push", "--quiet", "bare", "HEAD:main")
	host.requests[0]["state"], host.requests[0]["merged_at"], host.requests[0]["merge_commit_sha"] = "closed", "2026-01-01T00:00:00Z", reviewed
	if got, err := proposals.Follow(t.Context(), 1); err != nil || got.Progress != githost.Merged || got.Commit != reviewed {
		t.Errorf("merged: %+v, %v", got, err)
	}
	propose("1.5", githost.Merged, 1)
	base = reviewed
	propose("1.6", githost.Open, 2)
	host.requests[1]["state"] = "closed"
	propose("1.6", githost.Closed, 2)
	// What is taken back is closed, and what is not there needs nothing.
	propose("1.6.1", githost.Open, 3)
	if err := proposals.Withdraw(t.Context(), "web/production/1.6.1"); err != nil || host.requests[2]["state"] != "closed" {
		t.Errorf("taken back: %v, %v", host.requests[2], err)
	}
	if err := proposals.Withdraw(t.Context(), "web/production/9.9"); err != nil {
		t.Errorf("what is not there: %v", err)
	}
	for _, pair := range []struct {
		commit, ancestor string
		includes         bool
	}{{reviewed, commit, true}, {commit, reviewed, false}, {commit, commit, true}, {"1234567", commit, false}} {
		if got, err := proposals.Writing.Includes(t.Context(), pair.commit, pair.ancestor); err != nil || got != pair.includes {
			t.Errorf("%s includes %s: %v, %v", pair.commit, pair.ancestor, got, err)
		}
	}
	// What somebody changed meanwhile is not proposed over.
	d.own.Write("prod/knobs.yaml", strings.ReplaceAll(knobsYAML, `"1.4"`, `"9.9"`))
	d.own.Commit("By hand")
	d.own.Git("push", "--quiet", "bare", "HEAD:main")
	if _, err := proposals.Propose(t.Context(), "web/production/1.7", edit("1.7"), actor); !fault.Is(err, fault.Conflict) {
		t.Errorf("over another's change: %v", err)
	}
	for _, key := range []string{"", "../x", "a//b", "-x", "a b"} {
		if _, err := proposals.Propose(t.Context(), key, edit("1.8"), actor); !fault.Is(err, fault.Invalid) {
			t.Errorf("key %q: %v", key, err)
		}
	}
}
