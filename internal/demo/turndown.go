package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// of cluster b: what the manifest makes for it.
func partsOf(c cluster) []string {
	return []string{"balancer/" + c.name, "frontend/" + c.name, "proxy/" + c.name}
}

func (s *stage) leftOut(ctx context.Context) error {
	b := s.clusters[1]
	load := s.startLoad(ctx)
	defer load.stop()
	inside := s.inside(b)
	if err := s.edit("cluster b is left out", func(m *manifest) {
		m.clusters = slices.DeleteFunc(m.clusters, func(w wanted) bool { return w.name == b.name })
	}); err != nil {
		return err
	}
	candidate, err := s.held(ctx)
	if err != nil {
		return err
	}
	if err := s.untouched(ctx, s.pids()); err != nil {
		return err
	}
	s.so("the shrink guard holds it; nothing is touched")
	if err := s.print(ctx, "approve", "--candidate", candidate, "--reason", "cluster b is not ours any more"); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "the global balancer drops cluster b", s.serves("v3")); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "the orphans are listed", s.tells("orphans", partsOf(b)...)); err != nil {
		return err
	}
	if err := s.print(ctx, "get", "orphans"); err != nil {
		return err
	}
	if err := s.untouched(ctx, s.pids()); err != nil {
		return err
	}
	pool, err := s.upstreams(ctx, b.admin())
	if err != nil || len(pool) != replicas || !slices.Equal(s.inside(b), inside) {
		return fmt.Errorf("cluster b was to be left as it is: processes %v were %v, upstreams %v, %v", s.inside(b), inside, pool, err)
	}
	s.so("the global balancer sends cluster b nothing; inside it nothing was touched: processes %v, its balancer has its %d upstreams", inside, len(pool))
	return s.end(load)
}

// inside lists the processes of a cluster.
func (s *stage) inside(c cluster) []int {
	var pids []int
	for _, job := range []string{c.job(s), c.proxy(s)} {
		for _, t := range s.tasks(job) {
			pids = append(pids, t.pid)
		}
	}
	return pids
}

// held waits for a candidate that a guard holds, and returns its digest.
func (s *stage) held(ctx context.Context) (digest string, err error) {
	err = s.until(ctx, patience, "the candidate is held", func(ctx context.Context) string {
		output, err := s.quietly(ctx, "get", "candidates", "-o", "json")
		if err != nil {
			return err.Error()
		}
		var candidates []struct{ State, Digest string }
		if err := json.Unmarshal([]byte(output), &candidates); err != nil {
			return err.Error()
		}
		if len(candidates) == 0 || candidates[0].State != "held" {
			return fmt.Sprintf("the candidates are %+v", candidates)
		}
		digest = candidates[0].Digest
		return ""
	})
	const shown = 12
	return digest[:min(shown, len(digest))], err
}

