package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/sdk/serve"
)

// hints are those that a kind gave.
type hints struct {
	mutex sync.Mutex
	count map[serve.AssetID]int
}

func (h *hints) add(_ serve.PartitionID, asset serve.AssetID) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.count[asset]++
}

func (h *hints) of(asset serve.AssetID) int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.count[asset]
}

func (h *hints) all() map[serve.AssetID]int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return maps.Clone(h.count)
}

// watched is the cluster with a kind that watches, as under a running plugin.
func (c *cluster) watched() *hints {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	given := &hints{count: map[serve.AssetID]int{}}
	ended := make(chan error, 1)
	go func() { ended <- c.kind.(serve.Watcher).Watch(ctx, given.add) }()
	c.Cleanup(func() {
		cancel()
		<-ended
	})
	return given
}

var sample = regexp.MustCompile(`^apiserver_request_total\{(.*)\} ([0-9.e+]+)$`)

func (c *cluster) requests() map[string]int {
	c.Helper()
	return requests(c.plane)
}

// requests are those that the API server has answered, by verb, resource and dry run.
func requests(p *plane.Plane) map[string]int {
	p.Helper()
	answer, err := p.Ask(http.MethodGet, "/metrics", "", nil)
	if err != nil {
		p.Fatal(err)
	}
	counts := map[string]int{}
	for lines := bufio.NewScanner(bytes.NewReader(answer)); lines.Scan(); {
		found := sample.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		labels := map[string]string{}
		for _, label := range strings.Split(found[1], ",") {
			name, value, _ := strings.Cut(label, "=")
			labels[name] = strings.Trim(value, `"`)
		}
		value, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			p.Fatal(err)
		}
		counts[labels["verb"]+" "+labels["resource"]+" "+labels["dry_run"]] += int(value)
	}
	return counts
}

// spent is how many requests about configmaps and secrets were answered meanwhile, watches
// aside. The server itself makes none about these in the test's time.
func spent(before, after map[string]int) (total int, text string) {
	for name, count := range after {
		parts := strings.Split(name, " ")
		if more := count - before[name]; more > 0 && parts[0] != "WATCH" && (parts[1] == "configmaps" || parts[1] == "secrets") {
			total += more
			text += fmt.Sprintf("%d %s; ", more, name)
		}
	}
	return total, text
}

