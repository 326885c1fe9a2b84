package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// campaigns run side by side, each with a server of its own.
	campaigns     = 3
	rounds        = 7
	killsPerRound = 10
	resources     = 8
)

// TestKills kills servers, plugins and push commands at random moments while
// the manifest keeps changing. Production is the judge; see judge_test.go.
func TestKills(t *testing.T) {
	binaries(t)
	seed := dice(t)
	total := newTally()
	var running sync.WaitGroup
	for i := range campaigns {
		running.Go(func() {
			t.Run(fmt.Sprint("campaign ", i), func(t *testing.T) {
				total.add(newCampaign(t, rand.New(rand.NewPCG(seed, uint64(i)))).run())
			})
		})
	}
	running.Wait()
	t.Logf("%s; at most %d steps of a push after its plugin's death", total, total.afterlife)
	if kills := total.sum(); !t.Failed() && kills < campaigns*rounds*killsPerRound {
		t.Errorf("%d kills, want %d", kills, campaigns*rounds*killsPerRound)
	}
}

// dice are thrown anew each time, unless they are to fall as they did.
func dice(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("LEHR_FAULTS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("to kill by the same dice again: LEHR_FAULTS_SEED=%d", seed)
	return seed
}

// victim is a kind of kill: it returns whether it met anything alive.
type victim struct {
	name   string
	weight int
	// fatal: all pushes under way end with it.
	fatal bool
	kill  func(c *campaign) bool
}

var victims = []victim{
	{"server", 35, true, func(c *campaign) bool { c.killServer(); return true }},
	{"plugin", 25, true, func(c *campaign) bool { return killAll(c.plugins("lehr-command")) > 0 }},
	{"push command", 10, false, func(c *campaign) bool { return killAll(c.pushes()) > 0 }},
	{"guard", 5, false, func(c *campaign) bool { return killAll(c.guards()) > 0 }},
	{"server and plugin", 10, true, func(c *campaign) bool {
		met := killAll(c.plugins("lehr-command")) > 0
		c.killServer()
		return met
	}},
	{"plugin and guards", 10, true, func(c *campaign) bool {
		guards := c.guards()
		return killAll(append(c.plugins("lehr-command"), guards...)) > 0 && len(guards) > 0
	}},
	{"everything but the push commands", 5, true, func(c *campaign) bool {
		guards := c.guards()
		met := killAll(append(c.plugins("lehr-command"), guards...)) > 0 && len(guards) > 0
		c.killServer()
		return met
	}},
}

// campaign is one world under fire.
type campaign struct {
	*world
	random *rand.Rand
	tally  *tally
	// wanted is the manifest, and its highest value.
	wanted values
	newest int
	// deaths of the plugin, or of the server and so of the plugin.
	deaths []time.Time
	acked  *acked
}

func newCampaign(t *testing.T, random *rand.Rand) *campaign {
	c := &campaign{world: newWorld(t, partition{name: "kills"}), random: random, tally: newTally(), wanted: values{"held": 1, "pinned": 1}, newest: 1}
	for i := range resources {
		c.wanted[fmt.Sprint("r", i)] = 1
	}
	return c
}

// run fights all rounds and has production judged.
func (c *campaign) run() *tally {
	c.want(c.wanted)
	c.serve()
	c.converges(c.wanted)
	c.acked = newAcked(c.world)
	c.acked.begin()
	defer c.acked.stop()
	for range rounds {
		for range killsPerRound {
			c.suffer(time.Duration(c.random.Int64N(int64(1800 * time.Millisecond))))
			c.strike()
			if c.server == nil {
				c.suffer(time.Duration(c.random.Int64N(int64(150 * time.Millisecond))))
				c.start()
				c.tally.restarts++
			}
		}
		c.settle()
	}
	c.acked.stop()
	c.release()
	c.judge()
	return c.tally
}

// suffer lets time pass, while the manifest keeps changing.
func (c *campaign) suffer(d time.Duration) {
	for end := time.Now().Add(d); ; {
		left := time.Until(end)
		pause := time.Duration(c.random.Int64N(int64(500 * time.Millisecond)))
		time.Sleep(min(left, pause))
		if pause >= left {
			return
		}
		c.newest++
		for _, resource := range slices.Sorted(maps.Keys(c.wanted)) {
			if c.random.IntN(3) == 0 {
				c.wanted[resource] = c.newest
			}
		}
		c.want(c.wanted)
	}
}

// strike kills something that lives. What is not there now may be soon.
func (c *campaign) strike() {
	c.Helper()
	if c.server != nil {
		select {
		case <-c.server.ended:
			c.Fatalf("the server ended by itself: %v", c.server.err)
		default:
		}
	}
	dice, chosen := c.random.IntN(100), 0
	for dice >= victims[chosen].weight {
		dice -= victims[chosen].weight
		chosen++
	}
	const soon = 2 * time.Second
	for end := time.Now().Add(soon); c.server != nil; {
		began := time.Now()
		if victims[chosen].kill(c) {
			if victims[chosen].fatal {
				c.deaths = append(c.deaths, time.Now())
			}
			c.tally.kills[victims[chosen].name]++
			return
		}
		if time.Now().After(end) {
			chosen = 0
			continue
		}
		time.Sleep(rest(began, 2*time.Millisecond))
	}
	// What was to die with the server was not there.
	c.deaths = append(c.deaths, time.Now())
	c.tally.kills["server"]++
}

func (c *campaign) killServer() { c.kill() }

// settle waits until production is as the manifest says, and nothing but a
// running server was needed for it (L1, L7).
func (c *campaign) settle() {
	c.Helper()
	began := time.Now()
	wanted := maps.Clone(c.wanted)
	wanted["held"], wanted["pinned"] = 1, 1
	c.converges(wanted)
	c.tally.converged = append(c.tally.converged, time.Since(began))
	c.await("the server answers", c.answers)
	c.acked.verify()
}

// release lets go of what was held and pinned: it follows at once.
func (c *campaign) release() {
	c.Helper()
	for _, arguments := range [][]string{{"unhold", "resource/held", "--reason", "over"}, {"unpin", "resource/pinned", "--reason", "over"}} {
		if _, err := c.lehr(arguments...); err != nil {
			c.Fatal(err)
		}
	}
	c.wanted["held"], c.wanted["pinned"] = c.newest, c.newest
	c.want(c.wanted)
	c.converges(c.wanted)
	if told, err := c.lehr("wait", "--timeout", "60s"); err != nil {
		c.Fatalf("%v\n%s", err, told)
	}
}

// acked are writes that were answered: they are there after every crash (S14).
type acked struct {
	*world
	done, ended chan struct{}
	stopOnce    sync.Once

	mutex sync.Mutex
	// attempted and answered are the numbers of the last writes, by kind.
	attempted, answered map[string]int
	problem             string
}

// begin makes the first writes, and then more and more until stop.
func (a *acked) begin() {
	a.Helper()
	for kind := range acts {
		if err := a.write(kind, 1); err != nil {
			a.Fatal(err)
		}
	}
	go func() {
		defer close(a.ended)
		for n := 2; ; n++ {
			for kind := range acts {
				a.read(kind)
				a.write(kind, n)
			}
			select {
			case <-a.done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
}

func newAcked(w *world) *acked {
	return &acked{world: w, done: make(chan struct{}), ended: make(chan struct{}), attempted: map[string]int{}, answered: map[string]int{}}
}

var acts = map[string][]string{"holds": {"hold", "resource/held"}, "pins": {"pin", "resource/pinned", "1"}}

func (a *acked) write(kind string, n int) error {
	a.mutex.Lock()
	a.attempted[kind] = n
	a.mutex.Unlock()
	_, err := a.lehr(append(slices.Clone(acts[kind]), "--reason", fmt.Sprint("write ", n))...)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if err == nil {
		a.answered[kind] = n
	}
	return err
}

// read compares what is there with what was answered; a server that is down
// says nothing.
func (a *acked) read(kind string) error {
	a.mutex.Lock()
	least := a.answered[kind]
	a.mutex.Unlock()
	told, err := a.lehr("get", kind, "-o", "json")
	if err != nil {
		return err
	}
	var list []struct{ Reason string }
	if err := json.Unmarshal([]byte(told), &list); err != nil {
		return err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	n := 0
	if len(list) == 1 {
		n, _ = strconv.Atoi(strings.TrimPrefix(list[0].Reason, "write "))
	}
	if n < least || n > a.attempted[kind] {
		a.problem = fmt.Sprintf("after a crash the %s are %s, but write %d was answered and %d was the last attempted", kind, told, least, a.attempted[kind])
	}
	return nil
}

// verify reads all once more, from a server that answers.
func (a *acked) verify() {
	a.Helper()
	for kind := range acts {
		a.await("the "+kind+" are told", func() string { return text(a.read(kind)) })
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.problem != "" {
		a.Error(a.problem)
	}
}

func (a *acked) stop() {
	a.stopOnce.Do(func() { close(a.done) })
	<-a.ended
}
