package intent_test

import (
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
)

// TestGroupsHaveNames: each group is among those that its name may mean.
func TestGroupsHaveNames(t *testing.T) {
	for name, group := range map[string]intent.Group{
		"shop":       {Service: "shop"},
		"shop/a":     {Service: "shop", Instance: "a"},
		"shop/b":     {Service: "shop", Instance: "shop/b"},
		"eu/shop/a":  {Service: "eu/shop", Instance: "a"},
		"shop/a/b":   {Service: "shop", Instance: "a/b"},
		"shopping/a": {Service: "shopping", Instance: "a"},
	} {
		if group.Name() != name {
			t.Errorf("%+v is called %s, want %s", group, group.Name(), name)
		}
		if !slices.Contains(intent.GroupsNamed(name), group) {
			t.Errorf("%s is not read as %+v", name, group)
		}
	}
	if got := intent.GroupsNamed(strings.Repeat("a/", 1<<20)); got != nil {
		t.Errorf("%d groups have a name that nothing can have", len(got))
	}
	if got := intent.GroupsNamed(""); got != nil {
		t.Errorf("no name: %+v", got)
	}
	service := intent.Group{Service: "shop"}
	instance := intent.Group{Service: "shop", Instance: "a"}
	if !service.Includes(instance) || instance.Includes(service) || !instance.Includes(instance) || service.Includes(intent.Group{Service: "mail"}) {
		t.Error("a service includes its instances, and nothing else")
	}
}
