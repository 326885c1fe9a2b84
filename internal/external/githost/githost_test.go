package githost

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
)

const (
	commit = "0123456789abcdef0123456789abcdef01234567"
	token  = "the-t0ken"
)

// server is a small git host of either kind: it keeps statuses and requests as the APIs do.
type server struct {
	*httptest.Server
	kind Kind
	sync.Mutex
	statuses []map[string]any
	requests []map[string]any
	// away are answers that come before any other; posts counts what was written.
	away  []int
	posts int
}

func newServer(t *testing.T, kind Kind) (*server, Host) {
	t.Helper()
	s := &server{kind: kind}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s, Host{Kind: kind, API: s.URL, Repository: "team/shop", Token: func() (string, error) { return token, nil }, Runtime: loop.Real()}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	if len(s.away) > 0 {
		status := s.away[0]
		s.away = s.away[1:]
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(status)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"message": "Bad credentials"}`)
		return
	}
	repository := map[Kind]string{GitHub: "/repos/team/shop", GitLab: "/projects/team%2Fshop"}[s.kind]
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), repository)
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	var sent map[string]any
	if r.Method != http.MethodGet {
		s.posts++
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	_ = json.NewEncoder(w).Encode(s.answer(r, rest, sent))
}

func (s *server) answer(r *http.Request, rest string, sent map[string]any) any {
	switch {
	case strings.HasSuffix(rest, "/statuses"):
		var list []map[string]any
		for i := len(s.statuses) - 1; i >= 0; i-- {
			one := s.statuses[i]
			if s.kind == GitLab && one["name"] != r.URL.Query().Get("name") {
				continue
			}
			if list = append(list, one); s.kind == GitLab {
				break
			}
		}
		return list
	case rest == "/statuses/"+commit:
		if s.kind == GitLab {
			sent["status"] = sent["state"]
			delete(sent, "state")
		}
		s.statuses = append(s.statuses, sent)
		return sent
	case (rest == "/pulls" || rest == "/merge_requests") && sent != nil:
		number := len(s.requests) + 1
		made := map[string]any{"number": number, "html_url": fmt.Sprintf("%s/pull/%d", s.URL, number), "state": "open", "branch": sent["head"], "body": sent["body"]}
		if s.kind == GitLab {
			made = map[string]any{"iid": number, "web_url": fmt.Sprintf("%s/mr/%d", s.URL, number), "state": "opened", "branch": sent["source_branch"], "body": sent["description"]}
		}
		s.requests = append(s.requests, made)
		return made
	case rest == "/pulls" || rest == "/merge_requests":
		list := []map[string]any{}
		query := r.URL.Query()
		for i := len(s.requests) - 1; i >= 0; i-- {
			one := s.requests[i]
			isBranch := query.Get("head") == fmt.Sprintf("team:%s", one["branch"]) || query.Get("source_branch") == one["branch"]
			if isBranch && (query.Get("state") == "all" || query.Get("state") == one["state"]) {
				list = append(list, one)
			}
		}
		return list
	}
	number := 0
	_, _ = fmt.Sscanf(rest[strings.LastIndex(rest, "/")+1:], "%d", &number)
	if r.Method == http.MethodPatch && sent["state"] == "closed" || r.Method == http.MethodPut && sent["state_event"] == "close" {
		s.requests[number-1]["state"] = "closed"
	}
	return s.requests[number-1]
}

// A status is posted once, again when it differs, and despite a host that is away for a while.
func TestStatuses(t *testing.T) {
	for _, kind := range []Kind{GitHub, GitLab} {
		t.Run(string(kind), func(t *testing.T) {
			s, host := newServer(t, kind)
			status := StatusOf("shop", "web", "production", commit, Running, "1.4.2 is deploying", "https://lehr.example.com/x")
			post := func(want bool) {
				t.Helper()
				if posted, err := host.PostStatus(t.Context(), status); err != nil || posted != want {
					t.Fatalf("posted %v, %v", posted, err)
				}
			}
			s.away = []int{503, 429}
			post(true)
			post(false)
			status.State, status.Description = Success, strings.Repeat("è", 200)
			post(true)
			post(false)
			other := status
			status.Context = "lehr/shop/web/test"
			post(true)
			status = other
			post(false)
			if s.posts != 3 {
				t.Errorf("%d were posted", s.posts)
			}
			newest := s.statuses[1]
			if text := newest["description"].(string); len(text) > mostText || !strings.HasSuffix(text, "…") {
				t.Errorf("the description is %q", text)
			}
			status.Commit = "abc"
			if _, err := host.PostStatus(t.Context(), status); !fault.Is(err, fault.Invalid) {
				t.Errorf("of an abbreviated commit: %v", err)
			}
			status.Commit = commit
			host.Token = func() (string, error) { return "wr0ng", nil }
			if _, err := host.PostStatus(t.Context(), status); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "Bad credentials") || strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("with a wrong token: %v", err)
			}
			host.Repository = "team/none"
			host.Token = func() (string, error) { return token, nil }
			if _, err := host.PostStatus(t.Context(), status); !fault.Is(err, fault.NotFound) {
				t.Errorf("of another repository: %v", err)
			}
		})
	}
}

// A request is opened once, and followed until it is merged or closed.
func TestRequests(t *testing.T) {
	for _, kind := range []Kind{GitHub, GitLab} {
		t.Run(string(kind), func(t *testing.T) {
			s, host := newServer(t, kind)
			wanted := Wanted{Branch: "lehr/web", Base: "main", Title: "Promote web 1.4.2", Body: "why"}
			first, err := host.OpenRequest(t.Context(), wanted)
			if err != nil || first.Number != 1 || first.Progress != Open || first.Link == "" {
				t.Fatalf("%+v, %v", first, err)
			}
			again, err := host.OpenRequest(t.Context(), wanted)
			if err != nil || again.Number != 1 || s.posts != 1 || s.requests[0]["body"] != "why" {
				t.Errorf("%+v, %v, %d were opened", again, err, s.posts)
			}
			s.requests[0]["state"] = "closed"
			if got, err := host.FollowRequest(t.Context(), 1); err != nil || got.Progress != Closed {
				t.Errorf("closed: %+v, %v", got, err)
			}
			second, err := host.OpenRequest(t.Context(), wanted)
			if err != nil || second.Number != 2 {
				t.Errorf("%+v, %v", second, err)
			}
			if got, err := host.CloseRequest(t.Context(), 2); err != nil || got.Progress != Closed || got.Number != 2 {
				t.Errorf("taken back: %+v, %v", got, err)
			}
			s.requests[1]["merge_commit_sha"] = commit
			if s.requests[1]["state"] = "closed"; kind == GitLab {
				s.requests[1]["state"] = "merged"
			}
			s.requests[1]["merged_at"] = "2026-01-01T00:00:00Z"
			if got, err := host.FollowRequest(t.Context(), 2); err != nil || got.Progress != Merged || got.Commit != commit {
				t.Errorf("merged: %+v, %v", got, err)
			}
			if got, err := host.CloseRequest(t.Context(), 2); err != nil || got.Progress != Merged {
				t.Errorf("taken back after it was merged: %+v, %v", got, err)
			}
			if got, ok, err := host.FindRequest(t.Context(), "lehr/web", "main"); err != nil || !ok || got.Number != 2 {
				t.Errorf("found %+v, %v, %v", got, ok, err)
			}
			if _, ok, err := host.FindRequest(t.Context(), "lehr/other", "main"); err != nil || ok {
				t.Errorf("of another branch: %v, %v", ok, err)
			}
		})
	}
}

func TestHostsThatAreNone(t *testing.T) {
	for _, h := range []Host{{Kind: "svn", API: "https://h", Repository: "a/b"}, {Kind: GitHub, API: "h", Repository: "a/b"}, {Kind: GitHub, API: "https://u:p@h", Repository: "a/b"},
		{Kind: GitHub, API: "https://h", Repository: "a"}, {Kind: GitLab, API: "https://h", Repository: "a/../b"}, {Kind: GitLab, API: "https://h", Repository: "a/b?c"}} {
		if err := h.Check(); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", h, err)
		}
	}
}
