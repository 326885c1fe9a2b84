package monitoring

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// service is a real one that says whether a push may be, by phase.
type service struct {
	*httptest.Server
	mutex sync.Mutex
	no    map[string]string
	asked []map[string]any
}

func newService(t *testing.T) *service {
	s := &service{no: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var told map[string]any
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&told) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.asked = append(s.asked, told)
		answer := map[string]string{"result": "pass"}
		if reason := s.no[fmt.Sprint(told["phase"])]; reason != "" {
			answer = map[string]string{"result": "blocking", "reason": reason}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) says(phase, no string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.no[phase] = no
}

// TestAServiceHoldsARealJob: no process begins or ends while it says no, and what it is
// asked after a push is told until it passes.
func TestAServiceHoldsARealJob(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	t.Parallel()
	s := newService(t)
	s.says("before", "the build is red")
	s.says("after", "requests fail")
	p := newPartition(t, policyFile(t, ""))
	name := fmt.Sprintf("guarded/%d", os.Getpid())
	write(t, p.folder, map[string]string{
		"service.yaml": "name: " + name + "\nreplicas: 2\n", "web.star": jobOf,
		"lehr.yaml": fmt.Sprintf(`lehr: v1
partition: hello
mode: enforce
sources: {service: {dir: ., files: [service.yaml]}}
generate: {web: {starlark: web.star, from: [service]}}
plugins: {Job: {run: lehr-process}}
checks:
  smoke: {http: %q, before: true, for: 5s, timeout: 1s, every: 1s, after: {delay: 1s, duration: 1s}}
`, s.URL),
	})
	t.Cleanup(func() {
		for _, id := range running(t, name) {
			_ = syscall.Kill(id, syscall.SIGKILL)
		}
	})
	runs := func(tasks int) {
		t.Helper()
		eventually(t, func() string {
			if found := len(running(t, name)); found != tasks {
				return fmt.Sprintf("%d tasks run, want %d; %s", found, tasks, p.says("why", "web"))
			}
			return ""
		})
	}
	p.serve()
	p.tells([]string{"web waits (protection): check smoke: http " + s.URL + " says no: the build is red"}, "why", "web")
	runs(0)
	s.says("before", "")
	runs(2)
	p.tells([]string{"production is as hello@1 says", "after its push: protection smoke says no since ", "requests fail"}, "why", "web")
	s.says("before", "the build is red")
	p.edit("service.yaml", "replicas: 2", "replicas: 1")
	p.tells([]string{"web waits (protection)"}, "why", "web")
	runs(2)
	s.says("before", "")
	s.says("after", "")
	runs(1)
	p.must("wait", "--timeout", "20s")
	eventually(t, func() string {
		if told := p.says("describe", "report", "web"); strings.Contains(told, "after its push") {
			return told
		}
		return ""
	})
	s.mutex.Lock()
	defer s.mutex.Unlock()
	phases := map[any]bool{}
	for _, told := range s.asked {
		phases[told["phase"]] = true
		if told["asset"] != "web" || told["type"] != "lehr.process.v1.Job" || told["content"] == "" || told["planDigest"] == "" || told["incarnation"] == "" {
			t.Errorf("it was told %v", told)
		}
	}
	if !phases["before"] || !phases["after"] || phases["during"] {
		t.Errorf("it was asked %v", phases)
	}
}
