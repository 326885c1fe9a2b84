package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// task is one real process of a job, found by what stands in its environment
// (see proto/lehr/process/v1).
type task struct {
	pid    int
	job    string
	number int
	args   []string
}

// tasks lists the living processes of a job, by number; of all the jobs of
// the demo's service when the job is empty.
func (s *stage) tasks(job string) []task {
	var found []task
	entries, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range entries {
		environment, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		name, ok := variable(environment, "LEHR_JOB")
		if !ok || job != "" && name != job || !strings.HasPrefix(name, s.service+"/") {
			continue
		}
		folder := filepath.Dir(path)
		pid, _ := strconv.Atoi(filepath.Base(folder))
		number, _ := variable(environment, "LEHR_TASK")
		n, _ := strconv.Atoi(number)
		line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		if err != nil || len(line) == 0 {
			continue // It is ending.
		}
		found = append(found, task{pid: pid, job: name, number: n, args: strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")})
	}
	slices.SortFunc(found, func(a, b task) int { return strings.Compare(a.job, b.job)*1000 + a.number - b.number })
	return found
}

func variable(environment []byte, name string) (string, bool) {
	for entry := range bytes.SplitSeq(environment, []byte{0}) {
		if value, ok := strings.CutPrefix(string(entry), name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// pids of all the service's processes, in order.
func (s *stage) pids() []int {
	var pids []int
	for _, t := range s.tasks("") {
		pids = append(pids, t.pid)
	}
	slices.Sort(pids)
	return pids
}

// frontends are the processes of the manifest's frontends.
func (s *stage) frontends() []int {
	var pids []int
	for _, w := range s.manifest.clusters {
		for _, t := range s.tasks(w.job(s)) {
			pids = append(pids, t.pid)
		}
	}
	return pids
}

// answer is what a task says on its socket.
type answer struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	Healthy bool   `json:"-"`
}

var browser = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// ask searches the play on a task's port, and asks for its health.
func ask(ctx context.Context, port int) (answer, error) {
	found, err := search(ctx, port)
	if err == nil {
		found.Healthy = healthy(ctx, port)
	}
	return found, err
}

// search searches the play on one port.
func search(ctx context.Context, port int) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/search?q=to+be", port), nil)
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := browser.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	var found struct {
		answer
		Lines []json.RawMessage `json:"lines"`
	}
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil {
		return answer{}, err
	}
	if response.StatusCode != http.StatusOK || len(found.Lines) == 0 {
		return answer{}, fmt.Errorf("port %d answered %s with %d lines", port, response.Status, len(found.Lines))
	}
	return found.answer, nil
}

// healthy asks a task's own health check.
func healthy(ctx context.Context, port int) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/healthz", port), nil)
	if err != nil {
		return false
	}
	response, err := browser.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// serves is so when every task that the manifest asks for runs once, is
// healthy and answers as that version, and the balancers send requests to it.
func (s *stage) serves(version string) func(context.Context) string {
	return func(ctx context.Context) string {
		for _, w := range s.manifest.clusters {
			if reason := s.clusterServes(ctx, w, version); reason != "" {
				return reason
			}
		}
		return s.balanced(ctx)
	}
}

func (s *stage) clusterServes(ctx context.Context, w wanted, version string) string {
	tasks := s.tasks(w.job(s))
	if len(tasks) != w.replicas {
		return fmt.Sprintf("cluster %s has %d processes, not %d", w.name, len(tasks), w.replicas)
	}
	for i := range w.replicas {
		got, err := ask(ctx, w.port+i)
		switch {
		case err != nil:
			return fmt.Sprintf("cluster %s task %d: %v", w.name, i, err)
		case got.Version != version || !got.Healthy || got.PID != tasks[i].pid:
			return fmt.Sprintf("cluster %s task %d answers %+v, process %d", w.name, i, got, tasks[i].pid)
		}
	}
	return ""
}

// picture is a line for each task as it is now.
func (s *stage) picture(ctx context.Context) string {
	var b strings.Builder
	for _, c := range s.clusters {
		fmt.Fprintf(&b, "  cluster %s", c.name)
		for _, t := range s.tasks(c.job(s)) {
			state := "not answering"
			if got, err := ask(ctx, c.port+t.number); err == nil {
				state = got.Version
				if !got.Healthy {
					state += " draining"
				}
			}
			fmt.Fprintf(&b, "   [%d] pid %d :%d %s", t.number, t.pid, c.port+t.number, state)
		}
		b.WriteString("\n")
	}
	b.WriteString("  reader   ")
	for _, place := range readerPlaces {
		fmt.Fprintf(&b, "   %s", place)
		for _, port := range s.readerPorts(place) {
			state := "not answering"
			if got, err := ask(ctx, port); err == nil {
				state = got.Version
			}
			fmt.Fprintf(&b, " %s", state)
		}
	}
	b.WriteString("\n")
	if shares, err := s.shares(ctx); err == nil {
		b.WriteString("  shares of requests")
		for _, name := range slices.Sorted(maps.Keys(shares)) {
			fmt.Fprintf(&b, "  %s: %v", name, shares[name])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// alive reports whether a process lives and is no zombie.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
