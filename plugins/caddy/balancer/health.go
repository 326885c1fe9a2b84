package balancer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	"lehr.dev/sdk/serve"
)

const (
	// probeWithin is how long one question to a balancer may take,
	// healthWithin all of them.
	probeWithin  = time.Second
	healthWithin = 2 * time.Second
)

// health asks a balancer as its clients do. Caddy tells nobody what its own
// health checks found.
func health(ctx context.Context, endpoint admin, current *caddypb.Balancer) serve.Health {
	within, cancel := context.WithTimeoutCause(ctx, healthWithin, fmt.Errorf("no answer within %v", healthWithin))
	defer cancel()
	trouble, known := trouble(within, endpoint, current)
	switch {
	case ctx.Err() != nil:
		// There was no time to ask, which says nothing of the balancer (S11).
		return serve.Health{State: serve.HealthUnknown, Reason: "there was no time to ask it"}
	case !known:
		return serve.Health{State: serve.HealthUnknown, Reason: trouble}
	case trouble != "":
		return serve.Health{State: serve.Unhealthy, Reason: trouble}
	}
	return serve.Health{State: serve.Healthy}
}

// trouble says why the balancer is not healthy; nothing: it is.
func trouble(ctx context.Context, endpoint admin, current *caddypb.Balancer) (reason string, known bool) {
	if len(weighted(current)) == 0 {
		return "none of its upstreams has a weight", true
	}
	var addresses []string
	for _, listen := range current.Listen {
		address, reachable := endpoint.from(listen)
		if !reachable {
			return fmt.Sprintf("it listens on %s of another machine, where it cannot be asked from here", listen), false
		}
		connection, err := (&net.Dialer{Timeout: probeWithin}).DialContext(ctx, "tcp", address)
		if err != nil {
			return fmt.Sprintf("it does not listen on %s: %v", listen, err), true
		}
		connection.Close()
		addresses = append(addresses, address)
	}
	switch {
	case len(addresses) == 0:
		return "it listens nowhere", true
	case current.Health == nil:
		return endpoint.failing(ctx, current), true
	}
	return ask(ctx, addresses[0], current.Health.Path), true
}

// from says where to reach an address that the Caddy listens on.
func (a admin) from(listen string) (address string, reachable bool) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", false
	}
	here, there := true, "127.0.0.1"
	if a.network == "tcp" {
		there, _, _ = net.SplitHostPort(a.dial)
		here = isLocal(there)
	}
	ip := net.ParseIP(host)
	switch {
	case host == "" || ip != nil && ip.IsUnspecified():
		host = there
	case !here && (host == "localhost" || ip != nil && ip.IsLoopback()):
		return "", false
	}
	return net.JoinHostPort(host, port), true
}

var prober = &http.Client{
	// A kept connection would delay nothing but tell of an old configuration.
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ask sends what Caddy's health checks send, through the balancer.
func ask(ctx context.Context, address, path string) string {
	ctx, cancel := context.WithTimeoutCause(ctx, probeWithin, fmt.Errorf("no answer within %v", probeWithin))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return fmt.Sprintf("it cannot be asked for %q: %v", path, err)
	}
	response, err := prober.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Sprintf("no upstream is healthy, or none is found in time: GET %s through %s: %v", path, address, err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxWords))
	switch response.StatusCode {
	case http.StatusOK:
		return ""
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Sprintf("no upstream is healthy: GET %s through %s answers %s", path, address, response.Status)
	}
	return fmt.Sprintf("GET %s through %s answers %s", path, address, response.Status)
}

// failing says whether requests to all upstreams failed a moment ago. A Caddy
// that does not tell gives no reason to doubt.
func (a admin) failing(ctx context.Context, current *caddypb.Balancer) string {
	body, _, err := a.get(ctx, "/reverse_proxy/upstreams")
	var told []struct {
		Address string `json:"address"`
		Fails   int    `json:"fails"`
	}
	if err != nil || json.Unmarshal(body, &told) != nil {
		return ""
	}
	fails := map[string]int{}
	for _, upstream := range told {
		fails[upstream.Address] = upstream.Fails
	}
	var down []string
	for _, name := range weighted(current) {
		if fails[current.Upstreams[name].Address] == 0 {
			return ""
		}
		down = append(down, name)
	}
	return "no upstream is healthy: requests just failed to " + strings.Join(down, ", ")
}
