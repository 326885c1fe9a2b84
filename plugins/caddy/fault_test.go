package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	"lehr.dev/plugins/caddy/balancer"
	"lehr.dev/sdk/plugintest/testbed"
	"lehr.dev/sdk/serve"
)

func TestUnreachableIsUnknown(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	planned := c.diff(b)
	c.Kill()
	d := c.diff(b)
	if d.Outcome != serve.Unknown || !strings.Contains(d.Reason, c.admin) || !strings.Contains(d.Reason, "lehr-caddy run") {
		t.Errorf("without a Caddy the difference is %v, %q", d.Outcome, d.Reason)
	}
	if outcome := c.push(b, planned, permits{}); outcome.Ending != serve.Failed || !outcome.Retryable {
		t.Errorf("without a Caddy a push ends %+v", outcome)
	}
}

func TestOneDeadCaddyHarmsNoOther(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	c.mustPush(b)
	dead := alter(b, func(b *caddypb.Balancer) { b.Admin = testbed.FreeAddress(t) })
	wrong := alter(b, func(b *caddypb.Balancer) { b.Admin = "http://example.com/" })
	differences := c.kind.Diff(t.Context(), []serve.Intent{c.asset(dead), c.asset(b), c.asset(wrong)})
	if differences[0].Outcome != serve.Unknown || differences[1].Outcome != serve.InSync || differences[2].Outcome != serve.Unknown {
		t.Errorf("a dead one, a live one and a wrong one are %v, %v, %v", differences[0].Outcome, differences[1].Outcome, differences[2].Outcome)
	}
}

func TestARestartedCaddyIsFilledAgain(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	c.mustPush(b)
	planned := c.diff(alter(b, func(b *caddypb.Balancer) { b.Upstreams["a"].Weight = 5 }))
	c.Kill()
	c.Restart()
	d := c.diff(b)
	if d.Plan.Action != serve.ActionCreate || d.Health.State != serve.Unhealthy || fmt.Sprint(d.Impacts) != "[{upstreams 0 1} {a 0 1}]" {
		t.Errorf("an empty Caddy is told as %+v", d)
	}
	if outcome := c.push(b, planned, permits{}); outcome.Ending != serve.Stale {
		t.Errorf("a push that was planned before the restart ended %s", outcome.Ending)
	}
	c.mustPush(b)
	shares(t, b.Listen[0], 1)
}

func TestAnEmptiedCaddyIsFilledAgain(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	for _, path := range []string{"/config/apps/http/servers", "/config/apps/http", "/config/apps", "/config/"} {
		c.mustPush(b)
		c.byHand(http.MethodDelete, path, "")
		if d := c.diff(b); d.Plan.Action != serve.ActionCreate {
			t.Errorf("without %s it is told as %+v", path, d)
		}
	}
	// Now the configuration is empty, and another Caddy than "lehr-caddy run"
	// could not be told from this one.
	c.mustPush(b)
	shares(t, b.Listen[0], 1)
}

// A Caddy that was not started by "lehr-caddy run", as far as can be told.
func TestAnyCaddyWillDo(t *testing.T) {
	c := startCaddy(t)
	c.byHand(http.MethodPost, "/load", `{"admin":{"listen":"`+c.admin+`"},"apps":{}}`)
	b := c.balancer(upstream(t, "a"))
	c.mustPush(b)
	if got := c.config(web + "/listen"); got != `["`+b.Listen[0]+`"]` {
		t.Errorf("it listens on %s", got)
	}
	heavier := alter(b, func(b *caddypb.Balancer) { b.Upstreams["a"].Weight = 5 })
	r := balancer.New()
	same := []serve.Change[*caddypb.Balancer]{c.change(heavier, "p1"), c.change(heavier, "p2")}
	if wrote, stale := race(t, []applying{r.Apply, r.Remove}, same); wrote != 1 || stale != 1 {
		t.Errorf("of two that write, %d wrote and %d were stale", wrote, stale)
	}
	if outcome := c.remove(b, permits{}); outcome.Ending != serve.Pushed {
		t.Errorf("removing ended %s: %s", outcome.Ending, outcome.Reason)
	}
}

