package intent

import (
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
)

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

// ParseRole reads the name of a role.
func ParseRole(name string) (Role, error) {
	if role := Role(name); slices.Contains(Roles(), role) {
		return role, nil
	}
	return "", fault.New(fault.Invalid, "%.100q is not a role", name).WithHint("roles are viewer, editor, approver, operator and admin")
}

// Includes reports whether who has the role may do what needs the other.
func (r Role) Includes(other Role) bool {
	valid := slices.Contains(Roles(), r) && slices.Contains(Roles(), other)
	return valid && (r == other || r == Admin || other == Viewer)
}

// Subjects of grants are a person or program, a group of them, or everyone
// with a valid credential.
const (
	UserPrefix  = "user:"
	GroupPrefix = "group:"
	Everyone    = "everyone"
)

// maxSubject bounds a subject, in bytes.
const maxSubject = 300

// CheckSubject is Invalid unless a grant may name the subject.
func CheckSubject(subject string) error {
	kind, name, ok := strings.Cut(subject, ":")
	validKind := ok && (kind+":" == UserPrefix || kind+":" == GroupPrefix)
	plain := name == strings.TrimSpace(name) && name != "" && !strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f })
	if subject == Everyone || validKind && plain && len(subject) <= maxSubject {
		return nil
	}
	return fault.New(fault.Invalid, "%.100q is not somebody that a role can be given to", subject).
		WithHint("write user:NAME, group:NAME, or everyone")
}

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
