package fetch

import (
	"context"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/test/gitrepo"
)

func newOrigin(t testing.TB) *gitrepo.Repository { return gitrepo.New(t) }

// memory keeps states.
type memory struct {
	sync.Mutex
	kept map[string][]byte
}

func (m *memory) Load(_ context.Context, name string) ([]byte, error) {
	m.Lock()
	defer m.Unlock()
	if state, ok := m.kept[name]; ok {
		return state, nil
	}
	return nil, fault.New(fault.NotFound, "nothing is kept")
}

func (m *memory) Save(_ context.Context, name string, state []byte) error {
	m.Lock()
	defer m.Unlock()
	if m.kept == nil {
		m.kept = map[string][]byte{}
	}
	m.kept[name] = state
	return nil
}

// reader reads one source when it is asked to.
type reader struct {
	testing.TB
	options Options
	remote  source.Remote
	files   []string
	limits  source.Limits
	folder  *Folder
}

var local = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func newReader(t testing.TB, remote source.Remote, files ...string) *reader {
	t.Helper()
	r := &reader{TB: t, remote: remote, files: files, limits: source.DefaultLimits()}
	policy := &Policy{Networks: local}
	r.options = Options{Partition: "shop", Folder: t.TempDir(), Policy: func() *Policy { return policy }, Keep: &memory{}, Runtime: loop.Real(), Mode: Once}
	t.Cleanup(func() {
		if r.folder != nil {
			r.folder.Close()
		}
	})
	return r
}

// allow gives the partition a secret, by an environment variable.
func (r *reader) allow(name, value string, hosts ...string) source.Secret {
	r.Helper()
	r.Setenv(name, value)
	policy := r.options.Policy()
	policy.Secrets = append(policy.Secrets, ListedSecret{Env: name, Hosts: hosts, Partitions: []string{"shop"}})
	return source.Secret{Env: name}
}

// restart forgets what a process knows; elsewhere: on a machine without its
// mirrors.
func (r *reader) restart(elsewhere bool) {
	if r.folder != nil {
		r.folder.Close()
	}
	r.folder = nil
	if elsewhere {
		r.options.Folder = r.TempDir()
	}
}

// read looks at the source, and returns its files.
func (r *reader) read() (map[string]string, *source.Snapshot, error) {
	r.Helper()
	if r.folder == nil {
		folder, err := Open(r.options, "service", "/home/service", r.remote, r.files, r.limits)
		if err != nil {
			return nil, nil, err
		}
		folder.every = 0 // It looks when it is read.
		r.folder = folder
	}
	snapshot, err := r.folder.Read(r.Context(), time.Now(), source.Changes{})
	if err != nil {
		return nil, nil, err
	}
	found := map[string]string{}
	for _, file := range snapshot.Files {
		content, err := r.folder.Content(file)
		if err != nil {
			r.Fatal(err)
		}
		found[file.Path] = string(content)
	}
	return found, snapshot, nil
}

// holds wants these files, read without a failure.
func (r *reader) holds(want map[string]string) *source.Snapshot {
	r.Helper()
	found, snapshot, err := r.read()
	if err != nil {
		r.Fatal(err)
	}
	if failing := r.folder.Failing(); failing.Reason != "" {
		r.Fatalf("it fails: %s", failing.Reason)
	}
	equal(r, found, want)
	return snapshot
}

// stays wants these files, though they were read before, and a reason.
func (r *reader) stays(want map[string]string, says string) {
	r.Helper()
	found, _, err := r.read()
	if err != nil {
		r.Fatal(err)
	}
	equal(r, found, want)
	if failing := r.folder.Failing(); !strings.Contains(failing.Reason, says) || failing.Since.IsZero() {
		r.Errorf("it fails since %s: %q, want %q", failing.Since, failing.Reason, says)
	}
}

// refuses wants nothing to be read at all.
func (r *reader) refuses(kind fault.Kind, says string) {
	r.Helper()
	found, _, err := r.read()
	if err == nil {
		r.Fatalf("it was read: %v", found)
	}
	if !fault.Is(err, kind) || !strings.Contains(err.Error(), says) {
		r.Errorf("%v: %v, want %v: %q", err.(*fault.Error).Kind, err, kind, says)
	}
}

func equal(t testing.TB, found, want map[string]string) {
	t.Helper()
	if len(found) != len(want) {
		t.Fatalf("files %v, want %v", found, want)
	}
	for name, content := range want {
		if found[name] != content {
			t.Fatalf("%s is %q, want %q", name, found[name], content)
		}
	}
}

// gitServer serves repositories of a folder by HTTP, as git does.
func gitServer(t testing.TB, root string, allowed func(r *http.Request) bool) *httptest.Server {
	t.Helper()
	exec, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skip("git is not installed")
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(exec)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	if _, err := os.Stat(backend.Path); err != nil {
		t.Skip("git-http-backend is not installed")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowed(r) {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		// Protocol version 2 comes by a header that CGI knows.
		backend := *backend
		backend.Env = append(append([]string{}, backend.Env...), "GIT_PROTOCOL="+r.Header.Get("Git-Protocol"))
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

func host(t testing.TB, text string) string {
	t.Helper()
	parsed, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Host
}

// hasty shortens pauses and timeouts. Where it is patient, it shortens pauses only: each look has
// the time that a slow machine needs.
type hasty struct {
	loop.Runtime
	patient bool
}

func (h hasty) Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	if d > 0 && !(h.patient && d == patience) {
		d /= 200
	}
	return h.Runtime.Wait(ctx, d, wake)
}
