package intent

import (
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
)

func TestRoleIncludes(t *testing.T) {
	t.Parallel()
	for _, role := range Roles() {
		for _, other := range Roles() {
			if got, want := role.Includes(other), role == other || role == Admin || other == Viewer; got != want {
				t.Errorf("%s includes %s: %v, want %v", role, other, got, want)
			}
		}
	}
	if Role("owner").Includes(Viewer) || Admin.Includes("owner") || Role("").Includes("") {
		t.Error("a role that is none includes or is included")
	}
}

func TestGrantCovers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		grant     Grant
		name      string
		groups    []string
		role      Role
		partition PartitionID
		want      bool
	}{
		{Grant{"user:ann", Operator, "shop"}, "ann", nil, Operator, "shop", true},
		{Grant{"user:ann", Operator, "shop"}, "ann", nil, Viewer, "shop", true},
		{Grant{"user:ann", Operator, "shop"}, "ann", nil, Approver, "shop", false},
		{Grant{"user:ann", Operator, "shop"}, "ann", nil, Operator, "other", false},
		{Grant{"user:ann", Operator, "shop"}, "ann", nil, Operator, "", false},
		{Grant{"user:ann", Operator, ""}, "ann", nil, Operator, "shop", true},
		{Grant{"user:ann", Operator, ""}, "ann", nil, Operator, "", true},
		{Grant{"user:ann", Admin, ""}, "bob", []string{"ann"}, Viewer, "shop", false},
		{Grant{"group:sre", Admin, "shop"}, "bob", []string{"dev", "sre"}, Editor, "shop", true},
		{Grant{"group:sre", Admin, "shop"}, "sre", nil, Editor, "shop", false},
		{Grant{"user:", Admin, "shop"}, "", nil, Viewer, "shop", false},
		{Grant{"group:", Admin, "shop"}, "ann", []string{""}, Viewer, "shop", false},
		{Grant{Everyone, Viewer, "shop"}, "ann", nil, Viewer, "shop", true},
		{Grant{Everyone, Viewer, "shop"}, "ann", nil, Operator, "shop", false},
		{Grant{"user:ann", "owner", ""}, "ann", nil, Viewer, "shop", false},
	} {
		if got := c.grant.Covers(c.name, c.groups, c.role, c.partition); got != c.want {
			t.Errorf("%v covers %s %v as %s in %q: %v, want %v", c.grant, c.name, c.groups, c.role, c.partition, got, c.want)
		}
	}
}

func TestCheckSubject(t *testing.T) {
	t.Parallel()
	for _, subject := range []string{"everyone", "user:ann", "user:ann@example.com", "group:sre", "group:a/b c:d"} {
		if err := CheckSubject(subject); err != nil {
			t.Errorf("%q: %v", subject, err)
		}
	}
	for _, subject := range []string{"", "ann", "Everyone", "everyone:x", "user:", "group:", "user: ann", "user:a\nb", "role:x", "user:" + strings.Repeat("a", 400)} {
		if err := CheckSubject(subject); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q was accepted: %v", subject, err)
		}
	}
	if role, err := ParseRole("operator"); role != Operator || err != nil {
		t.Errorf("operator is %q, %v", role, err)
	}
	if _, err := ParseRole("owner"); !fault.Is(err, fault.Invalid) {
		t.Errorf("owner is a role: %v", err)
	}
}
