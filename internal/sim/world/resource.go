package world

import (
	"context"
	"slices"
	"strconv"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
)

// Resource is one real thing.
type Resource struct {
	Key   intent.ResourceKey
	Type  intent.TypeName
	Class plugin.Guarantee
	// Payload is the canonical bytes of what is there.
	Payload []byte
	Exists  bool
	// Version is its base. Every change gives another one, never used before.
	Version uint64
	// Token is the highest that a target of class F has seen.
	Token  uint64
	Health intent.HealthState
	// Content is the effective digest of the asset that Lehr pushed last,
	// Incarnation and Asset where it is from.
	Content     intent.Digest
	Incarnation intent.IncarnationID
	Asset       intent.AssetID
}

// resource is a real thing with its past.
type resource struct {
	Resource
	// set decodes the payload.
	set *schema.Set
	// ails: what is there has made it unhealthy of itself.
	ails bool
	// past states, oldest first.
	past []snapshot
	// owners of fields that others than Lehr set last, by path; it is never changed, only replaced.
	owners map[string]string
	// since is when it became what it is.
	since time.Time
}

// snapshot is the state of a resource at some time.
type snapshot struct {
	exists  bool
	payload []byte
	version uint64
	health  intent.HealthState
	owners  map[string]string
	since   time.Time
}

// base is the state's compare-and-set token.
func (s snapshot) base() string { return "v" + strconv.FormatUint(s.version, 10) }

func (r *resource) shown() Resource {
	shown := r.Resource
	shown.Payload = slices.Clone(r.Payload)
	return shown
}

func (r *resource) snapshot() snapshot {
	health := r.Health
	if r.ails {
		health = intent.Unhealthy
	}
	return snapshot{r.Exists, r.Payload, r.Version, health, r.owners, r.since}
}

// snapshot is the state now; nothing ever changed is version 0.
func (w *World) snapshot(key intent.ResourceKey) snapshot {
	if r := w.resources[key]; r != nil {
		return r.snapshot()
	}
	return snapshot{health: intent.Healthy}
}

// earlier is a state that the resource was in, if it was in another one.
func (w *World) earlier(key intent.ResourceKey, which uint64) snapshot {
	r := w.resources[key]
	if r == nil || len(r.past) == 0 {
		return w.snapshot(key)
	}
	return r.past[which%uint64(len(r.past))]
}

// become changes the state, and remembers the one before.
func (w *World) become(r *resource, exists bool, payload []byte) {
	const remembered = 8
	r.past = append(r.past, r.snapshot())
	if len(r.past) > remembered {
		r.past = r.past[1:]
	}
	w.version++
	r.Exists, r.Payload, r.Version, r.since = exists, payload, w.version, w.now()
	if !exists {
		r.Payload, r.owners = nil, nil
	}
	r.ails = false
	if w.options.Ails == nil || !exists {
		return
	}
	if delay := w.options.Ails(payload); delay > 0 {
		version := r.Version
		w.process.Go("ails", func() {
			if w.process.Wait(context.Background(), delay, nil) == nil && r.Version == version {
				r.ails = true
				w.changesHealth(r.Key)
			}
		})
	}
}

// changesHealth tells that the health of something is another one.
func (w *World) changesHealth(keys ...intent.ResourceKey) {
	for _, key := range keys {
		w.hint(key, false)
	}
	if w.OnHealth != nil {
		w.OnHealth()
	}
}
