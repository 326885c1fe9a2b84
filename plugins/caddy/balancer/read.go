package balancer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	"lehr.dev/sdk/serve"
)

const (
	// allWithin is how long reading everything may take: Lehr waits 10 s for
	// a difference, and a Caddy that hangs must not keep it from others.
	allWithin = 7 * time.Second
	// maxAtOnce is how many calls are under way: a batch of what hangs must
	// not use up the time of the others.
	maxAtOnce = 256

	totalDimension = "upstreams"
	// maxDimensions is how many capacities Lehr takes of an asset.
	maxDimensions = 100
)

type (
	asset = serve.Asset[*caddypb.Balancer]
	state = serve.State[*caddypb.Balancer]
)

// Read asks each Caddy once, for all balancers in it.
func (b Balancers) Read(ctx context.Context, assets []asset) ([]state, error) {
	within, cancel := context.WithTimeoutCause(ctx, allWithin, fmt.Errorf("no answer within %v, with all that was asked at once", allWithin))
	defer cancel()
	byAdmin := map[string][]int{}
	for i, asset := range assets {
		byAdmin[asset.Payload.Admin] = append(byAdmin[asset.Payload.Admin], i)
	}
	states := make([]state, len(assets))
	slots := make(chan struct{}, maxAtOnce)
	var group sync.WaitGroup
	for address, places := range byAdmin {
		group.Go(func() {
			if err := b.readCaddy(within, slots, address, assets, places, states); err != nil {
				for _, i := range places {
					states[i] = state{Err: err}
				}
			}
		})
	}
	group.Wait()
	return states, ctx.Err()
}

// readCaddy reads the balancers in one Caddy. An error is of all of them.
func (b Balancers) readCaddy(ctx context.Context, slots chan struct{}, address string, assets []asset, places []int, states []state) error {
	endpoint, err := parseAdmin(address)
	if err != nil {
		return err
	}
	instance, err := endpoint.instance()
	if err != nil {
		return err
	}
	slots <- struct{}{}
	whole, err := endpoint.snapshot(ctx)
	<-slots
	b.watch.note(endpoint, assets, places, whole.digest)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	for _, i := range places {
		states[i] = whole.state(assets[i].Payload)
		states[i].Key = serve.ResourceKey("caddy:" + instance + "/" + assets[i].Payload.Name)
		if states[i].Err == nil && states[i].Current != nil {
			group.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				states[i].Health = health(ctx, endpoint, states[i].Current)
			})
		}
	}
	group.Wait()
	return nil
}

// state of one balancer, all but its key and its health.
func (s snapshot) state(payload *caddypb.Balancer) state {
	intended, err := resolve(payload)
	if err != nil {
		return state{Err: err}
	}
	seen, err := s.base(intended.Name)
	if err != nil {
		return state{Err: err}
	}
	result := state{Base: seen.String()}
	live, exists := s.server(intended.Name)
	if exists {
		if result.Current, err = parse(live, intended, s.shared()); err != nil {
			return state{Err: err}
		}
		result.Notes = notes(result.Current)
	} else {
		result.Health = serve.Health{State: serve.Unhealthy, Reason: fmt.Sprintf("the Caddy at %s has no server %s", intended.Admin, intended.Name)}
	}
	result.Impacts = impacts(result.Current, intended)
	return result
}

// notes say what is to happen to foreign things.
func notes(current *caddypb.Balancer) map[string]string {
	reasons := map[string]string{
		"added":   "somebody added this to the server in Caddy; a push takes it out",
		"changed": "somebody changed this in the server in Caddy; a push changes it back",
		"missing": "somebody took this out of the server in Caddy; a push puts it back",
	}
	notes := map[string]string{}
	for path, what := range current.Foreign {
		notes["foreign["+strconv.Quote(path)+"]"] = reasons[what]
	}
	if _, foreignID := current.Foreign["@id"]; foreignID {
		notes[`foreign["@id"]`] = "the server was not written by Lehr; a push writes it anew, and marks it"
	}
	return notes
}

// impacts are the capacities, now and at the target.
func impacts(current, intended *caddypb.Balancer) []serve.Impact {
	result := []serve.Impact{{
		Dimension: totalDimension,
		Current:   float64(len(weighted(current))),
		Target:    float64(len(weighted(intended))),
	}}
	names := maps.Clone(intended.Upstreams)
	if names == nil {
		names = map[string]*caddypb.Upstream{}
	}
	maps.Copy(names, current.GetUpstreams())
	maps.DeleteFunc(names, func(name string, _ *caddypb.Upstream) bool {
		return !upstreamName.MatchString(name) || name == totalDimension
	})
	if len(names) >= maxDimensions {
		return result
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		result = append(result, serve.Impact{
			Dimension: name,
			Current:   float64(current.GetUpstreams()[name].GetWeight()),
			Target:    float64(intended.Upstreams[name].GetWeight()),
		})
	}
	return result
}
