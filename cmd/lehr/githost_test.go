package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// smallHost is a git host with the API of GitHub's pull requests, upon a real bare repository.
type smallHost struct {
	repository string

	lock  sync.Mutex
	away  bool
	pulls []map[string]any
	// statuses of commits, the newest first.
	statuses map[string][]map[string]any
}

// hosts of scripts, by their addresses.
var hosts sync.Map

// gitHost starts a host: githost VARIABLE BARE-REPOSITORY. The variable is its address.
func gitHost(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) != 2 {
		ts.Fatalf("usage: githost VARIABLE BARE-REPOSITORY")
	}
	host := &smallHost{repository: ts.MkAbs(args[1])}
	server := httptest.NewServer(host)
	ts.Defer(server.Close)
	hosts.Store(server.URL, host)
	ts.Setenv(args[0], server.URL)
}

// decide on a pull request as people do: decide HOST merge|close NUMBER, or open BRANCH. HOST away, or
// back, is the host's own.
func decide(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: decide HOST merge|close NUMBER, decide HOST open BRANCH, decide HOST away|back")
	}
	found, ok := hosts.Load(args[0])
	if !ok {
		ts.Fatalf("there is no host %s", args[0])
	}
	host := found.(*smallHost)
	host.lock.Lock()
	defer host.lock.Unlock()
	switch args[1] {
	case "away", "back":
		host.away = args[1] == "away"
		return
	case "open":
		host.open(strings.TrimPrefix(args[0], "http://"), map[string]any{"head": args[2], "base": "main"})
		return
	}
	number, err := strconv.Atoi(args[2])
	if err != nil || number < 1 || number > len(host.pulls) {
		ts.Fatalf("there is no pull request %s", args[2])
	}
	pull := host.pulls[number-1]
	if pull["state"] = "closed"; args[1] == "close" {
		return
	}
	pull["merged_at"] = "2026-01-01T00:00:00Z"
	output, err := exec.Command("git", "--git-dir", host.repository, "update-ref", "refs/heads/"+pull["base"].(string), "refs/heads/"+pull["head"].(string)).CombinedOutput()
	if err != nil {
		ts.Fatalf("merging: %v: %s", err, output)
	}
}

// isClosed fails the script unless a pull request is closed and was not merged: closed HOST NUMBER.
func isClosed(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) != 2 {
		ts.Fatalf("usage: closed HOST NUMBER")
	}
	found, ok := hosts.Load(args[0])
	number, err := strconv.Atoi(args[1])
	if !ok || err != nil {
		ts.Fatalf("there is no host %s, or %q is no number", args[0], args[1])
	}
	host := found.(*smallHost)
	host.lock.Lock()
	defer host.lock.Unlock()
	if pull := host.pulls[number-1]; pull["state"] != "closed" || pull["merged_at"] != nil {
		ts.Fatalf("pull request %d is %v", number, pull)
	}
}

func (h *smallHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.lock.Lock()
	defer h.lock.Unlock()
	rest, ok := strings.CutPrefix(r.URL.Path, "/repos/team/shop")
	switch {
	case h.away:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case !ok || r.Header.Get("Authorization") != "Bearer its-token":
		w.WriteHeader(http.StatusNotFound)
		return
	}
	var sent map[string]any
	if r.Method != http.MethodGet && json.NewDecoder(r.Body).Decode(&sent) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(h.answer(r, rest, sent))
}

// open makes a pull request.
func (h *smallHost) open(address string, sent map[string]any) map[string]any {
	made := map[string]any{"number": len(h.pulls) + 1, "state": "open", "head": sent["head"], "base": sent["base"], "title": sent["title"]}
	made["html_url"] = fmt.Sprintf("http://%s/team/shop/pull/%d", address, made["number"])
	h.pulls = append(h.pulls, made)
	return made
}

// listed is a pull request as lists show it, with where its branch is.
func (h *smallHost) listed(pull map[string]any) map[string]any {
	shown := maps.Clone(pull)
	commit, _ := exec.Command("git", "--git-dir", h.repository, "rev-parse", "refs/heads/"+pull["head"].(string)).Output()
	shown["head"] = map[string]any{"ref": pull["head"], "sha": strings.TrimSpace(string(commit)), "repo": map[string]any{"full_name": "team/shop"}}
	return shown
}

// status of a commit: GET lists them, POST adds one.
func (h *smallHost) status(commit string, sent map[string]any) any {
	if h.statuses == nil {
		h.statuses = map[string][]map[string]any{}
	}
	if sent != nil {
		h.statuses[commit] = append([]map[string]any{sent}, h.statuses[commit]...)
		return sent
	}
	return h.statuses[commit]
}

func (h *smallHost) answer(r *http.Request, rest string, sent map[string]any) any {
	if commit, ok := strings.CutPrefix(rest, "/statuses/"); ok {
		return h.status(commit, sent)
	}
	if commit, ok := strings.CutPrefix(rest, "/commits/"); ok {
		return h.status(strings.TrimSuffix(commit, "/statuses"), nil)
	}
	rest = strings.TrimPrefix(rest, "/pulls")
	switch {
	case r.Method == http.MethodPost:
		return h.open(r.Host, sent)
	case rest == "" && r.URL.Query().Get("head") == "":
		list := []map[string]any{}
		for _, one := range h.pulls {
			if one["state"] == "open" && r.URL.Query().Get("page") == "1" {
				list = append(list, h.listed(one))
			}
		}
		return list
	case rest == "":
		list := []map[string]any{}
		for _, one := range slices.Backward(h.pulls) {
			state := r.URL.Query().Get("state")
			if r.URL.Query().Get("head") == fmt.Sprintf("team:%s", one["head"]) && (state == "all" || state == one["state"]) {
				list = append(list, one)
			}
		}
		return list
	}
	number, err := strconv.Atoi(strings.TrimPrefix(rest, "/"))
	if err != nil || number < 1 || number > len(h.pulls) {
		return map[string]any{}
	}
	pull := h.pulls[number-1]
	if r.Method == http.MethodPatch {
		pull["state"] = sent["state"]
	}
	return pull
}
