package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestServiceFaults does to one service, one after the other, what has a clear
// answer; each time it is as the manifest says in the end.
func TestServiceFaults(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.serve()
	s.await("the service serves", s.serves)
	for _, fault := range []struct {
		name   string
		suffer func(s *service)
	}{
		{"stop in the middle of a halving", stopInHalving},
		{"a balancer that comes back empty", emptyBalancer},
		{"a writer who never rests", restlessWriter},
		{"a column approved to go before those who need it", schemaDownApprovedEarly},
	} {
		whole := s.T
		t.Run(fault.name, func(t *testing.T) {
			s.T = t
			defer func() { s.T = whole }()
			fault.suffer(s)
			s.await("the service serves", s.serves)
			s.await("all is in sync", s.inSync)
		})
	}
}

func (w *world) must(arguments ...string) {
	w.Helper()
	if told, err := w.lehr(arguments...); err != nil {
		w.Fatalf("%v\n%s", err, told)
	}
}

// picture is all of production that a push could change.
func (s *service) picture() string {
	var b strings.Builder
	for _, t := range s.look() {
		fmt.Fprintf(&b, "%s/%d is process %d\n", t.job, t.number, t.pid)
	}
	for _, port := range []int{s.port + 1, s.manifest.cluster("a").admin(), s.manifest.cluster("b").admin()} {
		pool, err := s.pool(port)
		fmt.Fprintln(&b, port, pool.id, pool.weights, text(err))
	}
	return b.String()
}

// A stop between two steps of a halving: nothing moves any more. After it the
// rest is done in the right order.
func stopInHalving(s *service) {
	a := *s.manifest.cluster("a")
	vigil := keepVigil(s)
	s.must("hold", "balancer/a", "--reason", "to stop half way")
	s.resize("a", 2)
	s.await("the global balancer expects less", func() string {
		if global, err := s.pool(s.port + 1); err != nil || global.share(a) != 2 {
			return fmt.Sprint(global, text(err))
		}
		return ""
	})
	s.Log(s.awaitTold("frontend/a", `balancer/a still expects 4 of upstreams from frontend/a, which would serve 2`, `hold`))
	s.must("stop", "--reason", "something smells")
	s.must("unhold", "balancer/a", "--reason", "over")
	s.await("no push is under way", s.allEnded)
	before, pushes := s.picture(), len(s.journal("shakespeare"))
	s.Log(s.awaitTold("balancer/a", `stop`, `something smells`))
	const calm = 4 * time.Second
	time.Sleep(calm)
	if now := s.picture(); now != before || len(s.journal("shakespeare")) != pushes {
		s.Errorf("S18: under the stop production moved from\n%s to\n%s", before, now)
	}
	s.must("resume", "--reason", "it was lunch")
	s.await("the halving is done", s.serves)
	vigil.stop()
	vigil.judge()
	s.resize("a", full)
}

func (s *service) allEnded() string {
	for _, push := range s.journal("shakespeare") {
		if push.Ending == "" {
			return push.Push + " has not"
		}
	}
	return ""
}

// A balancer whose process was killed comes back empty, is told, and filled
// again; the other cluster serves meanwhile.
func emptyBalancer(s *service) {
	s.must("hold", "balancer/a", "--reason", "to see it empty")
	killed := of(s.look(), s.job("a", "proxy"))
	killAll([]process{killed[0].process})
	s.await("its process is back", func() string {
		if now := of(s.look(), s.job("a", "proxy")); len(now) != 1 || now[0].pid == killed[0].pid {
			return fmt.Sprint(now)
		}
		return ""
	})
	s.Log(s.awaitTold("balancer/a", `hold`, `would create it`))
	for range 20 {
		if found, err := search(s.port); err != nil || !slices.ContainsFunc(of(s.look(), s.job("b", "frontend")), func(t task) bool { return t.pid == found.PID }) {
			s.Fatalf("the other cluster does not serve: %v %v", found, err)
		}
	}
	s.must("unhold", "balancer/a", "--reason", "over")
	s.await("the service serves", s.serves)
	killAll([]process{of(s.look(), s.job("global", "proxy"))[0].process})
}

// Somebody changes a balancer through its admin endpoint: as fast as can be, so
// that it moves between the difference and the push, and then each time it is
// repaired. Both are told as what they are, and end when the other one rests.
func restlessWriter(s *service) {
	path, port := "/config/apps/http/servers/"+s.identity, s.port+1
	content, err := caddy(http.MethodGet, port, path, "")
	if err != nil {
		s.Fatal(err)
	}
	a := s.manifest.cluster("a")
	write := func(n int) error {
		wrong := strings.ReplaceAll(string(content), fmt.Sprintf("127.0.0.1:%d", a.balancer()), fmt.Sprintf("127.0.0.1:%d", a.port+n%full))
		_, err := caddy(http.MethodPatch, port, path, wrong)
		return err
	}
	done, ended := make(chan struct{}), make(chan int)
	go func() {
		writes := 0
		defer func() { ended <- writes }()
		for ; ; writes++ {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				_ = write(writes) // one that is refused lost a race
			}
		}
	}()
	var told string
	missing := s.within(patience, func() string {
		told = s.why("balancer/global")
		return unmatched(told, `the plan moved while it was pushed|changed-back`, `upstreams\["a"\]\.address`)
	})
	close(done)
	s.Logf("%d writes: %s", <-ended, told)
	if missing != "" {
		s.Errorf("it is not told: %s", missing)
	}
	s.await("the service serves", s.serves)
	began, writes := time.Now(), 0
	s.await("the fight is named", func() string {
		if s.serves() == "" {
			writes++
			if err := write(0); err != nil {
				return err.Error()
			}
		}
		told = s.why("balancer/global")
		return unmatched(told, `changed-back`, `upstreams\["a"\]\.address`)
	})
	s.Logf("after %d changes in %s: %s", writes, time.Since(began).Round(time.Millisecond), told)
}

// schemaDownApprovedEarly: the column's removal needs an approval in any case,
// so it is given early. It lets nothing else go: the column stays as long as a
// task runs that needs it (S23).
func schemaDownApprovedEarly(s *service) {
	person := &approver{world: s.world, expects: []string{"schema/searches"}}
	vigil := keepVigil(s)
	vigil.rolls(true)
	s.change(versioned("v3", true).alter)
	s.await("v3 serves", s.serves)
	s.await("all is in sync", s.inSync)
	s.must("hold", "frontend/b", "--reason", "to keep v3 running")
	s.change(versioned("v2", false).alter)
	s.await("the removal of the column is approved", func() string {
		person.approveAll()
		if person.given["schema/searches"] == 0 {
			return "it does not wait for an approval"
		}
		return ""
	})
	s.await("cluster a runs v2", func() string {
		return s.clusterServes(*s.manifest.cluster("a"), "v2", of(s.look(), s.job("a", "frontend")))
	})
	s.Log(s.awaitTold("schema/searches", `frontend/b still needs at least 2 of schema/searches, which would declare 1`))
	s.must("unhold", "frontend/b", "--reason", "over")
	s.await("v2 serves", func() string {
		person.approveAll()
		return s.serves()
	})
	vigil.stop()
	vigil.judge()
}
