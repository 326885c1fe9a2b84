package faults

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/test/pgserver"
)

// replica is the same partition seen from another machine: its servers have a
// place of their own.
func (w *world) replica(name string) *world {
	other := *w
	other.store, other.server = filepath.Join(w.folder, name, "lehr.db"), nil
	w.Cleanup(other.close)
	return &other
}

// Two replicas share a database. The one that acts is killed, again and again:
// the other goes on in its place, and what was asked for comes about.
func TestReplicaTakesOver(t *testing.T) {
	t.Parallel()
	database := pgserver.New(t)
	database.Start()
	url := database.Database()
	first := newWorld(t, partition{name: "shared"})
	replicas := []*world{first, first.replica("second")}
	first.want(values{"a": 1})
	for _, w := range replicas {
		w.serve("--database", url)
	}
	first.converges(values{"a": 1})
	for n := range 4 {
		acting, other := replicas[0], replicas[1]
		holder, err := database.Query(url, "SELECT holder FROM partitions WHERE id = 'shared'")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(holder, fmt.Sprintf(":%d:", other.server.Process.Pid)) {
			acting, other = other, acting
		}
		acting.kill()
		began := time.Now()
		other.want(values{"a": n + 2})
		other.converges(values{"a": n + 2})
		t.Logf("another replica carried out what was asked for %.1f s after the kill", time.Since(began).Seconds())
		acting.serve("--database", url)
	}
	// At once when the one that acts is told to end.
	for n, w := range replicas {
		w.end()
		other := replicas[0]
		if w == other {
			other = replicas[1]
		}
		began := time.Now()
		other.want(values{"a": n + 10})
		other.converges(values{"a": n + 10})
		t.Logf("and %.1f s after one was told to end", time.Since(began).Seconds())
		w.serve("--database", url)
	}
}
