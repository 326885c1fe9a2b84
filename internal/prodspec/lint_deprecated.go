package prodspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

// deprecated gathers who still writes and reads the fields that types deprecate.
type deprecated struct {
	environment *rule.Environment
	// fields of the types that there are assets of, by their full names.
	fields map[string]bool
	// writes by field and by who writes it, and reads by field.
	writes map[[2]string]*write
	reads  map[string]bool
	// looked at are the types, and the expressions of addons.
	lookedAt map[string]bool
}

type write struct {
	assets int
	first  intent.AssetID
}

func newDeprecated(schemas *schema.Set) *deprecated {
	return &deprecated{environment: rule.New(schemas), fields: map[string]bool{}, writes: map[[2]string]*write{}, reads: map[string]bool{}, lookedAt: map[string]bool{}}
}

// seeDeprecated notes what an asset has of deprecated fields.
func (l *linter) seeDeprecated(id intent.AssetID, asset intent.Asset) error {
	d := l.deprecated
	for i, m := range append([]intent.Message{asset.Payload}, asset.Addons...) {
		message, err := l.set.Unpack(m)
		if err != nil {
			return err
		}
		if d.declared(message.ProtoReflect().Descriptor()); len(d.fields) == 0 {
			continue
		}
		setDeprecated(message.ProtoReflect(), "payload", func(path string, field protoreflect.FieldDescriptor) {
			built, _ := l.members.get(id)
			writer := built.run.Generator
			for _, derived := range built.output().Derived() {
				if i == 0 && derived.Field == path || i > 0 && derived.Addon == m.Type {
					writer = derived.Derivation
				}
			}
			key := [2]string{string(field.FullName()), writer}
			if d.writes[key] == nil {
				d.writes[key] = &write{first: id}
			}
			d.writes[key].assets++
		})
	}
	return l.seeExpressions(id, asset)
}

// declared notes the deprecated fields of a type, and of those within it.
func (d *deprecated) declared(message protoreflect.MessageDescriptor) {
	if d.lookedAt[string(message.FullName())] {
		return
	}
	d.lookedAt[string(message.FullName())] = true
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if rule.IsDeprecated(field) {
			d.fields[string(field.FullName())] = true
		}
		if field.Message() != nil {
			d.declared(field.Message())
		}
	}
}

// setDeprecated calls each for every deprecated field that is set.
func setDeprecated(message protoreflect.Message, path string, visit func(string, protoreflect.FieldDescriptor)) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		fieldPath := path + "." + string(field.Name())
		switch {
		case rule.IsDeprecated(field):
			visit(fieldPath, field)
		case field.IsMap() && field.MapValue().Message() != nil:
			value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				setDeprecated(v.Message(), fieldPath, visit)
				return true
			})
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				setDeprecated(value.List().Get(i).Message(), fieldPath, visit)
			}
		case field.Message() != nil && !field.IsMap():
			setDeprecated(value.Message(), fieldPath, visit)
		}
		return true
	})
}

// seeExpressions looks at those in an asset's addons. Derived ones are of
// lehr.yaml, and are looked at there.
func (l *linter) seeExpressions(id intent.AssetID, asset intent.Asset) error {
	capacity, version, health := &intentpb.Capacity{}, &intentpb.Version{}, &intentpb.Health{}
	if _, err := schema.Addon(asset, health); err != nil {
		return err
	}
	if _, err := schema.Addon(asset, capacity); err != nil {
		return err
	}
	if _, err := schema.Addon(asset, version); err != nil {
		return err
	}
	texts := append(slices.Sorted(maps.Values(capacity.Dimensions)), version.Expression, health.Expression)
	for _, text := range texts {
		key := string(asset.Payload.Type) + " " + text
		if l.deprecated.lookedAt[key] || slices.ContainsFunc(l.definition.Derivations, func(d definition.Derivation) bool {
			return slices.ContainsFunc(d.Values, func(v definition.Value) bool { return v.Text == text })
		}) {
			continue
		}
		l.deprecated.lookedAt[key] = true
		for _, field := range l.deprecated.environment.Deprecated(text, asset.Payload.Type) {
			origin := l.origin(id)
			l.readsDeprecated(field, origin.File, origin.Line, fmt.Sprintf("an addon of asset %s", id), "addons")
		}
	}
	return nil
}

func (l *linter) readsDeprecated(field, file string, line int, reader, at string) {
	l.deprecated.reads[field] = true
	l.findings = append(l.findings, intent.Finding{
		Rule: "lint", Severity: intent.Warning, File: file, Line: max(line, 1), Field: at,
		Message: fmt.Sprintf("%s reads %s, which is deprecated", reader, field), Hint: "read the field that takes its place",
	})
}

