package faults

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// TestTurndownUnderKills turns one cluster down while servers and plugins are
// killed. The other one serves every request, and nothing of it is touched.
func TestTurndownUnderKills(t *testing.T) {
	t.Parallel()
	seed := dice(t)
	s := newService(t)
	s.serve()
	s.await("the service serves", s.serves)
	s.await("all is in sync", s.inSync)
	a, b := *s.manifest.cluster("a"), *s.manifest.cluster("b")
	outside, wrote := s.outside(b), s.wrote(a)
	siege := &siege{
		service: s, random: rand.New(rand.NewPCG(seed, 18)), vigil: keepVigil(s), tally: newTally(),
		person: &approver{world: s.world, expects: b.parts()},
	}
	load := startLoad(s)
	s.change(func(m manifest) manifest { m.cluster("b").turndown = true; return m })
	const kills, pause, soon = 20, 400 * time.Millisecond, 200 * time.Millisecond
	for range kills {
		time.Sleep(time.Duration(siege.random.Int64N(int64(pause))))
		if siege.random.IntN(3) > 0 {
			siege.person.approveAll()
		}
		// While what was approved is under way.
		time.Sleep(time.Duration(siege.random.Int64N(int64(soon))))
		siege.strike()
	}
	began := time.Now()
	s.await("nothing is left of cluster b", func() string {
		siege.person.approveAll()
		return s.remains(b)
	})
	siege.tally.converged = append(siege.tally.converged, time.Since(began))
	s.await("all is in sync", s.inSync)
	s.quiet()
	siege.vigil.stop()
	siege.vigil.judge()
	siege.judgeJournal()
	siege.judgeApprovals()
	siege.judgeRemovals(b)
	if now := s.outside(b); !slices.Equal(now, outside) || s.wrote(a) != wrote {
		t.Errorf("outside cluster b the processes were %v and are %v; the balancer and the schema were written by %s and are by %s", outside, now, wrote, s.wrote(a))
	}
	t.Logf("%s; approvals given: %v; %s", siege.tally, siege.person.given, load.judge(nil))
	s.change(func(m manifest) manifest { m.clusters = m.clusters[:1]; return m })
	s.await("the cluster leaves the manifest without a question, and no orphan", func() string {
		assets, err := s.lehr("get", "assets")
		orphans, also := s.lehr("get", "orphans")
		if err != nil || also != nil || bytes.Contains([]byte(assets+orphans), []byte("/b")) {
			return fmt.Sprint(assets, orphans, text(err), text(also))
		}
		return s.serves()
	})
	s.await("all is in sync", s.inSync)
}

// outside are the processes of all but one cluster.
func (s *service) outside(c cluster) []int {
	var pids []int
	for _, t := range s.look() {
		if t.job != s.job(c.name, "frontend") && t.job != s.job(c.name, "proxy") {
			pids = append(pids, t.pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// wrote says which pushes wrote a cluster's balancer and the schema last.
func (s *service) wrote(c cluster) string {
	own, err := s.pool(c.admin())
	if err != nil {
		s.Error(err)
	}
	push, err := s.query("SELECT push FROM lehr_schema_versions")
	if err != nil {
		s.Error(err)
	}
	return own.id + " and " + push
}

// remains says what is left of a cluster.
func (s *service) remains(c cluster) string {
	for _, t := range s.look() {
		if t.job == s.job(c.name, "frontend") || t.job == s.job(c.name, "proxy") {
			return fmt.Sprintf("process %d of %s", t.pid, t.job)
		}
	}
	for port := c.port; port < c.port+row; port++ {
		if connection, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second); err == nil {
			connection.Close()
			return fmt.Sprintf("port %d", port)
		}
	}
	return ""
}

// audit is all records of the partition, oldest first.
func (s *service) audit() (records []*apipb.AuditRecord) {
	s.Helper()
	for after := uint64(0); ; {
		response, err := s.client().Audit.ListAudit(context.Background(), &apipb.ListAuditRequest{Partition: "shakespeare", After: after, Limit: 1000})
		if err != nil {
			s.Fatal(err)
		}
		records = append(records, response.Records...)
		if after = response.Next; after == 0 {
			return records
		}
	}
}

// judgeApprovals: each removal was admitted by an approval of its own (S9).
func (g *siege) judgeApprovals() {
	g.Helper()
	left, removals := map[string]int{}, map[string]int{}
	first := map[string]bool{}
	for _, record := range g.audit() {
		switch record.Verb {
		case "approve":
			left[record.Subject]++
			first[record.Subject] = true
		case "admit":
			if !first[record.Subject] {
				continue // Before the turndown.
			}
			removals[record.Subject]++
			if left[record.Subject]--; left[record.Subject] < 0 {
				g.Errorf("S9: %s was removed without an approval of its own: %v", record.Subject, record)
			}
		}
	}
	for _, part := range g.person.expects {
		if removals[part] == 0 {
			g.Errorf("%s was not removed by an approved push: %v", part, removals)
		}
	}
	g.Logf("removals admitted: %v", removals)
}

// judgeRemovals: the balancer went before its tasks, and before its process.
func (g *siege) judgeRemovals(c cluster) {
	g.Helper()
	began, ended := map[string]time.Time{}, map[string]time.Time{}
	first := map[string]bool{}
	for _, record := range g.audit() {
		if record.Verb == "approve" {
			first[record.Subject] = true
		}
		if record.Verb == "admit" && first[record.Subject] && began[record.Subject].IsZero() {
			began[record.Subject] = record.At.AsTime()
		}
	}
	for _, push := range g.journal("shakespeare") {
		ended[push.Asset] = push.Ended.AsTime()
	}
	for _, later := range []string{"frontend/" + c.name, "proxy/" + c.name} {
		if balancer := ended["balancer/"+c.name]; began[later].Before(balancer) {
			g.Errorf("%s was removed from %s on, and the balancer until %s", later, began[later], balancer)
		}
	}
}
