package prodspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/prodspec/definition"
)

// scoped are the values that assets of a type have of a scope, else of a label.
type scoped map[intent.TypeName]map[string]map[string]bool

// see notes an asset's scopes and labels.
func (s scoped) see(asset intent.Asset) error {
	scopes, labels := &intentpb.ImpactedScope{}, &intentpb.Labels{}
	if _, err := schema.Addon(asset, scopes); err != nil {
		return err
	}
	if _, err := schema.Addon(asset, labels); err != nil {
		return err
	}
	byKey := s[asset.Payload.Type]
	if byKey == nil {
		byKey = map[string]map[string]bool{}
		s[asset.Payload.Type] = byKey
	}
	values := maps.Clone(labels.Labels)
	if values == nil {
		values = map[string]string{}
	}
	maps.Copy(values, scopes.Scopes)
	for key, value := range values {
		if byKey[key] == nil {
			byKey[key] = map[string]bool{}
		}
		byKey[key][value] = true
	}
	return nil
}

// resolvers looks for those that are about nothing, and for environments that
// are not there.
func (l *linter) resolvers() {
	for _, r := range l.definition.Resolvers {
		// What fills from a deprecated field is told of with that field.
		idle := !r.Fill || !slices.ContainsFunc(r.Fields, func(v definition.Value) bool {
			return len(l.deprecated.environment.Deprecated(v.Text, r.Type)) > 0
		})
		for _, only := range r.Only {
			existing := l.scoped[r.Type][only.Key]
			for _, value := range only.Values {
				if existing[value] {
					continue
				}
				idle = false
				hint := fmt.Sprintf("no %s has that scope or label", r.Type)
				if len(existing) > 0 {
					hint = "there are " + strings.Join(slices.Sorted(maps.Keys(existing)), ", ")
				}
				if suggestion := spell.Nearest(value, slices.Sorted(maps.Keys(existing))); suggestion != "" {
					hint = fmt.Sprintf("did you mean %s? ", suggestion) + hint
				}
				l.add(only.Line, fmt.Sprintf("generate.%s.only.%s", r.Name, only.Key), fmt.Sprintf("the resolver %s is on for %s %s, which no asset has", r.Name, only.Key, value), hint)
			}
		}
		if idle && !l.gives[r.Name] {
			l.add(r.Line, "generate."+r.Name, fmt.Sprintf("the resolver %s changes no asset", r.Name), "its where matches none, or each has what it would set already")
		}
	}
}