// deprecations tells who writes and reads deprecated fields, and which may go.
func (l *linter) deprecations() {
	d := l.deprecated
	var written []string
	for _, key := range slices.SortedFunc(maps.Keys(d.writes), func(a, b [2]string) int { return strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1]) }) {
		w := d.writes[key]
		written = append(written, key[0])
		subject := "asset " + string(w.first)
		if w.assets > 1 {
			subject += fmt.Sprintf(" and %d more", w.assets-1)
		}
		origin := l.origin(w.first)
		l.findings = append(l.findings, intent.Finding{
			Rule: "lint", Severity: intent.Warning, Asset: w.first, File: origin.File, Line: origin.Line, Field: key[0],
			Message: fmt.Sprintf("generate.%s sets %s, which is deprecated, of %s", key[1], key[0], subject), Hint: "set the field that takes its place",
		})
	}
	bridged := l.readsOfDefinition(written)
	for _, field := range slices.Sorted(maps.Keys(d.fields)) {
		if !slices.Contains(written, field) && !d.reads[field] && !bridged[field] {
			l.add(1, field, fmt.Sprintf("nothing here sets or reads %s, which is deprecated", field), "if no plugin and no program reads it either, remove it, and reserve its number and name")
		}
	}
}

// readsOfDefinition looks at the expressions of lehr.yaml. One that fills another
// field from a deprecated one is what it is there for, until nothing sets that.
func (l *linter) readsOfDefinition(written []string) (bridged map[string]bool) {
	d, bridged := l.definition, map[string]bool{}
	look := func(e *definition.Expression, typeName intent.TypeName, reader string) {
		if e == nil {
			return
		}
		for _, field := range l.deprecated.environment.Deprecated(e.Text, typeName) {
			l.readsDeprecated(field, l.sources.file, e.Line, reader, e.Field)
		}
	}
	for _, derivation := range d.Derivations {
		reader := "the derivation " + derivation.Name
		var typeName intent.TypeName
		if derivation.Where != nil {
			if filter, err := l.deprecated.environment.Filter(derivation.Where.Text); err == nil {
				typeName = filter.Narrow().Type
			}
		}
		look(derivation.Where, typeName, reader)
		for _, value := range derivation.Values {
			look(&value.Expression, typeName, reader)
		}
		for _, edge := range derivation.Edges {
			look(&edge.On, typeName, reader)
			look(edge.When, typeName, reader)
			look(edge.AtLeast, typeName, reader)
		}
	}
	for _, r := range d.Resolvers {
		reader := "the resolver " + r.Name
		look(r.Where, r.Type, reader)
		for _, value := range r.Fields {
			if !r.Fill {
				look(&value.Expression, r.Type, reader)
				continue
			}
			for _, field := range l.deprecated.environment.Deprecated(value.Text, r.Type) {
				if bridged[field] = true; !slices.Contains(written, field) {
					l.add(value.Line, value.Field, fmt.Sprintf("the resolver %s fills %s from %s, which nothing sets any more", r.Name, value.Name, field), "take it away; then the field may go")
				}
			}
		}
	}
	for i, r := range d.Policy.GetRules() {
		for _, text := range []string{r.Where, r.Must} {
			e := definition.Expression{Text: text, Line: d.RulePlaces[i][""].Line, Field: fmt.Sprintf("validate.rules[%d]", i)}
			var typeName intent.TypeName
			if filter, err := l.deprecated.environment.Filter(r.Where); err == nil {
				typeName = filter.Narrow().Type
			}
			look(&e, typeName, "the rule "+r.Id)
		}
	}
	for i, c := range d.Policy.GetChecks() {
		var typeName intent.TypeName
		if filter, err := l.deprecated.environment.Filter(c.GetWhere()); err == nil {
			typeName = filter.Narrow().Type
		}
		texts := []string{c.GetWhere(), c.GetDeny().GetVersion(), c.GetCondition().GetMust(), c.GetPeak().GetServes()}
		for _, labels := range []map[string]string{c.GetQuery().GetLabels(), c.GetAlerts().GetLabels(), c.GetPeak().GetLabels()} {
			texts = append(texts, slices.Sorted(maps.Values(labels))...)
		}
		for _, text := range texts {
			e := definition.Expression{Text: text, Line: d.CheckPlaces[i][""].Line, Field: "checks." + c.GetName()}
			look(&e, typeName, "the check "+c.GetName())
		}
	}
	for i, r := range d.Policy.GetRollouts() {
		var typeName intent.TypeName
		if filter, err := l.deprecated.environment.Filter(r.Select); err == nil {
			typeName = filter.Narrow().Type
		}
		texts := []string{r.Select}
		for _, stage := range slices.Concat(r.Stages, r.Emergency, r.Rollback) {
			texts = append(texts, stage.Where)
		}
		for _, text := range texts {
			look(&definition.Expression{Text: text, Line: d.RolloutPlaces[i][""].Line, Field: "rollouts." + r.Name}, typeName, "the rollout "+r.Name)
		}
	}
	return bridged
}
