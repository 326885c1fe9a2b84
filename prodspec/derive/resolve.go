package derive

import (
	"fmt"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
	"lehr.dev/prodspec/definition"
	"lehr.dev/rule"
	"lehr.dev/schema"
)

// resolver changes payload fields.
type resolver struct {
	definition.Resolver
	where  *rule.Filter
	fields []*rule.Assignment
}

// opinion is what a resolver set, of one asset. No other may set it otherwise.
type opinion struct {
	of    *resolver
	field rule.Field
	value string
}

func compileResolver(file string, environment *rule.Environment, r definition.Resolver) (*resolver, []intent.Finding) {
	c := &compiler{file: file, environment: environment, rule: "resolve", over: r.Type}
	made := &resolver{Resolver: r}
	if r.Type == policyType {
		c.findings = append(c.findings, intent.Finding{
			Rule: c.rule, Severity: intent.Error, File: file, Line: r.Line, Field: "generate." + r.Name + ".resolve",
			Message: "the policy is what lehr.yaml says, and no resolver changes it", Hint: "change lehr.yaml",
		})
	}
	if r.Where != nil {
		var err error
		if made.where, err = environment.FilterOf(r.Where.Text, r.Type); err != nil {
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
		made.fields = append(made.fields, assignment)
	}
	return made, c.findings
}

var policyType = intent.TypeName((&intentpb.Policy{}).ProtoReflect().Descriptor().FullName())

// on reports whether it is about an asset.
func (r *resolver) on(asset intent.Asset) (bool, error) {
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
			value, known := scopes.Scopes[only.Key]
			if !known {
				value = labels.Labels[only.Key]
			}
			if !slices.Contains(only.Values, value) {
				return false, nil
			}
		}
	}
	if r.where == nil {
		return true, nil
	}
	return r.where.Match(asset)
}

// resolve changes what the resolver is about. Opinions are those of the ones
// before it, and are added to.
func (r *Rules) resolve(by *resolver, asset intent.Asset, opinions *[]opinion) (intent.Asset, []Derived, *intent.Finding) {
	on, err := by.on(asset)
	if err != nil {
		at := definition.Expression{Line: by.Line}
		if by.Where != nil {
			at = *by.Where
		}
		return asset, nil, r.unresolved(by, asset.ID, at, err)
	}
	if !on {
		return asset, nil, nil
	}
	var changed []Derived
	for i, assignment := range by.fields {
		field, at := assignment.Field(), by.Fields[i].Expression
		next, err := assignment.Apply(asset, by.Fill)
		if err != nil {
			return asset, nil, r.unresolved(by, asset.ID, at, err)
		}
		was, err := field.Shown(asset)
		if err != nil {
			return asset, nil, r.unresolved(by, asset.ID, at, err)
		}
		if string(next.Payload.Bytes) != string(asset.Payload.Bytes) {
			changed = append(changed, Derived{Derivation: by.Name, Field: field.Path(), Was: was})
		}
		asset = next
		if by.Fill {
			continue
		}
		for _, other := range *opinions {
			value, err := other.field.Value(asset)
			if err != nil {
				return asset, nil, r.unresolved(by, asset.ID, at, err)
			}
			if other.of != by && value != other.value {
				return asset, nil, r.conflict(by, other, asset.ID, at)
			}
		}
		value, err := field.Value(asset)
		if err != nil {
			return asset, nil, r.unresolved(by, asset.ID, at, err)
		}
		*opinions = append(*opinions, opinion{by, field, value})
	}
	return asset, changed, nil
}

// conflict: whichever came last would win, and nobody would see that the other
// does not hold.
func (r *Rules) conflict(by *resolver, other opinion, asset intent.AssetID, at definition.Expression) *intent.Finding {
	return &intent.Finding{
		Rule: "resolve", Severity: intent.Error, Asset: asset, File: r.file, Line: at.Line, Column: at.Column, Field: at.Field,
		Message: fmt.Sprintf("generate.%s and generate.%s (line %d) set %s of asset %s to different values", by.Name, other.of.Name, other.of.Line, other.field.Path(), asset),
		Hint:    "let where or only of one leave out what the other is about, or make one of the two",
	}
}

func (r *Rules) unresolved(by *resolver, asset intent.AssetID, at definition.Expression, err error) *intent.Finding {
	f := intent.Finding{Rule: "resolve", Severity: intent.Error, Asset: asset, File: r.file, Line: at.Line, Column: at.Column, Field: at.Field}
	f.Message, f.Hint = said(err)
	f.Message = fmt.Sprintf("asset %s (generate.%s): %s", asset, by.Name, f.Message)
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