func (s *stage) turndown(ctx context.Context) error {
	b := s.clusters[1]
	load := s.startLoad(ctx)
	defer load.stop()
	vigil := s.watch(ctx, s.headless(b))
	defer vigil.stop()
	if err := s.edit("cluster b is back, with turndown: true", func(m *manifest) {
		m.clusters = append(m.clusters, wanted{cluster: b, replicas: replicas, turndown: true})
	}); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "its removal waits for approvals", s.tells("reports", `"approval"`, `"delete"`)); err != nil {
		return err
	}
	if err := s.untouched(ctx, s.pids()); err != nil {
		return err
	}
	s.so("without an approval nothing is removed")
	for _, part := range partsOf(b) {
		if err := s.until(ctx, patience, part+" can be approved", func(ctx context.Context) string {
			if _, err := s.quietly(ctx, "approve", part, "--reason", "cluster b is retired"); err != nil {
				return err.Error()
			}
			return ""
		}); err != nil {
			return err
		}
		s.say("    $ lehr approve %s --reason 'cluster b is retired'", part)
	}
	if err := s.until(ctx, patience, "nothing is left of cluster b", func(context.Context) string {
		if left := s.inside(b); len(left) > 0 {
			return fmt.Sprintf("processes %v", left)
		}
		return ""
	}); err != nil {
		return err
	}
	if err := s.kept(vigil, "its balancer went before its tasks, and the balancer's process after it"); err != nil {
		return err
	}
	for port := b.port; port < b.port+row; port++ {
		if connection, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second); err == nil {
			connection.Close()
			return fmt.Errorf("port %d of cluster b is still served", port)
		}
	}
	s.so("nothing is left of cluster b")
	if err := s.end(load); err != nil {
		return err
	}
	if err := s.edit("cluster b is left out: it is gone", func(m *manifest) {
		m.clusters = slices.DeleteFunc(m.clusters, func(w wanted) bool { return w.name == b.name })
	}); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "it is left out without a question, and leaves no orphan", func(ctx context.Context) string {
		assets, err := s.quietly(ctx, "get", "assets", "-o", "json")
		if err != nil || strings.Contains(assets, b.asset()) {
			return fmt.Sprintf("the assets are %.400s, %v", assets, err)
		}
		orphans, err := s.quietly(ctx, "get", "orphans", "-o", "json")
		if err != nil || strings.Contains(orphans, b.asset()) {
			return fmt.Sprintf("the orphans are %.400s, %v", orphans, err)
		}
		return s.serves("v3")(ctx)
	}); err != nil {
		return err
	}
	s.so("it is left out without a question, and leaves no orphan")
	return nil
}

// headless says when a cluster's balancer sends requests to tasks that are
// gone, or its process went before what is configured in it.
func (s *stage) headless(c cluster) func(context.Context) string {
	last := pool{}
	return func(ctx context.Context) string {
		tasks := len(s.tasks(c.job(s)))
		pool, err := s.upstreams(ctx, c.admin())
		if err != nil {
			if len(s.tasks(c.proxy(s))) == 0 && len(last) > 0 {
				return fmt.Sprintf("the balancer's process ended while it had the upstreams %v", slices.Sorted(maps.Keys(last)))
			}
			return ""
		}
		last = pool
		if now := max(tasks, len(s.tasks(c.job(s)))); len(pool) > 0 && now < len(pool) {
			return fmt.Sprintf("the balancer of cluster %s has %d upstreams, and there are %d tasks", c.name, len(pool), now)
		}
		return ""
	}
}

func (s *stage) handwork(ctx context.Context) error {
	a := s.clusters[0]
	content, err := admin(ctx, http.MethodGet, s.port+1, "/config/apps/http/servers/"+s.service, "")
	if err != nil {
		return err
	}
	right := fmt.Sprintf("127.0.0.1:%d", a.balancer())
	wrong := strings.ReplaceAll(string(content), right, fmt.Sprintf("127.0.0.1:%d", a.port))
	change := func() error {
		_, err := admin(ctx, http.MethodPatch, s.port+1, "/config/apps/http/servers/"+s.service, wrong)
		return err
	}
	s.say("    $ curl -X PATCH http://127.0.0.1:%d/config/apps/http/servers/%s   # sends requests to task 0 alone", s.port+1, s.service)
	if err := change(); err != nil {
		return err
	}
	start := time.Now()
	if err := s.until(ctx, patience, "the route is repaired", s.serves("v3")); err != nil {
		return err
	}
	s.so("repaired after %s", time.Since(start).Round(100*time.Millisecond))
	s.say("    the same change again, each time it is repaired")
	err = s.until(ctx, patience, "the fight is named", func(ctx context.Context) string {
		if s.balanced(ctx) == "" {
			if err := change(); err != nil {
				return err.Error()
			}
		}
		return s.tells("reports", "changed-back", `upstreams[\"a\"].address`)(ctx)
	})
	if err != nil {
		return err
	}
	if err := s.print(ctx, "why", "balancer/global"); err != nil {
		return err
	}
	s.so("the fight is named, with the field that somebody keeps changing back, and repairs are made more slowly")
	return nil
}
