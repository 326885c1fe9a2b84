package app

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/server"
)

// diagnose tells what this process knows of itself. What is in the store, anybody
// else can read there.
func (a *App) diagnose(ctx context.Context) []server.DiagnosisFile {
	var goroutines bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&goroutines, 1)
	return []server.DiagnosisFile{
		{Name: "server.txt", About: "version, machine, and how it was started, without secrets", Content: a.described()},
		{Name: "health.txt", About: "what /healthz and /readyz say, and what is wrong with each partition", Content: a.healthText(ctx)},
		{Name: "plugins.txt", About: "plugins: program, version, and how they are", Content: a.pool.described()},
		{Name: "metrics.txt", About: "what /metrics shows", Content: a.metricsText(ctx)},
		{Name: "goroutines.txt", About: "what each goroutine does, by the program's source", Content: goroutines.Bytes()},
		{Name: "log.txt", About: "the newest lines of the log, from info on, at most a MB", Content: a.tail.read()},
	}
}

// described is how the process was started. Of files only the names are told, of
// URLs no more than where they lead to.
func (a *App) described() []byte {
	var b bytes.Buffer
	o := a.options
	urls := make([]string, len(o.URLs))
	for i, u := range o.URLs {
		urls[i] = u.Host
	}
	for _, row := range [][2]string{
		{"version", o.Version},
		{"go", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
		{"cores", fmt.Sprint(runtime.GOMAXPROCS(0))},
		{"replica", a.holder},
		{"now", a.runtime.Now().UTC().Format(time.RFC3339)},
		{"store", a.location()},
		{"listen", o.Listen},
		{"metrics", o.Metrics},
		{"tls", fmt.Sprint(o.TLS.Certificate != "")},
		{"url", strings.Join(urls, " ")},
		{"access", filepath.Base(o.Access)},
		{"plugin-servers", filepath.Base(o.PluginServers)},
		{"sources", filepath.Base(o.Sources)},
		{"generators", filepath.Base(o.Generators)},
		{"external-checks", filepath.Base(o.ExternalChecks)},
		{"audit-checkpoints", o.Checkpoints.host()},
		{"sweep", o.Limits.Sweep.String()},
	} {
		fmt.Fprintf(&b, "%s: %s\n", row[0], strings.TrimSuffix(cmp.Or(row[1], "-"), "."))
	}
	return b.Bytes()
}

// host is where checkpoints go, and nothing of a URL's that may be a secret.
func (c Checkpoints) host() string {
	if !c.posts() {
		return filepath.Base(c.To)
	}
	scheme, rest, _ := strings.Cut(c.name(), "://")
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}

func (a *App) healthText(ctx context.Context) []byte {
	var b bytes.Buffer
	reasons, remarks := a.unready(ctx)
	for _, part := range []struct {
		what string
		of   []string
	}{{"not alive", a.dead(ctx)}, {"not ready", reasons}, {"remarks", remarks}, {"problems", a.problems()}} {
		fmt.Fprintf(&b, "%s: %s\n", part.what, cmp.Or(strings.Join(part.of, "; "), "-"))
	}
	for _, h := range a.health() {
		fmt.Fprintf(&b, "partition %s: acting %t, elsewhere %t, problem: %s, waiting: %s\n", h.Partition, h.Acting, h.Elsewhere, cmp.Or(h.Problem, "-"), cmp.Or(h.Waiting, "-"))
	}
	return b.Bytes()
}

func (a *App) metricsText(ctx context.Context) []byte {
	answer := &answer{header: http.Header{}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return []byte(err.Error())
	}
	a.metricsHandler().ServeHTTP(answer, request)
	return answer.Bytes()
}

// answer keeps what a handler writes.
type answer struct {
	bytes.Buffer
	header http.Header
}

func (a *answer) Header() http.Header { return a.header }
func (a *answer) WriteHeader(int)     {}

// described lists the plugins. Their arguments, which a partition chose, are left
// out, and so are their words, which may hold a secret.
func (p *pool) described() []byte {
	if p == nil {
		return nil
	}
	p.mutex.Lock()
	children, servers := maps.Clone(p.children), maps.Clone(p.servers)
	p.mutex.Unlock()
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(children)) {
		run, _, _ := strings.Cut(key, "\x00")
		description, err := children[key].Describe()
		fmt.Fprintf(&b, "%s: %s %s, %s\n", filepath.Base(run), description.Name, description.Version, wellOr(err))
	}
	for address, dialled := range servers {
		description, err := dialled.Describe()
		fmt.Fprintf(&b, "%s: %s %s, %s\n", address.HostPort, description.Name, description.Version, wellOr(err))
	}
	return b.Bytes()
}

func wellOr(err error) string {
	if err != nil {
		return "fails"
	}
	return "well"
}
