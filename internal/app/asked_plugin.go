package app

import (
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/enforcer"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/server"
)

// askedPlugin returns how a plugin does that this process asks for a partition.
func (a *App) askedPlugin(partition intent.PartitionID, binding *intentpb.PluginBinding) (asked server.AskedPlugin) {
	description, err := a.plugins(partition, binding).Describe()
	asked.Name, asked.Version, asked.Problem = description.Name, description.Version, err
	for _, t := range description.Types {
		asked.Types = append(asked.Types, server.ServedType{Type: t.Type, Guarantee: string(t.Guarantee), LongestEffect: t.LongestEffect, Cadence: t.Cadence})
	}
	a.mutex.Lock()
	state := a.states[partition]
	a.mutex.Unlock()
	if state == nil {
		return asked
	}
	key := enforcer.BindingKey(binding)
	for _, measured := range state.measure.Enforcer.Plugins.All() {
		if known := measured.Binding.Load(); known != nil && *known == key {
			asked.Measure = measured
		}
	}
	return asked
}
