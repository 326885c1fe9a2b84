package rollouts

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const clusters = 10

// cluster by its number.
func cluster(i int) string { return fmt.Sprintf("c%d", i) }

// frontend is a process as the system knows it.
type frontend struct {
	pid                     int
	cluster, version, drain string
}

// frontends of a service that live now.
func frontends(service string) (found []frontend) {
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environments {
		environment, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environment, []byte("LEHR_JOB="+service+"/")) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		f := frontend{}
		for argument := range strings.SplitSeq(string(line), "\x00") {
			if value, ok := strings.CutPrefix(argument, "--version="); ok {
				f.version = value
			}
			if value, ok := strings.CutPrefix(argument, "--cluster="); ok {
				f.cluster = value
			}
			if value, ok := strings.CutPrefix(argument, "--drain="); ok {
				f.drain = value
			}
		}
		if f.version != "" {
			f.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
			found = append(found, f)
		}
	}
	return found
}

// watcher writes down when each cluster was first seen to run a version, and with a
// flag.
type watcher struct {
	mutex sync.Mutex
	first map[string]map[string]time.Time
}

// watch the processes of a service until the test ends.
func watch(t *testing.T, service string) *watcher {
	w := &watcher{first: map[string]map[string]time.Time{}}
	stop, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-ended })
	go func() {
		defer close(ended)
		for {
			began := time.Now()
			w.look(service)
			select {
			case <-stop:
				return
			case <-time.After(max(50*time.Millisecond, 4*time.Since(began))):
			}
		}
	}()
	return w
}

func (w *watcher) look(service string) {
	found, at := frontends(service), time.Now()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, f := range found {
		for _, with := range []string{f.version, f.drain} {
			if w.first[with] == nil {
				w.first[with] = map[string]time.Time{}
			}
			if w.first[with][f.cluster].IsZero() {
				w.first[with][f.cluster] = at
			}
		}
	}
}

// ever are the clusters that a version or flag ran in, with when each was first seen to.
func (w *watcher) ever(with string) map[string]time.Time {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return maps.Clone(w.first[with])
}

// exposed fails the test when a version ran anywhere else than in some clusters.
func (w *watcher) exposed(t *testing.T, version string, in ...string) {
	t.Helper()
	if ran := slices.Sorted(maps.Keys(w.ever(version))); !slices.Equal(ran, in) {
		t.Errorf("%s ran in %v, not in %v alone", version, ran, in)
	}
}

// runs says what is missing for each cluster to have one process, of the version that
// is wanted there and with the flag.
func runs(service, drain string, wanted func(cluster string) string) string {
	count := map[string]int{}
	for _, f := range frontends(service) {
		if want := wanted(f.cluster); f.version != want || f.drain != drain {
			return fmt.Sprintf("%s runs %s with %s, not %s with %s", f.cluster, f.version, f.drain, want, drain)
		}
		count[f.cluster]++
	}
	for i := range clusters {
		if n := count[cluster(i)]; n != 1 {
			return fmt.Sprintf("%s has %d processes", cluster(i), n)
		}
	}
	return ""
}
