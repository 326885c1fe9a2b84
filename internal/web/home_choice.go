package web

import (
	"slices"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// homeChoice is what the first page is about; without one it is about everything that the viewer may see.
type homeChoice struct {
	Owner, Partition, Environment, Service string
	// Owners and Environments can be chosen.
	Owners, Environments []option
	// Found are the partitions that have all that was chosen.
	Found int
}

// readHomeChoice reads what the address chooses.
func readHomeChoice(at address) homeChoice {
	return homeChoice{Owner: at.query.Get("owner"), Partition: at.query.Get("partition"), Environment: at.query.Get("environment"), Service: at.query.Get("service")}
}

// IsMade reports whether anything is chosen.
func (c homeChoice) IsMade() bool {
	return c.Owner != "" || c.Partition != "" || c.IsOfAssets()
}

// IsOfAssets reports whether only some assets of a partition are meant.
func (c homeChoice) IsOfAssets() bool { return c.Environment != "" || c.Service != "" }

// Chosen names what was chosen, each with what it is.
func (c homeChoice) Chosen() (chosen []option) {
	for _, one := range []option{{Text: "owner", Value: c.Owner}, {Text: "partition", Value: c.Partition}, {Text: "environment", Value: c.Environment}, {Text: "service", Value: c.Service}} {
		if one.Value != "" {
			chosen = append(chosen, one)
		}
	}
	return chosen
}

// choose returns the partitions that have all that was chosen.
func (c *homeChoice) choose(partitions []*apipb.Partition, overviews map[string]*apipb.PartitionOverview) []*apipb.Partition {
	chosen := slices.DeleteFunc(slices.Clone(partitions), func(p *apipb.Partition) bool {
		return c.Owner != "" && p.Owner != c.Owner || c.Partition != "" && p.Id != c.Partition || c.IsOfAssets() && overviews[p.Id] == nil
	})
	c.Found = len(chosen)
	return chosen
}

// offer fills what can be chosen.
func (c *homeChoice) offer(partitions []*apipb.Partition, environments []string) {
	var owners []string
	for _, p := range partitions {
		owners = append(owners, p.Owner)
	}
	c.Owners, c.Environments = optionsOf(owners, c.Owner), optionsOf(environments, c.Environment)
}

// countInState returns how many assets of a partition, or of the chosen service in it, are in a state. ok is false
// where that is not known, as of an environment.
func (c homeChoice) countInState(p *apipb.Partition, overview *apipb.PartitionOverview, state string) (count int64, ok bool) {
	switch {
	case c.Service != "":
		return overview.GetStates()[state], c.Environment == ""
	case c.Environment != "":
		return 0, false
	}
	return p.States[state], true
}
