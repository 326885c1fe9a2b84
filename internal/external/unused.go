package external

import (
	"slices"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/operator"
)

// Unused lists what a partition may use by its own name, and its definition says nowhere.
// Of what every partition may use, one definition tells nothing.
func (p *Policy) Unused(partition intent.PartitionID, isMentioned func(name string) bool) (list []string) {
	note := func(kind, name string, partitions operator.Partitions) {
		if slices.Contains(partitions, string(partition)) && !isMentioned(name) {
			list = append(list, kind+" "+name)
		}
	}
	for _, c := range p.Commands {
		note("command", c.Run, c.Partitions)
	}
	for _, d := range p.Databases {
		note("database", d.Name, d.Partitions)
	}
	for _, m := range p.Monitoring {
		note("monitoring", m.Name, m.Partitions)
	}
	for _, plugin := range p.Plugins {
		note("plugin of checks", plugin.Name, plugin.Partitions)
	}
	return list
}
