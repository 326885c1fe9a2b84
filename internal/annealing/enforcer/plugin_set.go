package enforcer

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/pluginhost/plugin"
)

// kind is what the policy of head says of one payload type.
type kind struct {
	name intent.TypeName
	mode check.Mode
	// served is nil for a type that no plugin is bound to.
	served *served
	// model: policy declares that no plugin is to serve it.
	model bool
	// atOnce bounds its pushes under way; 0: only what bounds its plugin does.
	atOnce int
}

// pluginSet holds the plugins in use: one for each command line or address.
type pluginSet struct {
	byKey map[string]*served
	// order is that of their first use.
	order []*served
	// names counts those that people read by the same name.
	names map[string]int
	// open returns the plugin of a binding (Options.Plugins).
	open    func(*intentpb.PluginBinding) plugin.Plugin
	measure *measure.Enforcer
}

func newPluginSet(options Options) pluginSet {
	return pluginSet{byKey: map[string]*served{}, names: map[string]int{}, open: options.Plugins, measure: options.Measure}
}

// bind returns the types that a policy binds to plugins, and bounds what is asked of each
// plugin at once by the policy.
func (p *pluginSet) bind(policy *policy) map[intent.TypeName]*kind {
	kinds := map[intent.TypeName]*kind{}
	atOnce := map[*served]int{}
	for _, binding := range policy.Plugins {
		name := intent.TypeName(binding.Type)
		served := p.get(binding)
		kinds[name] = &kind{name: name, served: served, atOnce: int(binding.AtOnce)}
		if most := int(binding.AtOnce); most > 0 && (atOnce[served] == 0 || most < atOnce[served]) {
			atOnce[served] = most
		}
	}
	for _, served := range p.order {
		served.atOnce = atOnce[served]
	}
	return kinds
}

// get returns the plugin of a command line or an address, the same one each
// time.
func (p *pluginSet) get(binding *intentpb.PluginBinding) *served {
	key := BindingKey(binding)
	if cached := p.byKey[key]; cached != nil {
		return cached
	}
	measured := p.measure.Plugins.Of(p.measuredName(binding))
	measured.Binding.Store(&key)
	p.byKey[key] = &served{plugin: p.open(binding), measure: measured, key: key, name: nameOf(binding), ready: loop.Queue[*asset]{Compare: byID}, suspects: loop.Queue[*asset]{Compare: byID}}
	p.order = append(p.order, p.byKey[key])
	return p.byKey[key]
}

// BindingKey tells two bindings of plugins apart: by what they run, or whom they dial.
func BindingKey(binding *intentpb.PluginBinding) string {
	return strings.Join(append([]string{binding.Dial}, binding.Run...), "\x00")
}

// measuredName is what people read a plugin's numbers by: its program, without its
// arguments, or its address.
func (p *pluginSet) measuredName(binding *intentpb.PluginBinding) string {
	name := binding.Dial
	if len(binding.Run) > 0 {
		name = path.Base(binding.Run[0])
	}
	p.names[name]++
	if n := p.names[name]; n > 1 {
		return fmt.Sprintf("%s#%d", name, n)
	}
	return name
}

// nameOf a plugin, for people: its program or address.
func nameOf(binding *intentpb.PluginBinding) string {
	return cmp.Or(binding.Dial, strings.Join(binding.Run[:min(1, len(binding.Run))], ""))
}

// clockSetBack takes back the pauses that lie further ahead than the longest one, and those
// between looks for hints: all assets are looked at now.
func (p *pluginSet) clockSetBack(longest time.Duration, now time.Time) {
	for _, s := range p.order {
		s.pace, s.hints.looks = pace{}, nil
		if s.until.Sub(now) > longest {
			s.until = now
			s.measureBreaker()
		}
	}
}
