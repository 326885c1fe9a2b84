// Package review tests comment.py against small servers that answer as GitHub's and GitLab's
// APIs do.
package review

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// comment is one of either host.
type comment struct {
	ID   int    `json:"id"`
	Body string `json:"body"`
}

// host is a small server with comments on one pull request.
type host struct {
	*httptest.Server
	list, item, method, header, secret string
	comments                           []comment
	// writes are the requests that changed something.
	writes []string
}

func newHost(t *testing.T, list, item, method, header, secret string) *host {
	h := &host{list: list, item: item, method: method, header: header, secret: secret}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(h.header) != h.secret {
		http.Error(w, `{"message": "Bad credentials"}`, http.StatusUnauthorized)
		return
	}
	var given comment
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&given); err != nil || given.Body == "" {
			http.Error(w, `{"message": "no body"}`, http.StatusUnprocessableEntity)
			return
		}
		h.writes = append(h.writes, r.Method+" "+r.URL.EscapedPath())
	}
	path := r.URL.EscapedPath()
	id, _ := strconv.Atoi(strings.TrimPrefix(path, h.item+"/"))
	at := slices.IndexFunc(h.comments, func(c comment) bool { return c.ID == id })
	switch {
	case r.Method == http.MethodGet && path == h.list:
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
		first := min((page-1)*size, len(h.comments))
		json.NewEncoder(w).Encode(h.comments[first:min(first+size, len(h.comments))])
	case r.Method == http.MethodPost && path == h.list:
		given.ID = 1000 + len(h.comments)
		h.comments = append(h.comments, given)
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(given)
	case r.Method == h.method && at >= 0:
		h.comments[at].Body = given.Body
		json.NewEncoder(w).Encode(h.comments[at])
	default:
		http.Error(w, `{"message": "Not Found"}`, http.StatusNotFound)
	}
}

// keep runs comment.py with a review, and returns what it printed.
func keep(t *testing.T, kind string, environment []string, review any) (output string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "review.json")
	text, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("python3", "comment.py", kind, file)
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "NO_PROXY=*", "PYTHONDONTWRITEBYTECODE=1"}, environment...)
	printed, err := command.CombinedOutput()
	return string(printed), err
}

func planOf(partition, text string) map[string]any {
	marker := "<!-- lehr plan of " + partition + " -->"
	return map[string]any{"marker": marker, "markdown": marker + "\n" + text + "\n"}
}

func TestComments(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	for kind, start := range map[string]func(*testing.T) (*host, []string){
		"github": func(t *testing.T) (*host, []string) {
			h := newHost(t, "/repos/shop/web/issues/12/comments", "/repos/shop/web/issues/comments", "PATCH", "Authorization", "Bearer t0ken")
			return h, []string{"GITHUB_API_URL=" + h.URL, "GITHUB_REPOSITORY=shop/web", "PULL_REQUEST=12", "GITHUB_TOKEN=t0ken"}
		},
		"gitlab": func(t *testing.T) (*host, []string) {
			notes := "/projects/shop%2Fweb/merge_requests/12/notes"
			h := newHost(t, notes, notes, "PUT", "PRIVATE-TOKEN", "t0ken")
			return h, []string{"CI_API_V4_URL=" + h.URL + "/", "CI_PROJECT_ID=shop/web", "CI_MERGE_REQUEST_IID=12", "GITLAB_TOKEN=t0ken"}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			h, environment := start(t)
			for id := range 150 { // Two pages of what people said, one of whom quotes a plan.
				h.comments = append(h.comments, comment{id + 1, fmt.Sprintf("> <!-- lehr plan of shop -->\ncomment %d", id)})
			}
			steps := []struct {
				partition, text, printed, write string
			}{
				{"shop", "1 to change", "made", "POST " + h.list},
				{"bakery", "3 to change", "made", "POST " + h.list},
				{"shop", "2 to change", "brought up to date", h.method + " " + h.item + "/1150"},
				{"shop", "2 to change", "as it was", ""},
			}
			for _, step := range steps {
				h.writes = nil
				printed, err := keep(t, kind, environment, planOf(step.partition, step.text))
				if err != nil || !strings.Contains(printed, "The comment was "+step.printed) {
					t.Fatalf("%+v: %v, %s", step, err, printed)
				}
				if got := strings.Join(h.writes, ", "); got != step.write {
					t.Errorf("%+v: it did %q", step, got)
				}
			}
			if len(h.comments) != 152 || !strings.HasSuffix(h.comments[150].Body, "\n2 to change") || !strings.HasSuffix(h.comments[151].Body, "\n3 to change") {
				t.Errorf("%d comments, the last: %+v", len(h.comments), h.comments[150:])
			}

			h.secret = "another"
			printed, err := keep(t, kind, environment, planOf("shop", "4 to change"))
			if err == nil || !strings.Contains(printed, "401") || !strings.Contains(printed, "Bad credentials") || strings.Contains(printed, "t0ken") {
				t.Errorf("a token that is refused: %v, %s", err, printed)
			}
		})
	}
}

func TestWhatIsMissing(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	printed, err := keep(t, "github", nil, planOf("shop", "x"))
	if err == nil || !strings.Contains(printed, "GITHUB_REPOSITORY is not set") {
		t.Errorf("no settings: %v, %s", err, printed)
	}
	printed, err = keep(t, "gitlab", nil, map[string]any{"reports": nil})
	if err == nil || !strings.Contains(printed, "is not what lehr plan --review -o json printed") {
		t.Errorf("another file: %v, %s", err, printed)
	}
}
