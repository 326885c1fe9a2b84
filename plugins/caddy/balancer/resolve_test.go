package balancer

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	"lehr.dev/sdk/serve"
)

func TestDefaults(t *testing.T) {
	asked := &caddypb.Balancer{Admin: "localhost:2019", Name: "web", Listen: []string{":80"}, Health: &caddypb.HealthCheck{Path: "/"}}
	b, err := New().Resolve(t.Context(), serve.Asset[*caddypb.Balancer]{Payload: asked})
	if err != nil {
		t.Fatal(err)
	}
	if b.TryFor.AsDuration() != 2*time.Second || b.Health.Interval.AsDuration() != time.Second || b.Health.Timeout.AsDuration() != time.Second {
		t.Errorf("the defaults are %v", b)
	}
	if asked.TryFor != nil || asked.Health.Interval != nil {
		t.Error("the payload was altered")
	}
}

func TestWhatIsRefused(t *testing.T) {
	for name, one := range map[string]struct {
		change func(*caddypb.Balancer)
		says   string
	}{
		"a scheme":           {func(b *caddypb.Balancer) { b.Admin = "http://127.0.0.1:2019" }, "admin"},
		"a path":             {func(b *caddypb.Balancer) { b.Admin = "127.0.0.1:2019/config" }, "admin"},
		"a user":             {func(b *caddypb.Balancer) { b.Admin = "me@127.0.0.1/x:2019" }, "admin"},
		"no host":            {func(b *caddypb.Balancer) { b.Admin = ":2019" }, "admin"},
		"no port":            {func(b *caddypb.Balancer) { b.Admin = "127.0.0.1" }, "admin"},
		"port nought":        {func(b *caddypb.Balancer) { b.Admin = "127.0.0.1:0" }, "admin"},
		"a query":            {func(b *caddypb.Balancer) { b.Admin = "127.0.0.1?x:2019" }, "admin"},
		"a relative socket":  {func(b *caddypb.Balancer) { b.Admin = "unix/admin.sock" }, "socket"},
		"a roundabout path":  {func(b *caddypb.Balancer) { b.Admin = "unix//run/../etc/x" }, "socket"},
		"a long socket":      {func(b *caddypb.Balancer) { b.Admin = "unix//" + strings.Repeat("x", 200) }, "socket"},
		"a path as name":     {func(b *caddypb.Balancer) { b.Name = "../admin" }, "name"},
		"an ellipsis":        {func(b *caddypb.Balancer) { b.Name = "..." }, "name"},
		"a socket to listen": {func(b *caddypb.Balancer) { b.Listen = []string{"unix//etc/passwd"} }, "listen"},
		"a range of ports":   {func(b *caddypb.Balancer) { b.Listen = []string{":80-90"} }, "listen"},
		"a network":          {func(b *caddypb.Balancer) { b.Listen = []string{"udp/:80"} }, "listen"},
		"a placeholder":      {func(b *caddypb.Balancer) { b.Upstreams["a"].Address = "{file./etc/passwd}:80" }, "upstream a"},
		"no address":         {func(b *caddypb.Balancer) { b.Upstreams["a"] = nil }, "upstream a"},
		"a quoted name":      {func(b *caddypb.Balancer) { b.Upstreams[`a"`] = b.Upstreams["a"] }, "upstream named"},
		"the total's name":   {func(b *caddypb.Balancer) { b.Upstreams["upstreams"] = b.Upstreams["a"] }, "upstream named"},
		"a check elsewhere":  {func(b *caddypb.Balancer) { b.Health.Path = "http://example.com/" }, "health.path"},
		"a check's header":   {func(b *caddypb.Balancer) { b.Health.Path = "/ HTTP/1.1\r\nX: y" }, "health.path"},
		"negative retries":   {func(b *caddypb.Balancer) { b.TryFor = durationpb.New(-1) }, "try_for"},
		"endless retries":    {func(b *caddypb.Balancer) { b.TryFor = durationpb.New(1e18) }, "try_for"},
		"checks all time":    {func(b *caddypb.Balancer) { b.Health.Interval = durationpb.New(0) }, "health.interval"},
	} {
		b := example(t)
		one.change(b)
		if _, err := resolve(b); err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%s: %v, want an error about %s", name, err, one.says)
		}
	}
}

func TestInstances(t *testing.T) {
	machine, err := machineName()
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"127.0.0.1:2019":         machine + ":2019",
		"localhost:2019":         machine + ":2019",
		"[::1]:2019":             machine + ":2019",
		"0.0.0.0:2019":           machine + ":2019",
		"unix//run/caddy.sock":   machine + "/run/caddy.sock",
		"Proxy.Example.com:2019": "proxy.example.com:2019",
		"192.0.2.1:2019":         "192.0.2.1:2019",
	} {
		endpoint, err := parseAdmin(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if got, err := endpoint.instance(); err != nil || got != want {
			t.Errorf("%s is the instance %q (%v), want %q", address, got, err, want)
		}
	}
}
