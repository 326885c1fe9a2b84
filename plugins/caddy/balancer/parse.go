package balancer

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
)

// maxForeign is how many foreign things are listed; the rest is one more.
const maxForeign = 50

// parse reads a server of Caddy's configuration back as a balancer. What a
// balancer cannot say is listed as foreign: all in which the server differs
// from the one that the balancer read would be written as.
func parse(live any, intended *caddypb.Balancer, shared bool) (*caddypb.Balancer, error) {
	text, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	var seen server
	// Fields of another type stay empty, and so show as differences.
	_ = json.Unmarshal(text, &seen)
	current := &caddypb.Balancer{Admin: intended.Admin, Name: intended.Name, Upstreams: map[string]*caddypb.Upstream{}}
	for _, address := range seen.Listen {
		if shared {
			address = strings.TrimPrefix(address, sharedNetwork)
		}
		current.Listen = append(current.Listen, address)
	}
	readHandler(current, seen, intended)
	id := seen.ID
	if !own(id) {
		id = idPrefix
	}
	written, err := generic(render(current, id, shared))
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	foreign(found, "", written, live)
	current.Foreign = bounded(found)
	// Those without a weight are not in Caddy. Intent says where they are.
	for name, upstream := range intended.Upstreams {
		if upstream.Weight == 0 && current.Upstreams[name] == nil {
			current.Upstreams[name] = proto.CloneOf(upstream)
		}
	}
	return current, nil
}

// readHandler reads the reverse proxy. Where there is none, nothing tells of
// its health checks and retries, and they are no difference.
func readHandler(current *caddypb.Balancer, seen server, intended *caddypb.Balancer) {
	if len(seen.Routes) == 0 || len(seen.Routes[0].Handle) == 0 || seen.Routes[0].Handle[0].Handler != reverseProxy {
		current.TryFor, current.Health = intended.TryFor, intended.Health
		return
	}
	proxy := seen.Routes[0].Handle[0]
	current.TryFor = durationpb.New(0)
	balancing := loadBalancing{}
	if proxy.LoadBalancing != nil {
		balancing = *proxy.LoadBalancing
		current.TryFor = durationpb.New(time.Duration(balancing.TryDuration))
	}
	if proxy.HealthChecks != nil && proxy.HealthChecks.Active != nil {
		check := proxy.HealthChecks.Active
		current.Health = &caddypb.HealthCheck{
			Path:     check.URI,
			Interval: durationpb.New(time.Duration(check.Interval)),
			Timeout:  durationpb.New(time.Duration(check.Timeout)),
		}
	}
	for i, upstream := range proxy.Upstreams {
		name, named := strings.CutPrefix(upstream.ID, upstreamPrefix(current.Name))
		if !named || !upstreamName.MatchString(name) {
			name = upstream.Dial
		}
		unique := name
		for n := 2; current.Upstreams[unique] != nil; n++ {
			unique = fmt.Sprintf("%s #%d", name, n)
		}
		current.Upstreams[unique] = &caddypb.Upstream{Address: upstream.Dial, Weight: balancing.Policy.weight(i)}
	}
}

// weight of the i-th upstream. Another policy gives each the same.
func (p policy) weight(i int) uint32 {
	switch {
	case p.Policy != weightedRobin:
		return 1
	case i >= len(p.Weights):
		return 0
	}
	return uint32(min(max(p.Weights[i], 0), math.MaxUint32))
}

// generic turns a value into what decoding its JSON gives.
func generic(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var result any
	return result, json.Unmarshal(text, &result)
}

// foreign lists in what the live value differs from the one that Lehr would
// write, by path. It tells no values: a person may have put secrets there
// (S13).
func foreign(found map[string]string, path string, written, live any) {
	switch wanted := written.(type) {
	case map[string]any:
		if there, ok := live.(map[string]any); ok {
			for _, key := range union(wanted, there) {
				compareOne(found, join(path, key), wanted, there, key)
			}
			return
		}
	case []any:
		if there, ok := live.([]any); ok {
			for i := range max(len(wanted), len(there)) {
				at := path + "[" + strconv.Itoa(i) + "]"
				switch {
				case i >= len(there):
					found[at] = "missing"
				case i >= len(wanted):
					found[at] = "added"
				default:
					foreign(found, at, wanted[i], there[i])
				}
			}
			return
		}
	default:
		if written == live {
			return
		}
	}
	found[orWhole(path)] = "changed"
}

func compareOne(found map[string]string, path string, written, live map[string]any, key string) {
	one, wanted := written[key]
	other, there := live[key]
	switch {
	case !there:
		found[path] = "missing"
	case !wanted:
		found[path] = "added"
	default:
		foreign(found, path, one, other)
	}
}

func union(a, b map[string]any) []string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return slices.Sorted(maps.Keys(both))
}

func orWhole(path string) string {
	if path == "" {
		return "."
	}
	return path
}

var simpleKey = regexp.MustCompile(`^[@A-Za-z_][A-Za-z0-9_]*$`)

// join writes a path, shortened where a key is long.
func join(path, key string) string {
	if !simpleKey.MatchString(key) {
		key = "[" + strconv.Quote(key) + "]"
	} else if path != "" {
		key = "." + key
	}
	if path += key; len(path) > 256 {
		digest := sha256.Sum256([]byte(path))
		return fmt.Sprintf("(a long path, sha256 %x)", digest[:6])
	}
	return path
}

func bounded(found map[string]string) map[string]string {
	if len(found) <= maxForeign {
		return found
	}
	rest := slices.Sorted(maps.Keys(found))[maxForeign:]
	for _, path := range rest {
		delete(found, path)
	}
	found[fmt.Sprintf("(%d more)", len(rest))] = "changed"
	return found
}
