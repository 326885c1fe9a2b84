// Package balancer keeps HTTP balancers in running Caddies as intended, over
// their admin endpoints. A balancer is one HTTP server of a Caddy's
// configuration; nothing else in it is ever written (S5). Each write bears the
// id of its push and is bound by If-Match to what was read, so that the same
// content never has the same token twice.
//
// Between calls it keeps only which Caddies to watch, for hints. Only the program lehr-caddy calls it,
// through sdk/serve.
package balancer

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	"lehr.dev/sdk/serve"
)

const (
	defaultTryFor   = 2 * time.Second
	defaultInterval = time.Second
	defaultTimeout  = time.Second
	// longest bounds the durations of a balancer: a slip of the pen must not
	// keep requests for days.
	longest = time.Hour
)

// Balancers serves lehr.caddy.v1.Balancer.
type Balancers struct {
	// watch of the Caddies that were looked at.
	watch *watch
}

// New returns the resource.
func New() Balancers { return Balancers{watch: newWatch()} }

var (
	_ serve.Resource[*caddypb.Balancer]  = Balancers{}
	_ serve.Destroyer[*caddypb.Balancer] = Balancers{}
	_ serve.Remover[*caddypb.Balancer]   = Balancers{}
	_ serve.Watcher                      = Balancers{}
)

// Serving: Caddy compares what it has with If-Match in the call that changes
// it. A call cannot be taken back once it is sent.
func Serving() serve.Serving {
	return serve.Serving{Guarantee: serve.CompareAndSet, LongestEffect: changeWithin}
}

// Resolve fills in the defaults, and refuses what Caddy would take for
// something else than an address.
func (Balancers) Resolve(_ context.Context, asset serve.Asset[*caddypb.Balancer]) (*caddypb.Balancer, error) {
	fields, err := asset.Unmanaged()
	if err != nil {
		return nil, err
	}
	for _, field := range fields {
		if strings.HasPrefix(field, "foreign") {
			return nil, fmt.Errorf("what others add to balancer %s cannot be left to them: remove %q from its Unmanaged addon", asset.Payload.Name, field)
		}
	}
	return resolve(asset.Payload)
}

var (
	serverName   = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)
	hostName     = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?$`)
	upstreamName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

func resolve(payload *caddypb.Balancer) (*caddypb.Balancer, error) {
	balancer := proto.CloneOf(payload)
	balancer.Foreign = nil
	if !serverName.MatchString(balancer.Name) {
		return nil, fmt.Errorf("the balancer's name %q is no name of a server: use small letters, digits, '.', '_' and '-'", balancer.Name)
	}
	if _, err := parseAdmin(balancer.Admin); err != nil {
		return nil, err
	}
	for _, listen := range balancer.Listen {
		if err := checkAddress(listen, true); err != nil {
			return nil, fmt.Errorf("balancer %s cannot listen on %q: %w", balancer.Name, listen, err)
		}
	}
	for name, upstream := range balancer.Upstreams {
		if !upstreamName.MatchString(name) || name == totalDimension {
			return nil, fmt.Errorf("balancer %s has an upstream named %q: use letters, digits, '.', '_' and '-', and not %q", balancer.Name, name, totalDimension)
		}
		if err := checkAddress(upstream.GetAddress(), false); err != nil {
			return nil, fmt.Errorf("upstream %s of balancer %s cannot be at %q: %w", name, balancer.Name, upstream.GetAddress(), err)
		}
	}
	return balancer, resolveTimes(balancer)
}

func resolveTimes(balancer *caddypb.Balancer) error {
	times := []struct {
		field    string
		value    **durationpb.Duration
		fallback time.Duration
	}{{"try_for", &balancer.TryFor, defaultTryFor}}
	if check := balancer.Health; check != nil {
		if target, err := url.ParseRequestURI(check.Path); err != nil || target.IsAbs() || target.Host != "" || !plain(check.Path) {
			return fmt.Errorf("health.path %q of balancer %s is not a path such as /healthz", check.Path, balancer.Name)
		}
		times = append(times, []struct {
			field    string
			value    **durationpb.Duration
			fallback time.Duration
		}{{"health.interval", &check.Interval, defaultInterval}, {"health.timeout", &check.Timeout, defaultTimeout}}...)
	}
	for _, t := range times {
		length := t.fallback
		if *t.value != nil {
			length = (*t.value).AsDuration()
		}
		if length < 0 || length > longest || length == 0 && t.field != "try_for" {
			return fmt.Errorf("%s of balancer %s is %v: at most %v is allowed, and not less than nothing", t.field, balancer.Name, length, longest)
		}
		*t.value = durationpb.New(length)
	}
	return nil
}

// plain text has nothing that Caddy would replace, and no control characters.
func plain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '{' || r == '}' || r == 0x7f })
}

// checkAddress takes one host and one port. Caddy takes more: ranges of ports,
// placeholders that read files, and sockets whose path it would remove.
func checkAddress(address string, anyHost bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w: write host:port", err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return fmt.Errorf("%q is no port: write one number from 1 to 65535", port)
	}
	if net.ParseIP(host) != nil || hostName.MatchString(host) || host == "" && anyHost {
		return nil
	}
	return fmt.Errorf("%q is no host", host)
}

// weighted lists the upstreams that get requests, in the order that Caddy has.
func weighted(balancer *caddypb.Balancer) []string {
	names := slices.Sorted(maps.Keys(balancer.GetUpstreams()))
	return slices.DeleteFunc(names, func(name string) bool { return balancer.Upstreams[name].GetWeight() == 0 })
}

// Destructive: none of the upstreams is to get requests any more.
func (Balancers) Destructive(change serve.Change[*caddypb.Balancer]) []string {
	if len(weighted(change.State.Current)) > 0 && len(weighted(change.Target)) == 0 {
		return []string{"upstreams"}
	}
	return nil
}
