package definition

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commonpolicy"
)

// contradictions between rules that may be about one partition: defaults that differ, and
// lists of what is allowed of which nothing is allowed by both.
func (p *parser) contradictions(policy *intentpb.CommonPolicy) {
	for i, a := range policy.Rules {
		for _, b := range policy.Rules[i+1:] {
			if disjoint(a.Select, b.Select) {
				continue
			}
			if key := differingDefault(a.Defaults, b.Defaults); key != "" {
				p.contradiction(a, b, "defaults", fmt.Sprintf("the default of %s is not that of the rule %s in line %d, and both may be about one partition", key, a.Name, commonpolicy.LineOf(a, "defaults")),
					"let one of them select other partitions, or say the same")
			}
			for _, list := range allowances(a.Allow, b.Allow) {
				if nothingAllowed(list.first, list.second) {
					p.contradiction(a, b, "allow", fmt.Sprintf("no %s is allowed by it and by the rule %s in line %d, and both may be about one partition", list.name, a.Name, commonpolicy.LineOf(a, "allow")),
						"let one of them select other partitions, or name in both what both allow")
				}
			}
		}
	}
}

func (p *parser) contradiction(a, b *intentpb.CommonRule, part, message, hint string) {
	line := commonpolicy.LineOf(b, part)
	p.at(&yaml.Node{Line: line, Column: 1}, "rules."+b.Name+"."+part, "rules.%s contradicts rules.%s: %s", b.Name, a.Name, message).hint("%s", hint)
}

// disjoint reports whether two selectors certainly have no partition in common.
func disjoint(a, b *intentpb.Selector) bool {
	for key, value := range a.GetLabels() {
		if other, ok := b.GetLabels()[key]; ok && other != value {
			return true
		}
	}
	apart := func(first, second []string) bool {
		return len(first) > 0 && len(second) > 0 && nothingAllowed(first, second)
	}
	return apart(a.GetNames(), b.GetNames()) || apart(a.GetOwners(), b.GetOwners())
}

// nothingAllowed reports whether no pattern of one list matches one of the other. Two patterns
// that each have a "*" are taken to match something alike.
func nothingAllowed(first, second []string) bool {
	if len(first) == 0 || len(second) == 0 {
		return false
	}
	for _, a := range first {
		for _, b := range second {
			if commonpolicy.Matches(a, b) || commonpolicy.Matches(b, a) || hasStar(a) && hasStar(b) {
				return false
			}
		}
	}
	return true
}

func hasStar(pattern string) bool {
	return slices.Contains([]byte(pattern), '*')
}

// allowedLists are two lists of one kind.
type allowedLists struct {
	name          string
	first, second []string
}

func allowances(a, b *intentpb.Allowance) []allowedLists {
	return []allowedLists{
		{"plugin", a.GetPlugins(), b.GetPlugins()}, {"program", a.GetPrograms(), b.GetPrograms()},
		{"address", a.GetAddresses(), b.GetAddresses()}, {"secret", a.GetSecrets(), b.GetSecrets()},
	}
}

// differingDefault names the first key that two defaults say otherwise; empty: none.
func differingDefault(a, b string) string {
	var first, second map[string]any
	if a == "" || b == "" || json.Unmarshal([]byte(a), &first) != nil || json.Unmarshal([]byte(b), &second) != nil {
		return ""
	}
	return differingKey("", first, second)
}

func differingKey(at string, a, b map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(a)) {
		other, ok := b[key]
		if !ok || reflect.DeepEqual(a[key], other) {
			continue
		}
		inner, isMapping := a[key].(map[string]any)
		outer, isMappingToo := other.(map[string]any)
		if !isMapping || !isMappingToo {
			return join(at, key)
		}
		if found := differingKey(join(at, key), inner, outer); found != "" {
			return found
		}
	}
	return ""
}