func named(c *cluster, name, namespace, data string, kind string) serve.Intent {
	asset := c.asset(object(c.T, fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":%q,"namespace":%q},"data":{"a":%q}}`, kind, name, namespace, data)))
	asset.ID = serve.AssetID(name)
	return asset
}

// asOfNow asks as whoever needs the newest answer does.
func asOfNow(asset serve.Intent) serve.Intent {
	asset.ReadSince = time.Now()
	return asset
}

// resting: what is in sync costs no request, watches aside; what somebody edits is hinted
// at once, and costs one read and two dry runs.
func resting(c *cluster) {
	asked := c.counted()
	given := c.watched()
	const count = 20
	var assets []serve.Intent
	for i := range count {
		kind, data := "ConfigMap", "1"
		if i%10 == 9 {
			kind, data = "Secret", "MQ=="
		}
		assets = append(assets, named(c, fmt.Sprintf("thing-%d", i), "resting", data, kind))
	}
	for _, asset := range assets {
		c.mustPush(asset)
	}
	edited := assets[3]
	sweep := func() (cost string, err error) {
		cost = asked.cost(func() {
			for i, d := range c.kind.Diff(c.Context(), assets) {
				if d.Outcome != serve.InSync {
					err = fmt.Errorf("%s is %v %s", assets[i].ID, d.Outcome, d.Reason)
				}
			}
		})
		return cost, err
	}
	// whileWatched runs what is measured from when a sweep costs nothing, and anew where a watch ended
	// before all was measured: a busy server ends one now and then, and what it followed is read then.
	whileWatched := func(what, want string, run func() error) {
		c.Helper()
		c.plane.Wait(what+" while no watch ends", func() error {
			ended := asked.ends()
			if d := c.diff(edited); d.Outcome == serve.Differs {
				c.mustPush(edited) // What was edited before.
			}
			c.plane.Wait("all answers to be kept", func() error {
				cost, err := sweep()
				if err == nil && cost != "" {
					err = fmt.Errorf("a sweep cost %s", cost)
				}
				return err
			})
			var err error
			cost := asked.cost(func() { err = run() })
			switch more := asked.ends() - ended; {
			case more > 0:
				return fmt.Errorf("%d watches ended; it cost %s: %v", more, cost, err)
			case err != nil:
				c.Errorf("%s: %v", what, err)
			case cost != want:
				c.Errorf("%s cost %q, want %q", what, cost, want)
			}
			return nil
		})
	}
	whileWatched("three sweeps", "", func() error {
		for range 3 {
			for _, d := range c.kind.Diff(c.Context(), assets) {
				if d.Outcome != serve.InSync || d.At.IsZero() || d.At.After(time.Now()) || len(d.Current) == 0 || d.Base == "" || d.ResourceKey == "" {
					return fmt.Errorf("an answer of a watch is %+v", d)
				}
			}
		}
		return nil
	})

	// As of now it is read, and not predicted anew.
	whileWatched("a question as of now", "1 GET configmaps", func() error {
		asset := asOfNow(assets[0])
		if d := c.diff(asset); d.Outcome != serve.InSync || d.At.Before(asset.ReadSince) && !d.At.IsZero() {
			return fmt.Errorf("asked as of now it is %+v", d)
		}
		return nil
	})

	// An edit is hinted, and the answer after the hint shows it. No other asset is hinted. The read is
	// followed by two dry runs that must agree.
	edits := 0
	whileWatched("an edit", "2 APPLY configmaps dry; 1 GET configmaps", func() error {
		before := given.all()
		edits++
		theirs := fmt.Sprintf("theirs-%d", edits)
		c.byHand("/api/v1/namespaces/resting/configmaps/thing-3", http.MethodPatch, fmt.Sprintf(`{"data":{"a":%q}}`, theirs))
		c.plane.Wait("the edit to be hinted", func() error {
			if n := given.of(edited.ID); n == before[edited.ID] {
				return fmt.Errorf("%d hints", n)
			}
			return nil
		})
		if d := c.diff(edited); changes(d) != fmt.Sprintf("update\ndata.a: %q → \"1\" by Go-http-client", theirs) {
			return fmt.Errorf("after the hint it is %v %s\n%s", d.Outcome, d.Reason, changes(d))
		}
		for _, d := range c.kind.Diff(c.Context(), assets[4:]) {
			if d.Outcome != serve.InSync {
				return fmt.Errorf("another is %v %s", d.Outcome, d.Reason)
			}
		}
		for id, n := range given.all() {
			if more := n - before[id]; more > 0 && id != edited.ID {
				return fmt.Errorf("%s was hinted %d times", id, more)
			}
		}
		return nil
	})

	// So is a deletion.
	hinted := given.of("thing-9")
	c.byHand("/api/v1/namespaces/resting/secrets/thing-9", http.MethodDelete, "")
	c.plane.Wait("the deletion to be hinted", func() error {
		if given.of("thing-9") == hinted {
			return fmt.Errorf("%d hints", hinted)
		}
		return nil
	})
	if d := c.diff(assets[9]); d.Plan.Action != serve.ActionCreate {
		c.Errorf("after its deletion it is %v %s", d.Outcome, d.Reason)
	}
}

// TestWatching holds what watches tell to one real API server.
func TestWatching(t *testing.T) {
	p := plane.Start(t)
	c := &cluster{T: t, plane: p, list: writeList(t, p)}
	p.Wait("the namespace kube-system", func() error {
		_, err := p.Ask(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err
	})
	for _, part := range []struct {
		name string
		run  func(*cluster)
	}{
		{"resting", resting}, {"predicting", predicting}, {"vanishing", vanishing}, {"failing", failing}, {"limiting", limiting},
		{"asking", askingOnce}, {"confirming", confirmingMany}, {"lagging", lagging},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(c.with(t, part.name)) })
	}
}
