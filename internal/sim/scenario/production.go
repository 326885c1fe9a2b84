package scenario

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

func (p *player) context() context.Context { return context.Background() }

// key of the real thing that an asset is about: as it was last seen changing.
func (p *player) key(asset string) (intent.ResourceKey, error) {
	for at := len(p.effects) - 1; at >= 0; at-- {
		if string(p.effects[at].Asset) == asset {
			return p.effects[at].Key, nil
		}
	}
	return "", refuse("nothing was ever there for %s", asset)
}

func (p *player) exists(asset string) bool {
	key, err := p.key(asset)
	r, ok := p.World.Resource(key)
	return err == nil && ok && r.Exists
}

// on does something to the real thing of an asset.
func (p *player) on(list []string, how string, do func(intent.ResourceKey) bool) error {
	if len(list) < 1 {
		return usage(how)
	}
	key, err := p.key(list[0])
	if err != nil {
		return err
	}
	if !do(key) {
		return refuse("nothing is there for %s", list[0])
	}
	return nil
}

// drift changes a field of what is there; the same number changes the same.
func (p *player) drift(list []string) error {
	const how = "drift ASSET [N]"
	seed := uint64(1)
	if len(list) > 1 {
		n, err := strconv.ParseUint(list[1], 10, 32)
		if err != nil {
			return usage(how)
		}
		seed = n
	}
	return p.on(list, how, func(key intent.ResourceKey) bool { return p.World.Drift(key, seed) })
}

func (p *player) vanish(list []string) error {
	return p.on(list, "vanish ASSET", p.World.Vanish)
}

// writer lets somebody write the same again and again.
func (p *player) writer(list []string) error {
	const how = "writer ASSET EVERY TIMES"
	if len(list) != 3 {
		return usage(how)
	}
	every, err := duration(list[1])
	if err != nil {
		return err
	}
	times, err := strconv.Atoi(list[2])
	if err != nil {
		return usage(how)
	}
	return p.on(list, how, func(key intent.ResourceKey) bool {
		p.World.Writer(key, every, times)
		return true
	})
}

// sick makes the real thing of an asset unhealthy for a while.
func (p *player) sick(list []string) error {
	const how = "sick ASSET, or sick ASSET over"
	return p.on(list, how, func(key intent.ResourceKey) bool {
		p.World.Sick(key, len(list) == 1)
		return true
	})
}

// listEffects prints what Lehr did, of an asset or of all.
func (p *player) listEffects(list []string) error {
	count, pushes := 0, map[intent.PushID]bool{}
	for _, e := range p.effects {
		if e.By != world.ByLehr || len(list) > 0 && string(e.Asset) != list[0] {
			continue
		}
		count++
		pushes[e.Push] = true
		p.output += fmt.Sprintf("%s %s by push %s (%d/%d): %s → %s\n", e.Action, e.Asset, e.Push, e.Step, e.Steps, nothing(e.Before), nothing(e.After))
	}
	p.output = fmt.Sprintf("effects: %d, pushes: %d\n", count, len(pushes)) + p.output
	return nil
}

func nothing(state string) string {
	if state == "" {
		return "nothing"
	}
	return state
}

// production prints the real thing of an asset, and what it lacks.
func (p *player) production(list []string) error {
	if len(list) != 1 {
		return usage("production ASSET")
	}
	if !p.exists(list[0]) {
		p.output = "nothing is there\n"
		return nil
	}
	key, err := p.key(list[0])
	if err != nil {
		return err
	}
	r, _ := p.World.Resource(key)
	p.output = fmt.Sprintf("%s, version %d, %s, by %s\n", key, r.Version, r.Health, r.Incarnation)
	switch ok, how := p.World.Matches(p.context(), p.Head(), intent.AssetID(list[0])); ok {
	case true:
		p.output += "as head asks\n"
	default:
		p.output += "not as head asks: " + how + "\n"
	}
	return nil
}

// answer is how long a person waits for one.
const answer = 2 * time.Minute
