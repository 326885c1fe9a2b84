package faults

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// move is one edit of the manifest.
type move struct {
	what  string
	alter func(m manifest) manifest
}

func resized(name string, replicas int) move {
	return move{fmt.Sprintf("%s: %d", name, replicas), func(m manifest) manifest { m.cluster(name).replicas = replicas; return m }}
}

func versioned(version string, column bool) move {
	return move{fmt.Sprintf("%s, column: %t", version, column), func(m manifest) manifest { m.version, m.column = version, column; return m }}
}

// movements are the rounds of the story; at the end of each it has to be as
// the manifest says.
var movements = [][]move{
	{resized("a", 2), resized("a", 4), resized("b", 2), resized("a", 2), resized("b", 4)},
	{versioned("v2", false), resized("a", 4), resized("b", 2)},
	{resized("a", 2), versioned("v3", true), resized("a", 4), resized("b", 4), resized("a", 2)},
	{resized("b", 2), versioned("v2", false), resized("a", 4), resized("b", 4)},
}

const (
	killsPerMovement = 14
	// betweenKills is the longest pause.
	betweenKills = 1200 * time.Millisecond
)

// TestKillsDuringCapacityMoves halves, doubles and changes versions, with the
// schema that they need, while servers, plugins and proxies are killed.
// Production is watched all the time; see vigil.
func TestKillsDuringCapacityMoves(t *testing.T) {
	t.Parallel()
	seed := dice(t)
	random := rand.New(rand.NewPCG(seed, 17))
	s := newService(t)
	s.serve()
	s.await("the service serves", s.serves)
	siege := &siege{
		service: s, random: random, vigil: keepVigil(s), tally: newTally(),
		// Only one thing of the story destroys anything: the column goes.
		person:  &approver{world: s.world, expects: []string{"schema/searches"}},
		proxies: []string{"a", "b", "global"},
	}
	load := startLoad(s)
	for i, moves := range movements {
		siege.round(fmt.Sprint("round ", i), moves, killsPerMovement)
	}
	s.quiet()
	siege.vigil.stop()
	served := load.judge(siege.vigil.spans)
	siege.vigil.judge()
	siege.judgeJournal()
	s.logs("is not as this release needs it")
	t.Logf("%s; %d looks at production; %s", siege.tally, siege.vigil.looks, served)
}

// siege is a service under fire.
type siege struct {
	*service
	random *rand.Rand
	vigil  *vigil
	tally  *tally
	person *approver
	// proxies that may be killed, by cluster.
	proxies []string
}

// round makes the moves at random moments between kills, and waits until all
// is as the last one says.
func (g *siege) round(name string, moves []move, kills int) {
	g.Helper()
	g.vigil.rolls(true)
	places := g.random.Perm(kills - 1)[:len(moves)]
	slices.Sort(places)
	for i := range kills {
		switch {
		case len(places) > 0 && places[0] == i:
			g.move(name, moves[0])
			places, moves = places[1:], moves[1:]
		case i == kills-1 || g.random.IntN(2) == 0:
			// Back and forth, so that kills meet moves half way.
			g.move(name, resized([]string{"a", "b"}[g.random.IntN(2)], 2+2*g.random.IntN(2)))
		}
		time.Sleep(time.Duration(g.random.Int64N(int64(betweenKills))))
		g.strike()
		g.person.approveAll()
	}
	began := time.Now()
	g.await("the service serves", func() string {
		g.person.approveAll()
		return g.serves()
	})
	g.tally.converged = append(g.tally.converged, time.Since(began))
	g.await("all is in sync", g.inSync)
	g.await("what was killed is excused no more", func() string {
		if n := g.vigil.excuses(); n > 0 {
			return fmt.Sprint(n, " clusters are")
		}
		return ""
	})
	g.vigil.rolls(false)
}

func (g *siege) move(round string, m move) {
	g.Helper()
	g.Logf("%s: %s", round, m.what)
	g.change(m.alter)
}

func (w *world) inSync() string {
	_, err := w.lehr("wait", "--timeout", "2s")
	return text(err)
}

// strike kills something that lives, and starts the server again if it was
// that.
func (g *siege) strike() {
	g.Helper()
	select {
	case <-g.server.ended:
		g.Fatalf("the server ended by itself: %v", g.server.err)
	default:
	}
	kinds := []string{"server", "server", "server", "lehr-process", "lehr-process", "lehr-caddy", "lehr-caddy", "lehr-sqlschema", "proxy", "proxy", "server and plugins"}
	if len(g.proxies) == 0 {
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == "proxy" })
	}
	g.await("something is met alive", func() string {
		kind := kinds[g.random.IntN(len(kinds))]
		if !g.killOne(kind) {
			return kind + " is not there"
		}
		g.tally.kills[kind]++
		return ""
	})
	if g.server == nil {
		time.Sleep(time.Duration(g.random.Int64N(int64(150 * time.Millisecond))))
		g.start()
		g.tally.restarts++
	}
}

