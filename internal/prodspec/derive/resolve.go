package derive

import (
	"fmt"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

// resolver changes payload fields.
type resolver struct {
	definition.Resolver
	filter *rule.Filter
	fields []*rule.Assignment
}

// opinion is what a resolver set, of one asset. No other may set it otherwise.
type opinion struct {
	resolver *resolver
	field    rule.Field
	value    string
}

func compileResolver(file string, environment *rule.Environment, r definition.Resolver) (*resolver, []intent.Finding) {
	c := &compiler{file: file, environment: environment, rule: "resolve", payloadType: r.Type}
	compiled := &resolver{Resolver: r}
	if r.Type == policyType {
		c.findings = append(c.findings, intent.Finding{
			Rule: c.rule, Severity: intent.Error, File: file, Line: r.Line, Field: "generate." + r.Name + ".resolve",
			Message: "the policy is what lehr.yaml says, and no resolver changes it", Hint: "change lehr.yaml",
		})
	}
	if r.Where != nil {
		var err error
		if compiled.filter, err = environment.FilterOf(r.Where.Text, r.Type); err != nil {
			c.wrong(*r.Where, err)
		}
	}
	for _, value := range r.Fields {
		field, err := environment.FindField(value.Name, r.Type)
		if err != nil {
			c.wrong(value.Expression, err)
			continue
		}
		assignment, err := environment.Assign(field, value.Text, r.Type)
		if err != nil {
			c.wrong(value.Expression, err)
			continue
		}
		compiled.fields = append(compiled.fields, assignment)
	}
	return compiled, c.findings
}

var policyType = intent.TypeName((&intentpb.Policy{}).ProtoReflect().Descriptor().FullName())

// appliesTo reports whether it is about an asset.
func (r *resolver) appliesTo(asset intent.Asset) (bool, error) {
	if asset.Payload.Type != r.Type {
		return false, nil
	}
	if len(r.Only) > 0 {
		scopes, labels := &intentpb.ImpactedScope{}, &intentpb.Labels{}
		if _, err := schema.Addon(asset, scopes); err != nil {
			return false, err
		}
		if _, err := schema.Addon(asset, labels); err != nil {
			return false, err
		}
		for _, only := range r.Only {
			value, ok := scopes.Scopes[only.Key]
			if !ok {
				value = labels.Labels[only.Key]
			}
			if !slices.Contains(only.Values, value) {
				return false, nil
			}
		}
	}
	if r.filter == nil {
		return true, nil
	}
	return r.filter.Match(asset)
}

// resolve changes what the resolver is about. Opinions are those of the ones
// before it, and are added to.
func (r *Rules) resolve(resolver *resolver, asset intent.Asset, opinions *[]opinion) (intent.Asset, []Derived, *intent.Finding) {
	applies, err := resolver.appliesTo(asset)
	if err != nil {
		at := definition.Expression{Line: resolver.Line}
		if resolver.Where != nil {
			at = *resolver.Where
		}
		return asset, nil, r.unresolved(resolver, asset.ID, at, err)
	}
	if !applies {
		return asset, nil, nil
	}
	var changed []Derived
	for i, assignment := range resolver.fields {
		field, at := assignment.Field(), resolver.Fields[i].Expression
		next, err := assignment.Apply(asset, resolver.Fill)
		if err != nil {
			return asset, nil, r.unresolved(resolver, asset.ID, at, err)
		}
		previous, err := field.Shown(asset)
		if err != nil {
			return asset, nil, r.unresolved(resolver, asset.ID, at, err)
		}
		if string(next.Payload.Bytes) != string(asset.Payload.Bytes) {
			changed = append(changed, Derived{Derivation: resolver.Name, Field: field.Path(), Was: previous})
		}
		asset = next
		if resolver.Fill {
			continue
		}
		for _, earlier := range *opinions {
			value, err := earlier.field.Value(asset)
			if err != nil {
				return asset, nil, r.unresolved(resolver, asset.ID, at, err)
			}
			if earlier.resolver != resolver && value != earlier.value {
				return asset, nil, r.conflict(resolver, earlier, asset.ID, at)
			}
		}
		value, err := field.Value(asset)
		if err != nil {
			return asset, nil, r.unresolved(resolver, asset.ID, at, err)
		}
		*opinions = append(*opinions, opinion{resolver, field, value})
	}
	return asset, changed, nil
}

// conflict: whichever came last would win, and nobody would see that the other
// does not hold.
func (r *Rules) conflict(resolver *resolver, earlier opinion, asset intent.AssetID, at definition.Expression) *intent.Finding {
	return &intent.Finding{
		Rule: "resolve", Severity: intent.Error, Asset: asset, File: r.file, Line: at.Line, Column: at.Column, Field: at.Field,
		Message: fmt.Sprintf("generate.%s and generate.%s (line %d) set %s of asset %s to different values", resolver.Name, earlier.resolver.Name, earlier.resolver.Line, earlier.field.Path(), asset),
		Hint:    "let where or only of one leave out what the other is about, or make one of the two",
	}
}

func (r *Rules) unresolved(resolver *resolver, asset intent.AssetID, at definition.Expression, err error) *intent.Finding {
	f := intent.Finding{Rule: "resolve", Severity: intent.Error, Asset: asset, File: r.file, Line: at.Line, Column: at.Column, Field: at.Field}
	f.Message, f.Hint = explain(err)
	f.Message = fmt.Sprintf("asset %s (generate.%s): %s", asset, resolver.Name, f.Message)
	return &f
}

// digestOfResolver covers what it does; its reason changes nothing.
func digestOfResolver(r definition.Resolver) []byte {
	parts := [][]byte{[]byte(r.Name), []byte(r.Type), fmt.Append(nil, r.Fill)}
	if r.Where != nil {
		parts = append(parts, []byte("="+r.Where.Text))
	} else {
		parts = append(parts, []byte("-"))
	}
	for _, only := range r.Only {
		parts = append(parts, fmt.Appendf(nil, "%q %q", only.Key, only.Values))
	}
	parts = append(parts, []byte("fields"))
	for _, value := range r.Fields {
		parts = append(parts, []byte(value.Name), []byte(value.Text))
	}
	sum := intent.Sum("lehr.resolver.v1", parts...)
	return sum[:]
}
