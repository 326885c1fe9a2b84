package faults

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"lehr.dev/test/freeport"
	"lehr.dev/test/pgserver"
)

// probe is nothing wrong when a path answers so.
func probe(address, path string, status int, says string) func() string {
	return func() string {
		client := &http.Client{Timeout: 10 * time.Second}
		answer, err := client.Get("http://" + address + path)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != status || !strings.Contains(string(body), says) {
			return fmt.Sprintf("%s answers %d: %s", path, answer.StatusCode, body)
		}
		return ""
	}
}

// A database that is killed, and one that stands still, makes a replica unready
// and not dead; when it is back, so is the replica.
func TestDatabaseAwayIsUnreadyAndAlive(t *testing.T) {
	t.Parallel()
	database := pgserver.New(t)
	database.Start()
	w := newWorld(t, partition{name: "shared"})
	w.want(values{"a": 1})
	monitoring := freeport.Address(t)
	w.serve("--database", database.Database(), "--metrics", monitoring)
	w.converges(values{"a": 1})
	w.await("it is ready", probe(monitoring, "/readyz", 200, "ready"))
	for _, away := range []struct {
		name        string
		begin, over func()
	}{
		{"killed", database.Kill, func() { database.Start() }},
		{"stands still", func() { database.Signal(syscall.SIGSTOP) }, func() { database.Signal(syscall.SIGCONT) }},
	} {
		away.begin()
		w.await(away.name+": it is not ready", probe(monitoring, "/readyz", 503, "not ready"))
		w.await(away.name+": it is alive", probe(monitoring, "/healthz", 200, "alive"))
		w.await(away.name+": it is shown", func() string {
			return probe(monitoring, "/metrics", 200, "\nlehr_store_up 0\n")()
		})
		away.over()
		w.await(away.name+": it is ready again", probe(monitoring, "/readyz", 200, "ready"))
	}
	w.want(values{"a": 2})
	w.converges(values{"a": 2})
}