func (g *siege) killOne(kind string) (met bool) {
	switch kind {
	case "server":
		g.kill()
		return true
	case "server and plugins":
		for _, program := range []string{"lehr-process", "lehr-caddy", "lehr-sqlschema"} {
			killAll(g.plugins(program))
		}
		g.kill()
		return true
	case "proxy":
		return g.killProxy(g.proxies[g.random.IntN(len(g.proxies))])
	}
	return killAll(g.plugins(kind)) > 0
}

// killProxy kills a balancer's process; it comes back empty.
func (g *siege) killProxy(cluster string) (met bool) {
	living := of(g.look(), g.job(cluster, "proxy"))
	if len(living) == 0 {
		return false
	}
	g.vigil.excuse(cluster, func() {
		met = killAll([]process{living[0].process}) > 0
		g.await("the proxy has ended", func() string {
			if slices.ContainsFunc(of(g.look(), g.job(cluster, "proxy")), func(t task) bool { return t.pid == living[0].pid }) {
				return "it lives"
			}
			return ""
		})
	})
	return met
}

// journal is all pushes, oldest first.
func (w *world) journal(partition string) []*apipb.Push {
	w.Helper()
	response, err := w.client().Journal.ListPushes(context.Background(), &apipb.ListPushesRequest{Partition: partition, Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	slices.SortFunc(response.Pushes, func(a, b *apipb.Push) int {
		return cmp.Compare(a.Admitted.AsTime().UnixNano(), b.Admitted.AsTime().UnixNano())
	})
	return response.Pushes
}

// quiet: at a fixed point nothing is pushed (L10), though all is looked at.
func (s *service) quiet() {
	s.Helper()
	const calm = 5 * time.Second
	before := len(s.journal("shakespeare"))
	time.Sleep(calm)
	if after := s.journal("shakespeare"); len(after) > before {
		s.Errorf("L10: %d pushes at a fixed point: %v", len(after)-before, after[before:])
	}
}

// judgeJournal holds production's own record of pushes against the journal:
// each was admitted before it was seen (S1), none is left open (L6), and the
// audit chain is whole (S25).
func (g *siege) judgeJournal() {
	g.Helper()
	admitted := map[string]*apipb.Push{}
	for _, push := range g.journal("shakespeare") {
		admitted[push.Push] = push
		g.tally.pushes++
		if push.Ending == "" {
			g.Errorf("L6: push %s of %s is open though nothing is under way", push.Push, push.Asset)
		}
	}
	see := func(asset, id string, at time.Time) {
		push := admitted[id]
		if push == nil || push.Asset != asset || push.Admitted.AsTime().After(at) {
			g.Errorf("S1: the journal has %v for push %s of %s, seen at %s", push, id, asset, at)
		}
	}
	for asset, list := range g.vigil.writers {
		for _, w := range list {
			see(asset, w.push, w.at)
		}
	}
	for _, t := range g.vigil.started {
		parts := strings.Split(strings.TrimPrefix(t.job, g.identity+"/"), "/")
		see(parts[1]+"/"+parts[0], t.push, g.vigil.firstSeen[t.push])
	}
	g.intact("shakespeare")
}

// intact wants the audit chains whole.
func (w *world) intact(partition string) {
	w.Helper()
	for _, scope := range []string{"", partition} {
		response, err := w.client().Audit.VerifyAudit(context.Background(), &apipb.VerifyAuditRequest{Partition: scope})
		if err != nil || !response.Intact {
			w.Errorf("the audit chain %q: %v %v", scope, response, err)
		}
	}
}

// logs fails the test when any task wrote these words.
func (s *service) logs(words string) {
	s.Helper()
	paths, _ := filepath.Glob(filepath.Join(s.production, ".local", "state", "lehr", "process", s.identity, "*", "*", "*.log*"))
	for _, path := range paths {
		if content, _ := os.ReadFile(path); bytes.Contains(content, []byte(words)) {
			s.Errorf("%s: %s", path, last(string(content), 1000))
		}
	}
	if len(paths) == 0 {
		s.Errorf("no task wrote a log")
	}
}