func TestATakenAddressIsNamedAndNothingChanges(t *testing.T) {
	c, other := startCaddy(t), startCaddy(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	theirs := other.balancer(upstream(t, "a"))
	other.mustPush(theirs)
	b := c.balancer(upstream(t, "a"))
	c.mustPush(b)
	for name, address := range map[string]string{"a process": taken.Addr().String(), "another Caddy": theirs.Listen[0]} {
		before := c.config("/config/")
		alsoFree := testbed.FreeAddress(t)
		moved := alter(b, func(b *caddypb.Balancer) { b.Listen = []string{alsoFree, address} })
		outcome := c.push(moved, c.diff(moved), permits{})
		if outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "address already in use") {
			t.Errorf("listening where %s does ended %s: %s", name, outcome.Ending, outcome.Reason)
		}
		if after := c.config("/config/"); after != before {
			t.Errorf("the configuration was %s and is %s", before, after)
		}
		shares(t, b.Listen[0], 1)
		waitFor(t, "the other address to be free", func() error {
			listener, err := net.Listen("tcp", alsoFree)
			if err == nil {
				listener.Close()
			}
			return err
		})
	}
}

// Two servers of one Caddy never share an address, whoever wrote them.
func TestAnAddressOfTheSameCaddyIsTaken(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	c.mustPush(b)
	twin := alter(b, func(b *caddypb.Balancer) { b.Name = "twin" })
	if outcome := c.push(twin, c.diff(twin), permits{}); outcome.Ending != serve.Failed {
		t.Errorf("a second balancer on the address ended %+v", outcome)
	}
	theirs := fmt.Sprintf(`{"listen":[%q],"routes":[{"handle":[{"handler":"static_response","body":"mine"}]}]}`, b.Listen[0])
	if status, body := c.call(http.MethodPut, "/config/apps/http/servers/mine", theirs); status == http.StatusOK {
		t.Errorf("another server on the address: %d %s", status, body)
	}
	// Caddy answers before it has closed the socket of the server that it refused, and the kernel
	// resets what was given to that one.
	waitFor(t, "Caddy to close the socket of the server that it refused", func() error {
		if n := listening(t, b.Listen[0]); n != 1 {
			return fmt.Errorf("%d sockets listen on %s", n, b.Listen[0])
		}
		return nil
	})
	if got := shares(t, b.Listen[0], 20); got["a"] != 20 {
		t.Errorf("requests went to %v", got)
	}
}

// listening counts the sockets that listen on an IPv4 address.
func listening(t *testing.T, address string) int {
	t.Helper()
	at := netip.MustParseAddrPort(address)
	host := at.Addr().As4()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	const listen = "0A"
	want := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(host[:]), at.Port())
	count := 0
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 3 && fields[1] == want && fields[3] == listen {
			count++
		}
	}
	return count
}

func TestAnAddressMayBecomeWider(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	c.mustPush(b)
	_, port, _ := net.SplitHostPort(b.Listen[0])
	c.mustPush(alter(b, func(b *caddypb.Balancer) { b.Listen = []string{":" + port} }))
	shares(t, b.Listen[0], 5)
	c.mustPush(b)
	shares(t, b.Listen[0], 5)
}

func TestAHungCaddyDelaysNoOther(t *testing.T) {
	t.Parallel()
	hung, c := startCaddy(t), startCaddy(t)
	stuck := hung.balancer(upstream(t, "a"))
	planned := hung.diff(stuck)
	hung.Freeze()
	b := c.balancer(upstream(t, "a"))
	// Lehr waits 10 s for a difference.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	differences := c.kind.Diff(ctx, []serve.Intent{c.asset(stuck), c.asset(b)})
	if ctx.Err() != nil || differences[0].Outcome != serve.Unknown || !strings.Contains(differences[0].Reason, "no answer within") {
		t.Errorf("the hung one is %v, %q", differences[0].Outcome, differences[0].Reason)
	}
	if differences[1].Plan.Action != serve.ActionCreate {
		t.Errorf("the other one is %+v", differences[1])
	}
	if outcome := hung.push(stuck, planned, permits{}); outcome.Ending != serve.Failed || !outcome.Retryable {
		t.Errorf("a push to the hung one ended %+v", outcome)
	}
}

// TestManyThatHangDelayNoOther: one tenant's Caddies, all of which hang, do not
// keep Lehr from another's.
func TestManyThatHangDelayNoOther(t *testing.T) {
	t.Parallel()
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	silent, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, port, _ := net.SplitHostPort(silent.Addr().String())
	var assets []serve.Intent
	for i := range 400 {
		hung := alter(b, func(b *caddypb.Balancer) { b.Admin = fmt.Sprintf("127.0.%d.%d:%s", 1+i/200, 1+i%200, port) })
		assets = append(assets, c.asset(hung))
	}
	assets = append(assets, c.asset(b))
	// Lehr waits 10 s for a difference.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	differences := c.kind.Diff(ctx, assets)
	if got := differences[len(differences)-1]; ctx.Err() != nil || got.Plan.Action != serve.ActionCreate {
		t.Errorf("beside 400 that hang it is %v, %q", got.Outcome, got.Reason)
	}
}

