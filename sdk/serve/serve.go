// Package serve is the Go SDK for asset plugins. A plugin's main is
//
//	os.Exit(serve.Main(serve.Plugin{Name: "dns", Version: "1", Resources: []serve.Kind{
//		serve.For(zones{}, serve.Serving{}),
//	}}))
//
// An author writes a Resource (Read, Resolve, Apply); one differ serves all
// kinds. A Kind is the raw interface, for a differ of one's own. The package
// speaks the wire protocol, caches content, and keeps the permits: without
// one no effect starts. It never decides what should change, and holds no
// credentials. Only plugins call it.
package serve

import (
	"slices"

	"lehr.dev/internal/ground/fault"
)

// Plugin is what a plugin program serves.
type Plugin struct {
	// Name and Version are for people.
	Name    string
	Version string
	// Resources, one for each payload type.
	Resources []Kind
	// CacheBytes bounds the intent kept in memory; default 256 MiB.
	CacheBytes int
	// Listen is what Flags returned; nil: Main reads the flags of a server
	// itself, unless the program has read flags of its own.
	Listen *Listen
}

const defaultCacheBytes = 256 << 20

// kinds indexes the plugin's resources by type.
func (p Plugin) kinds() (map[TypeName]Kind, error) {
	if p.Name == "" || len(p.Resources) == 0 {
		return nil, fault.New(fault.Invalid, "plugin %q serves %d types: it needs a name and at least one resource", p.Name, len(p.Resources))
	}
	kinds := map[TypeName]Kind{}
	for _, kind := range p.Resources {
		name := kind.Served().Type
		if kinds[name] != nil {
			return nil, fault.New(fault.Invalid, "plugin %s lists the type %s twice", p.Name, name)
		}
		kinds[name] = kind
		if checked, ok := kind.(interface{ check() error }); ok {
			if err := checked.check(); err != nil {
				return nil, fault.New(fault.Invalid, "plugin %s, type %s: %w", p.Name, name, err)
			}
		}
	}
	return kinds, p.checkCadences()
}

// checkCadences refuses a type that declares a cadence and is not watched, beside one
// that is: hints stand for the whole plugin, and Lehr would look at it each cadence only.
func (p Plugin) checkCadences() error {
	watches := slices.ContainsFunc(p.Resources, func(kind Kind) bool { return len(watchersOf(kind)) > 0 })
	for _, kind := range p.Resources {
		if served := kind.Served(); watches && served.Cadence > 0 && len(watchersOf(kind)) == 0 {
			return fault.New(fault.Invalid, "plugin %s declares a cadence of %s for the type %s and does not watch it, while it watches another type", p.Name, served.Cadence, served.Type).
				WithHint("give its Resource a Watch, or serve it by a program of its own")
		}
	}
	return nil
}
