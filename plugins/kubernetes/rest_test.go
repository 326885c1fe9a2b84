package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
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

// wantSpent waits until the server has counted so many requests, which it does a moment after
// their answers, and fails if it counted more.
func (c *cluster) wantSpent(before map[string]int, want int, what string) {
	c.Helper()
	c.plane.Wait(what+" to be counted", func() error {
		total, text := spent(before, c.requests())
		if total > want {
			c.Fatalf("%s cost %s", what, text)
		}
		if total < want {
			return fmt.Errorf("it cost %s", text)
		}
		return nil
	})
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
// at once, and costs one read and one dry run.
func resting(c *cluster) {
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
	c.plane.Wait("all answers to be kept", func() error {
		before := c.requests()
		for i, d := range c.kind.Diff(c.Context(), assets) {
			if d.Outcome != serve.InSync {
				c.Fatalf("%s is %v %s", assets[i].ID, d.Outcome, d.Reason)
			}
		}
		if total, text := spent(before, c.requests()); total > 0 {
			return fmt.Errorf("a sweep cost %s", text)
		}
		return nil
	})
	before := c.requests()
	began := time.Now()
	for range 3 {
		for _, d := range c.kind.Diff(c.Context(), assets) {
			if d.Outcome != serve.InSync || d.At.IsZero() || d.At.After(time.Now()) || len(d.Current) == 0 || d.Base == "" || d.ResourceKey == "" {
				c.Fatalf("an answer of a watch is %+v", d)
			}
		}
	}
	if total, text := spent(before, c.requests()); total != 0 {
		c.Errorf("at rest three sweeps cost %s", text)
	}

	// As of now it is read, and not predicted anew.
	before = c.requests()
	if d := c.diff(asOfNow(assets[0])); d.Outcome != serve.InSync || d.At.Before(began) && !d.At.IsZero() {
		c.Errorf("asked as of now it is %+v", d)
	}
	c.wantSpent(before, 1, "a question as of now")

	// An edit is hinted, and the answer after the hint shows it.
	hinted := given.of("thing-3")
	before = c.requests()
	c.byHand("/api/v1/namespaces/resting/configmaps/thing-3", http.MethodPatch, `{"data":{"a":"theirs"}}`)
	c.plane.Wait("the edit to be hinted", func() error {
		if given.of("thing-3") == hinted {
			return fmt.Errorf("%d hints", hinted)
		}
		return nil
	})
	if d := c.diff(assets[3]); changes(d) != "update\ndata.a: \"theirs\" → \"1\" by Go-http-client" {
		c.Errorf("after the hint it is %v %s\n%s", d.Outcome, d.Reason, changes(d))
	}
	for _, d := range c.kind.Diff(c.Context(), assets[4:]) {
		if d.Outcome != serve.InSync {
			c.Errorf("another is %v %s", d.Outcome, d.Reason)
		}
	}
	// The edit itself, a read, and two dry runs that must agree.
	c.wantSpent(before, 4, "one change")
	for _, other := range []serve.AssetID{"thing-2", "thing-19"} {
		if n := given.of(other); n > hintsOfPush {
			c.Errorf("%s was hinted %d times", other, n)
		}
	}
	// So is a deletion.
	hinted = given.of("thing-9")
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

// hintsOfPush are at most those of an asset's own push.
const hintsOfPush = 2

// TestWatching holds what watches tell to one real API server.
func TestWatching(t *testing.T) {
	p := plane.Start(t)
	c := &cluster{T: t, plane: p, list: writeList(t, p)}
	p.Wait("the namespace kube-system", func() error {
		_, err := p.Ask(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err
	})
	// Each removes what others would notice; "asking" notices what "predicting" leaves.
	for _, part := range []struct {
		name string
		run  func(*cluster)
	}{
		{"resting", resting}, {"predicting", predicting}, {"vanishing", vanishing}, {"failing", failing},
		{"limiting", limiting}, {"asking", askingOnce}, {"confirming", confirmingMany},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(c.with(t, part.name)) })
	}
}