// TestACallThatHangsIsInDoubt stops Caddy in the moment before the write: the
// push fails, the change comes about later, and the next look sees it.
func TestACallThatHangsIsInDoubt(t *testing.T) {
	t.Parallel()
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	stopping := permits{before: func() error { c.Freeze(); return nil }}
	outcome := c.push(b, c.diff(b), stopping)
	if outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, "may come about") {
		t.Errorf("the push ended %+v", outcome)
	}
	c.Thaw()
	waitFor(t, "the change", func() error {
		if d := c.diff(b); d.Outcome != serve.InSync {
			return fmt.Errorf("%v, %s", d.Outcome, d.Reason)
		}
		return nil
	})
}

// TestALostAnswerIsFoundOut puts something between that forwards a change and
// drops its answer: the change came about once, and is told so.
func TestALostAnswerIsFoundOut(t *testing.T) {
	c := startCaddy(t)
	writes := 0
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := http.NewRequest(r.Method, "http://"+c.admin+r.URL.Path, r.Body)
		request.Header = r.Header
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer response.Body.Close()
		if r.Method != http.MethodGet && response.StatusCode == http.StatusOK {
			writes++
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("ETag", response.Header.Get("ETag"))
		w.WriteHeader(response.StatusCode)
		io.Copy(w, response.Body)
	}))
	defer between.Close()
	b := c.balancer(upstream(t, "a"))
	b.Admin = between.Listener.Addr().String()
	c.mustPush(b)
	c.mustPush(alter(b, func(b *caddypb.Balancer) { b.Upstreams["a"].Weight = 5 }))
	if outcome := c.remove(b, permits{}); outcome.Ending != serve.Pushed {
		t.Errorf("removing ended %s: %s", outcome.Ending, outcome.Reason)
	}
	if writes != 3 || c.config(web) != "null" {
		t.Errorf("there were %d writes, and there is %s", writes, c.config(web))
	}
}

// TestOtherServersAreNotTakenForCaddy holds the plugin to answers that no
// Caddy gives.
func TestOtherServersAreNotTakenForCaddy(t *testing.T) {
	elsewhere := false
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elsewhere = true
		io.WriteString(w, "null")
	}))
	defer other.Close()
	chunk := make([]byte, 1<<20)
	for name, one := range map[string]struct {
		answer http.HandlerFunc
		reason string
	}{
		"a redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }, "redirect"},
		"not JSON":   {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, "not JSON"},
		"no object":  {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `[1]`) }, "no object"},
		"an error":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "a secret", http.StatusForbidden) }, "403 Forbidden: in other words"},
		"too much": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, "more than"},
	} {
		server := httptest.NewServer(one.answer)
		b := &caddypb.Balancer{Admin: server.Listener.Addr().String(), Name: "web", Listen: []string{"127.0.0.1:80"}}
		states, err := balancer.New().Read(t.Context(), []serve.Asset[*caddypb.Balancer]{{Payload: b}})
		if err != nil || states[0].Err == nil || !strings.Contains(states[0].Err.Error(), one.reason) {
			t.Errorf("%s is told as %v (%v)", name, states[0].Err, err)
		}
		server.Close()
	}
	if elsewhere {
		t.Error("a redirect was followed")
	}
}

func TestAnAdminEndpointAtASocket(t *testing.T) {
	c := startCaddy(t)
	socket := filepath.Join(shortDir(t), "admin.sock")
	c.byHand(http.MethodPatch, "/config/admin/listen", `"unix/`+socket+`"`)
	b := c.balancer(upstream(t, "a"))
	b.Admin = "unix/" + socket
	c.mustPush(b)
	shares(t, b.Listen[0], 1)
	if key := string(c.diff(b).ResourceKey); !strings.HasPrefix(key, "caddy:") || !strings.HasSuffix(key, socket+"/web") {
		t.Errorf("the key is %s", key)
	}
}

// shortDir is a folder whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// One Caddy has one key, however it is named.
func TestNamesOfOneCaddy(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	_, port, _ := net.SplitHostPort(c.admin)
	key := c.diff(b).ResourceKey
	b.Admin = "localhost:" + port
	if d := c.diff(b); d.ResourceKey != key || key == "" || strings.Contains(string(key), "127.0.0.1") {
		t.Errorf("by its address it is %q, by its name %q (%s)", key, d.ResourceKey, d.Reason)
	}
}
