package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/plugins/caddy/balancer"
	"lehr.dev/sdk/plugintest/testbed"
	"lehr.dev/sdk/serve"
	"lehr.dev/test/building"
)

// program is the lehr-caddy that the tests run: the real one.
var program string

func TestMain(m *testing.M) { os.Exit(withProgram(m)) }

func withProgram(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lehr-caddy-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "lehr-caddy")
	if err := (building.Program{Of: ".", Flags: []string{"-ldflags", "-s -w"}}).At(program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// caddy is a running "lehr-caddy run", and a plugin that looks after it.
type caddy struct {
	*testbed.Component
	t      *testing.T
	admin  string
	kind   serve.Kind
	pushes atomic.Int64
}

func startCaddy(t *testing.T) *caddy {
	t.Helper()
	return startCaddyIn(t, "{dir}")
}

// startCaddyIn starts one with a folder of its own.
func startCaddyIn(t *testing.T, dir string) *caddy {
	t.Helper()
	c := &caddy{t: t, kind: serve.For(balancer.New(), balancer.Serving())}
	c.Component = testbed.Start(t, testbed.Options{
		Argv: []string{program, "run", "--admin", "{address}", "--dir", dir},
		Ready: func(_ context.Context, component *testbed.Component) error {
			c.admin = component.Address()
			if status, body := c.call(http.MethodGet, "/config/", ""); status != http.StatusOK {
				return fmt.Errorf("%d: %s", status, body)
			}
			return nil
		},
	})
	return c
}

// call is what a person does with curl. Status 0: no answer.
func (c *caddy) call(method, path, body string) (int, string) {
	c.t.Helper()
	request, err := http.NewRequest(method, "http://"+c.admin+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	content, _ := io.ReadAll(response.Body)
	return response.StatusCode, strings.TrimSpace(string(content))
}

// byHand changes the configuration, and must succeed.
func (c *caddy) byHand(method, path, body string) {
	c.t.Helper()
	if status, answer := c.call(method, path, body); status != http.StatusOK {
		c.t.Fatalf("%s %s: %d: %s", method, path, status, answer)
	}
}

// config reads the configuration at a path.
func (c *caddy) config(path string) string {
	c.t.Helper()
	status, answer := c.call(http.MethodGet, path, "")
	if status != http.StatusOK {
		c.t.Fatalf("GET %s: %d: %s", path, status, answer)
	}
	return answer
}

const web = "/config/apps/http/servers/web"

// balancer is one named web with these upstreams, each of weight 1.
func (c *caddy) balancer(upstreams ...string) *caddypb.Balancer {
	c.t.Helper()
	b := &caddypb.Balancer{Admin: c.admin, Name: "web", Listen: []string{testbed.FreeAddress(c.t)}, Upstreams: map[string]*caddypb.Upstream{}}
	for i, address := range upstreams {
		b.Upstreams[string(rune('a'+i))] = &caddypb.Upstream{Address: address, Weight: 1}
	}
	return b
}

func alter(b *caddypb.Balancer, change func(*caddypb.Balancer)) *caddypb.Balancer {
	b = proto.CloneOf(b)
	change(b)
	return b
}

func pack(t *testing.T, message proto.Message) serve.Message {
	t.Helper()
	content, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return serve.Message{Type: serve.TypeName(message.ProtoReflect().Descriptor().FullName()), Bytes: content}
}

func (c *caddy) asset(b *caddypb.Balancer, addons ...proto.Message) serve.Intent {
	c.t.Helper()
	asset := intent.Asset{ID: serve.AssetID("balancer/" + b.Name), Payload: pack(c.t, b)}
	for _, addon := range addons {
		asset.Addons = append(asset.Addons, pack(c.t, addon))
	}
	return serve.Intent{Asset: asset}
}

func (c *caddy) diff(b *caddypb.Balancer, addons ...proto.Message) serve.Difference {
	c.t.Helper()
	return c.kind.Diff(c.t.Context(), []serve.Intent{c.asset(b, addons...)})[0]
}

// changes renders the plan.
func (c *caddy) changes(b *caddypb.Balancer) string {
	c.t.Helper()
	difference := c.diff(b)
	if difference.Outcome == serve.Unknown {
		c.t.Fatalf("the difference is unknown: %s", difference.Reason)
	}
	lines := []string{string(difference.Plan.Action)}
	for _, change := range difference.Plan.Changes {
		lines = append(lines, fmt.Sprintf("%s: %s → %s", change.Path, change.Current, change.Target))
	}
	return strings.Join(lines, "\n")
}

// permits grants everything, once before has returned nil.
type permits struct {
	before func() error
	covers func(base string) error
}

func (p permits) Effect(ctx context.Context) error {
	if p.before != nil {
		if err := p.before(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (p permits) Cover(_ context.Context, base string) error {
	if p.covers != nil {
		return p.covers(base)
	}
	return nil
}

// push carries out what a difference says.
func (c *caddy) push(b *caddypb.Balancer, difference serve.Difference, with permits, addons ...proto.Message) serve.Outcome {
	c.t.Helper()
	return c.kind.Push(c.t.Context(), serve.Push{
		ID: serve.PushID(fmt.Sprintf("push-%d", c.pushes.Add(1))), Asset: c.asset(b, addons...),
		Plan: difference.Plan.Digest(), Base: difference.Base, Progress: func(string) {},
	}, with)
}

func (c *caddy) mustPush(b *caddypb.Balancer) {
	c.t.Helper()
	if outcome := c.push(b, c.diff(b), permits{}); outcome.Ending != serve.Pushed {
		c.t.Fatalf("push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	c.mustBeInSync(b)
}

func (c *caddy) mustBeInSync(b *caddypb.Balancer) {
	c.t.Helper()
	if d := c.diff(b); d.Outcome != serve.InSync {
		c.t.Fatalf("not in sync (%s):\n%s", d.Reason, c.changes(b))
	}
}

// remove carries out a turndown.
func (c *caddy) remove(b *caddypb.Balancer, with permits) serve.Outcome {
	c.t.Helper()
	turndown := &intentpb.Turndown{}
	return c.push(b, c.diff(b, turndown), with, turndown)
}

// current decodes the state that a difference tells.
func (c *caddy) current(d serve.Difference) *caddypb.Balancer {
	c.t.Helper()
	current := &caddypb.Balancer{}
	if err := proto.Unmarshal(d.Current, current); err != nil {
		c.t.Fatal(err)
	}
	return current
}

// upstream is a server that tells its name.
func upstream(t *testing.T, name string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, name) }))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// ask sends a request to a balancer.
func ask(address string) (int, string, error) {
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + address + "/")
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// dead is an address at which nothing listens.
const dead = "127.0.0.1:1"

func waitFor(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// sameJSON reports whether two texts are the same JSON.
func sameJSON(a, b string) bool {
	var one, other any
	if json.Unmarshal([]byte(a), &one) != nil || json.Unmarshal([]byte(b), &other) != nil {
		return false
	}
	x, _ := json.Marshal(one)
	y, _ := json.Marshal(other)
	return bytes.Equal(x, y)
}
