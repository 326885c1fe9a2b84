package intent

import "slices"

// Role is what somebody may do in a partition. Each includes reading, and
// Admin includes all.
type Role string

// Roles.
const (
	Viewer   Role = "viewer"
	Editor   Role = "editor"
	Approver Role = "approver"
	Operator Role = "operator"
	Admin    Role = "admin"
)

// Roles lists all, the least first.
func Roles() []Role { return []Role{Viewer, Editor, Approver, Operator, Admin} }

// Includes reports whether who has the role may do what needs the other.
func (r Role) Includes(other Role) bool {
	known := slices.Contains(Roles(), r) && slices.Contains(Roles(), other)
	return known && (r == other || r == Admin || other == Viewer)
}

// Subjects of grants are a person or program, a group of them, or everyone
// with a valid credential.
const (
	UserPrefix  = "user:"
	GroupPrefix = "group:"
	Everyone    = "everyone"
)

// Grant gives a role to a subject.
type Grant struct {
	// Subject is "user:NAME", "group:NAME" or Everyone.
	Subject string `json:"subject"`
	Role    Role   `json:"role"`
	// Partition; empty: all.
	Partition PartitionID `json:"partition,omitempty"`
}

// Covers reports whether the grant gives somebody the role in a partition; an
// empty partition means all of them.
func (g Grant) Covers(name string, groups []string, role Role, partition PartitionID) bool {
	if g.Partition != "" && g.Partition != partition || !g.Role.Includes(role) {
		return false
	}
	return g.Subject == Everyone || name != "" && g.Subject == UserPrefix+name ||
		slices.ContainsFunc(groups, func(group string) bool { return group != "" && g.Subject == GroupPrefix+group })
}
