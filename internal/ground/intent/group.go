package intent

import "strings"

// Fields by which the Group addon is indexed.
const (
	GroupServiceField  = "lehr.intent.v1.Group.service"
	GroupInstanceField = "lehr.intent.v1.Group.instance"
)

// Group is a service, or, with an Instance, one instance of it: what the Group
// addon says of an asset. Assets are members of instances, and instances of
// services.
type Group struct {
	Service  string
	Instance string
}

// Name of the group: "shop", and "shop/a" for the instance a, or shop/a, of it.
func (g Group) Name() string {
	switch {
	case g.Instance == "":
		return g.Service
	case strings.HasPrefix(g.Instance, g.Service+"/"):
		return g.Instance
	default:
		return g.Service + "/" + g.Instance
	}
}

// longestName of a group: a service and an instance that are indexed, of 256 bytes each.
const longestName = 2*256 + 1

// GroupsNamed lists the groups that have a name, the shortest service last. None has
// one that is longer than what is indexed.
func GroupsNamed(name string) []Group {
	if name == "" || len(name) > longestName {
		return nil
	}
	groups := []Group{{Service: name}}
	for at := len(name) - 1; at > 0; at-- {
		if name[at] == '/' {
			groups = append(groups, Group{name[:at], name[at+1:]}, Group{name[:at], name})
		}
	}
	return groups
}

// Includes reports whether an asset of the other group is in this one.
func (g Group) Includes(other Group) bool {
	return g.Service == other.Service && (g.Instance == "" || g.Instance == other.Instance)
}
