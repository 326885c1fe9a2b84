package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// GitHub answers as GitHub's REST API does for settings of repositories and the
// protection of branches.
type GitHub struct {
	*API

	mutex       sync.Mutex
	repos       map[string]map[string]any
	renamed     map[string]string
	protections map[string]map[string]any
}

// NewGitHub starts one with the repositories OWNER/NAME, each with the branch main.
func NewGitHub(token string, repos ...string) *GitHub {
	g := &GitHub{repos: map[string]map[string]any{}, renamed: map[string]string{}, protections: map[string]map[string]any{}}
	for i, full := range repos {
		owner, name, _ := strings.Cut(full, "/")
		g.repos[full] = map[string]any{
			"id": i + 1, "node_id": fmt.Sprint("R_", i), "name": name, "full_name": full, "owner": map[string]any{"login": owner, "id": 7},
			"private": false, "visibility": "public", "description": nil, "has_issues": true, "has_wiki": true, "archived": false,
			"delete_branch_on_merge": false, "default_branch": "main", "allow_squash_merge": true, "topics": []any{},
			"pushed_at": "2026-01-02T03:04:05Z", "size": 108,
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orgs/{owner}/repos", g.list)
	mux.HandleFunc("GET /repos/{owner}/{repo}", g.withRepo(func(w http.ResponseWriter, _ *http.Request, repo map[string]any) { say(w, 200, repo) }))
	mux.HandleFunc("PATCH /repos/{owner}/{repo}", g.withRepo(updateRepo))
	mux.HandleFunc("/repos/{owner}/{repo}/branches/{branch}/protection", g.withRepo(g.protection))
	g.API = start(token, mux)
	return g
}

func (g *GitHub) list(w http.ResponseWriter, r *http.Request) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	all := []any{}
	for _, full := range slices.Sorted(maps.Keys(g.repos)) {
		if strings.HasPrefix(full, r.PathValue("owner")+"/") {
			all = append(all, g.repos[full])
		}
	}
	say(w, 200, all)
}

func (g *GitHub) withRepo(handle func(http.ResponseWriter, *http.Request, map[string]any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g.mutex.Lock()
		defer g.mutex.Unlock()
		full := r.PathValue("owner") + "/" + r.PathValue("repo")
		if to := g.renamed[full]; to != "" {
			w.Header().Set("Location", g.URL+"/repositories/"+to)
			say(w, http.StatusMovedPermanently, map[string]any{"message": "Moved Permanently", "url": g.URL + "/repositories/" + to})
			return
		}
		repo := g.repos[full]
		if repo == nil {
			notFound(w)
			return
		}
		handle(w, r, repo)
	}
}

func notFound(w http.ResponseWriter) {
	say(w, http.StatusNotFound, map[string]any{"message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404"})
}

func updateRepo(w http.ResponseWriter, r *http.Request, repo map[string]any) {
	object, ok := hear(w, r)
	if !ok {
		return
	}
	for key, value := range object {
		if _, ok := repo[key]; !ok {
			say(w, http.StatusUnprocessableEntity, map[string]any{"message": "Invalid request. \"" + key + "\" is not a permitted key."})
			return
		}
		repo[key] = value
	}
	say(w, 200, repo)
}

// required are the parameters that a protection must have, null or not.
var required = []string{"required_status_checks", "enforce_admins", "required_pull_request_reviews", "restrictions"}

func (g *GitHub) protection(w http.ResponseWriter, r *http.Request, repo map[string]any) {
	if r.PathValue("branch") != "main" {
		say(w, http.StatusNotFound, map[string]any{"message": "Branch not found"})
		return
	}
	key := fmt.Sprint(repo["full_name"])
	switch r.Method {
	case http.MethodGet:
		if g.protections[key] == nil {
			say(w, http.StatusNotFound, map[string]any{"message": "Branch not protected"})
			return
		}
		say(w, 200, g.protections[key])
	case http.MethodDelete:
		delete(g.protections, key)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPut:
		object, ok := hear(w, r)
		if !ok {
			return
		}
		for _, name := range required {
			if _, ok := object[name]; !ok {
				say(w, http.StatusUnprocessableEntity, map[string]any{"message": "Invalid request.\n\n\"" + name + "\" wasn't supplied."})
				return
			}
		}
		g.protections[key] = protect(g.URL, object)
		say(w, 200, g.protections[key])
	default:
		notFound(w)
	}
}

// protect makes of what was asked for what GitHub tells, which has another form.
func protect(url string, object map[string]any) map[string]any {
	answer := map[string]any{"url": url + "/protection"}
	for _, name := range []string{"enforce_admins", "required_linear_history", "allow_force_pushes", "allow_deletions", "block_creations", "required_conversation_resolution", "lock_branch", "allow_fork_syncing"} {
		answer[name] = map[string]any{"url": url, "enabled": object[name] == true}
	}
	for _, name := range []string{"required_status_checks", "required_pull_request_reviews"} {
		if asked, ok := object[name].(map[string]any); ok {
			asked["url"] = url
			answer[name] = asked
		}
	}
	if asked, ok := object["restrictions"].(map[string]any); ok {
		lists := map[string]any{"url": url}
		for name, key := range map[string]string{"users": "login", "teams": "slug", "apps": "slug"} {
			list := []any{}
			names, _ := asked[name].([]any)
			for i, one := range names {
				list = append(list, map[string]any{key: one, "id": i})
			}
			lists[name] = list
		}
		answer["restrictions"] = lists
	}
	return answer
}

// Repo as JSON.
func (g *GitHub) Repo(full string) string {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	encoded, _ := json.Marshal(g.repos[full])
	return string(encoded)
}

// Protection of main as JSON; "null" when there is none.
func (g *GitHub) Protection(full string) string {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	encoded, _ := json.Marshal(g.protections[full])
	return string(encoded)
}

// RenameTo has GitHub send whoever asks for a repository elsewhere, as after its renaming.
func (g *GitHub) RenameTo(full, id string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.renamed[full] = id
}
