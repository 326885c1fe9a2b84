package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

var authority = regexp.MustCompile(`, certificate-authority: "[^"]*"`)

// putInFront makes a new kind that reaches the API server only through a handler. The test itself
// still asks the server directly.
func (c *cluster) putInFront(wrap func(server http.Handler) http.Handler) {
	c.Helper()
	target, err := url.Parse(c.plane.URL)
	if err != nil {
		c.Fatal(err)
	}
	server := httputil.NewSingleHostReverseProxy(target)
	server.Transport = c.plane.Transport()
	front := httptest.NewTLSServer(wrap(server))
	c.Cleanup(func() {
		front.CloseClientConnections() // Watches last longer than the test.
		front.Close()
	})
	name := filepath.Join(c.TempDir(), "clusters.yaml")
	text, err := os.ReadFile(c.plane.Kubeconfig)
	if err == nil {
		config := authority.ReplaceAllString(string(text), ", insecure-skip-tls-verify: true")
		err = os.WriteFile(name+".kubeconfig", []byte(strings.ReplaceAll(config, c.plane.URL, front.URL)), 0o600)
	}
	if err == nil {
		err = os.WriteFile(name, []byte("kubernetes-clusters: v1\nclusters: {real: {kubeconfig: clusters.yaml.kubeconfig, partitions: [shop]}}\n"), 0o600)
	}
	if err != nil {
		c.Fatal(err)
	}
	c.kind = kindOf(c.T, name)
}

// counter counts what one kind asks about configmaps and secrets. The server's own figures have the
// requests of everybody.
type counter struct {
	mutex sync.Mutex
	// asked has the requests by verb, resource and dry run, watches aside.
	asked map[string]int
	// endedWatches counts the watches of any resource that have ended.
	endedWatches int
}

// counted makes a new kind whose requests are counted.
func (c *cluster) counted() *counter {
	c.Helper()
	k := &counter{asked: map[string]int{}}
	c.putInFront(func(server http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") != "" {
				defer k.noteEnd() // The kind learns of the end after this.
			} else {
				k.note(r)
			}
			server.ServeHTTP(w, r)
		})
	})
	return k
}

func (k *counter) noteEnd() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.endedWatches++
}

func (k *counter) note(r *http.Request) {
	resource, isNamed := resourceOf(r.URL.Path)
	if resource != "configmaps" && resource != "secrets" {
		return
	}
	verb := r.Method
	switch {
	case verb == http.MethodGet && !isNamed:
		verb = "LIST"
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch"):
		verb = "APPLY"
	}
	name := verb + " " + resource
	if r.URL.Query().Get("dryRun") != "" {
		name += " dry"
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.asked[name]++
}

// resourceOf a path of the core API, and whether it names one object.
func resourceOf(path string) (resource string, isNamed bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/api/v1/"), "/")
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	return parts[0], len(parts) > 1
}

// cost returns what was asked while something ran, in the order of the names, such as
// "2 APPLY configmaps dry; 1 GET configmaps".
func (k *counter) cost(run func()) string {
	before := k.counts()
	run()
	var parts []string
	after := k.counts()
	for name, count := range after {
		if more := count - before[name]; more > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", more, name))
		}
	}
	slices.SortFunc(parts, func(a, b string) int {
		_, one, _ := strings.Cut(a, " ")
		_, other, _ := strings.Cut(b, " ")
		return strings.Compare(one, other)
	})
	return strings.Join(parts, "; ")
}

func (k *counter) counts() map[string]int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return maps.Clone(k.asked)
}

func (k *counter) ends() int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.endedWatches
}
