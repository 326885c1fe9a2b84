package enforcer

import (
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/pluginhost/plugin"
)

// served is a plugin in use, and how it does.
type served struct {
	plugin plugin.Plugin
	// name for people; key tells two bindings apart.
	name, key string
	// atOnce bounds the batches under way by policy; 0: it does not.
	atOnce  int
	measure *measure.Plugin
	// ready are the assets to be looked at next; suspects were in a batch
	// that failed.
	ready, suspects loop.Queue[*asset]
	// inFlight counts batches under way, others those that are not of what is
	// fresh; suspecting: one is of suspects.
	inFlight, otherBatches int
	pace                   pace
	suspecting             bool
	breaker
}

// longestEffect is E of a type, at least 1 ns; 0 while its plugin does not say.
func (s *served) longestEffect(typeName intent.TypeName) time.Duration {
	if s == nil {
		return 0
	}
	description, err := s.plugin.Describe()
	if err != nil {
		return 0
	}
	for _, served := range description.Types {
		if served.Type == typeName {
			return max(served.LongestEffect, 1)
		}
	}
	return 0
}

// version of a plugin; empty: it is down, or there is none.
func (s *served) version() string {
	if s == nil {
		return ""
	}
	description, err := s.plugin.Describe()
	if err != nil {
		return ""
	}
	return description.Name + " " + description.Version
}

// guarantee is what the plugin promises of a type; empty: it does not say, or is down.
func (s *served) guarantee(typeName intent.TypeName) plugin.Guarantee {
	description, err := s.plugin.Describe()
	if err == nil {
		for _, served := range description.Types {
			if served.Type == typeName {
				return served.Guarantee
			}
		}
	}
	return ""
}

// turn says of which priority the next batch is. Of several places the last is
// kept for what is fresh: it never waits for sweeps that take long.
func (s *served) turn(places int, now time.Time) (loop.Priority, bool) {
	priority, ready := s.ready.Turn(now)
	if ready && priority != loop.Fresh && places > 1 && s.otherBatches >= places-1 {
		return loop.Fresh, s.ready.Has(loop.Fresh)
	}
	return priority, ready
}
