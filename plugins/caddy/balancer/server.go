package balancer

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	"lehr.dev/sdk/serve"
)

// server is an HTTP server in Caddy's configuration, as far as Lehr makes one.
type server struct {
	ID        string    `json:"@id,omitempty"`
	Listen    []string  `json:"listen"`
	Automatic automatic `json:"automatic_https"`
	Protocols []string  `json:"protocols"`
	Routes    []route   `json:"routes"`
}

type automatic struct {
	Disable bool `json:"disable"`
}

type route struct {
	Handle []handler `json:"handle"`
}

// handler is a reverse proxy or a fixed answer.
type handler struct {
	Handler       string         `json:"handler"`
	StatusCode    int            `json:"status_code,omitempty"`
	Body          string         `json:"body,omitempty"`
	Upstreams     []dialled      `json:"upstreams,omitempty"`
	LoadBalancing *loadBalancing `json:"load_balancing,omitempty"`
	HealthChecks  *healthChecks  `json:"health_checks,omitempty"`
}

type dialled struct {
	ID   string `json:"@id,omitempty"`
	Dial string `json:"dial"`
}

type loadBalancing struct {
	Policy      policy        `json:"selection_policy"`
	TryDuration length        `json:"try_duration,omitempty"`
	TryInterval length        `json:"try_interval,omitempty"`
	RetryMatch  []methodMatch `json:"retry_match,omitempty"`
}

type policy struct {
	Policy  string  `json:"policy"`
	Weights []int64 `json:"weights"`
}

type methodMatch struct {
	Method []string `json:"method"`
}

type healthChecks struct {
	Active  *activeCheck  `json:"active,omitempty"`
	Passive *passiveCheck `json:"passive,omitempty"`
}

type activeCheck struct {
	URI          string `json:"uri"`
	Interval     length `json:"interval"`
	Timeout      length `json:"timeout"`
	ExpectStatus int    `json:"expect_status"`
}

type passiveCheck struct {
	FailDuration length `json:"fail_duration"`
	MaxFails     int    `json:"max_fails"`
}

// length is a duration as Caddy writes it.
type length time.Duration

func (l length) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(l).String()) }

// UnmarshalJSON takes what it can read; anything else is no length, and shows
// as a difference.
func (l *length) UnmarshalJSON(text []byte) error {
	var written string
	var nanoseconds int64
	if json.Unmarshal(text, &written) == nil {
		parsed, _ := time.ParseDuration(written)
		*l = length(parsed)
	} else if json.Unmarshal(text, &nanoseconds) == nil {
		*l = length(nanoseconds)
	}
	return nil
}

const (
	reverseProxy   = "reverse_proxy"
	staticResponse = "static_response"
	weightedRobin  = "weighted_round_robin"
	idPrefix       = "lehr:"
	// sharedNetwork is the network of "lehr-caddy run": its sockets stay open
	// while the configuration changes (package proxy).
	sharedNetwork = "shared/"

	noUpstreams = "No upstream of this balancer has a weight: it has nowhere to send requests.\n"
	// tryInterval is between two upstreams that a request is tried on.
	tryInterval = 50 * time.Millisecond
	// leastRest keeps an upstream that failed from being tried again at once.
	leastRest = 10 * time.Millisecond
)

// mark is the id of a server that a push writes. The push's id is unique for
// ever, so no two states of the server are the same, whatever they hold.
func mark(asset serve.AssetID, push serve.PushID) string {
	return idPrefix + url.PathEscape(string(asset)) + ":" + url.PathEscape(string(push))
}

func upstreamPrefix(name string) string { return "lehr-upstream:" + name + ":" }

// render writes the balancer as Caddy's configuration.
func render(balancer *caddypb.Balancer, id string, shared bool) server {
	written := server{
		ID:        id,
		Listen:    []string{},
		Automatic: automatic{Disable: true},
		Protocols: []string{"h1"},
		Routes:    []route{{Handle: []handler{renderHandler(balancer)}}},
	}
	for _, address := range balancer.Listen {
		if shared {
			address = sharedNetwork + address
		}
		written.Listen = append(written.Listen, address)
	}
	return written
}

func renderHandler(balancer *caddypb.Balancer) handler {
	names := weighted(balancer)
	if len(names) == 0 {
		return handler{Handler: staticResponse, StatusCode: 503, Body: noUpstreams}
	}
	tryFor := balancer.TryFor.AsDuration()
	balancing := &loadBalancing{Policy: policy{Policy: weightedRobin}}
	checks := &healthChecks{}
	if tryFor > 0 {
		balancing.TryDuration, balancing.TryInterval = length(tryFor), length(tryInterval)
		// Methods without effects and without a body: safe to send again.
		balancing.RetryMatch = []methodMatch{{Method: []string{"GET", "HEAD", "OPTIONS"}}}
		// One that fails is left out, so that the retry finds another, and is
		// back before a request gives up, should it be the only one.
		checks.Passive = &passiveCheck{FailDuration: length(max(tryFor/2, leastRest)), MaxFails: 1}
	}
	if check := balancer.Health; check != nil {
		checks.Active = &activeCheck{
			URI: check.Path, ExpectStatus: 200,
			Interval: length(check.Interval.AsDuration()), Timeout: length(check.Timeout.AsDuration()),
		}
	}
	proxy := handler{Handler: reverseProxy, LoadBalancing: balancing}
	if *checks != (healthChecks{}) {
		proxy.HealthChecks = checks
	}
	for _, name := range names {
		upstream := dialled{Dial: balancer.Upstreams[name].Address}
		if upstreamName.MatchString(name) {
			upstream.ID = upstreamPrefix(balancer.Name) + name
		}
		proxy.Upstreams = append(proxy.Upstreams, upstream)
		balancing.Policy.Weights = append(balancing.Policy.Weights, int64(balancer.Upstreams[name].Weight))
	}
	return proxy
}

// own reports whether an id is one that a push of Lehr wrote.
func own(id string) bool {
	asset, push, found := strings.Cut(strings.TrimPrefix(id, idPrefix), ":")
	return found && strings.HasPrefix(id, idPrefix) && asset != "" && push != ""
}
