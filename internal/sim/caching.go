package sim

import (
	"time"

	"lehr.dev/internal/sim/world"
)

// In caching runs plugins keep what they read, and answer from it as long as they are
// allowed to; some reads take seconds, and are pending until then. Changes are under way
// that no push hastens.

// cachingKinds are the disturbances of caching runs.
var cachingKinds = []weighed{
	{pluginKind + Kind(world.DiffPending), 30}, {pluginKind + Kind(world.DiffOld), 6}, {Drift, 12}, {Superseding, 6}, {Edit, 10},
}

// Caches reports whether plugins keep what they read in runs of a seed.
func Caches(seed uint64) bool { return seed%27 == 3 }

// caching reports whether they do in this run.
func (l *Lab) caching() bool { return l.options.Definition == "" && Caches(l.options.Seed) }

// cadence is how old an answer may be that nobody asked for in particular; 0: plugins keep
// nothing.
func (l *Lab) cadence() time.Duration {
	if !l.caching() {
		return 0
	}
	return []time.Duration{20 * time.Second, time.Minute, 5 * time.Minute}[l.options.Seed/27%3]
}
