package derive

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/sdk/generator/addon"
)

// givers are which derivations gave an asset what, by addon and entry. What an asset has
// that nobody of them gave is its generator's own.
type givers map[string]giver

type giver struct {
	*derivation
	// said is what it gave, in words that are compared only.
	said string
}

// decide says whether a derivation adds an entry, which exists or not: what the asset has
// of its own wins, and what with: gives wins over what is derived. Say gives what the
// derivation says; it is asked only where that counts.
func (g givers) decide(d *derivation, key string, exists bool, say func() (string, error)) (adds bool, _ error) {
	before, ok := g[key]
	if exists && !ok || ok && (before.Given == nil) != (d.Given == nil) {
		return false, nil
	}
	text, err := say()
	if err != nil || text == "" {
		return false, err
	}
	if ok {
		if before.said != text {
			return false, &contradiction{before.derivation, key}
		}
		return false, nil
	}
	g[key] = giver{d, text}
	return true, nil
}

// contradiction: another derivation gave the same otherwise. Whichever came last would
// win, and nobody would see that the other does not hold.
type contradiction struct {
	before *derivation
	key    string
}

func (c *contradiction) Error() string { return "generate." + c.before.Name + " says otherwise" }

func (r *Rules) contradicted(d *derivation, asset intent.AssetID, c *contradiction) intent.Finding {
	return intent.Finding{
		Rule: "derive", Severity: intent.Error, Asset: asset, File: r.file, Line: d.Line, Field: "generate." + d.Name,
		Message: fmt.Sprintf("generate.%s (line %d) and generate.%s (line %d) give asset %s different values of %s", d.Name, d.Line, c.before.Name, c.before.Line, asset, c.key),
		Hint:    "let where of one leave out what the other is about, or make one of the two",
	}
}

// message is the addon that the asset then has: what it has already, with what
// is derived. Nil: nothing is to be added. Start is where a list's derived part
// begins.
func (d *derivation) message(asset intent.Asset, given givers) (m proto.Message, start int, err error) {
	own := d.kind.New()
	exists, err := schema.Addon(asset, own)
	if err != nil {
		return nil, 0, err
	}
	switch entries := d.kind.Entries(); {
	case d.kind.Name == "Dependencies":
		return d.dependencies(asset, own.(*intentpb.Dependencies), given)
	case d.kind.Form.GetMerged() && entries != nil:
		return d.merged(asset, own.ProtoReflect(), entries, given)
	}
	adds, err := given.decide(d, d.kind.Name, exists, func() (string, error) {
		if m, err = d.whole(asset); m == nil || err != nil {
			return "", err
		}
		bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		return "=" + string(bytes), err
	})
	if err != nil || !adds {
		return nil, 0, err
	}
	return m, 0, nil
}

// whole is an addon of which one place gives all; nil: a text that it needs is empty.
func (d *derivation) whole(asset intent.Asset) (proto.Message, error) {
	if d.Given != nil {
		return d.Given, nil
	}
	m := d.kind.New().ProtoReflect()
	for i, value := range d.Values {
		text := value.Text
		if !d.kind.Form.GetExpressions() {
			var err error
			if text, err = textOf(d.values[i], value.Expression, asset); err != nil {
				return nil, err
			}
		}
		if entries := d.kind.Entries(); entries != nil {
			addon.SetEntry(m, entries, value.Name, text)
			continue
		}
		field := m.Descriptor().Fields().ByName(protoreflect.Name(value.Name))
		switch {
		case text == "" && addon.Required(field):
			return nil, nil
		case text == "":
			continue
		}
		parsed, reason := addon.ParseScalar(field, text)
		if reason != "" {
			return nil, &problem{value.Expression, fmt.Errorf("%s: %s", value.Name, reason)}
		}
		m.Set(field, parsed)
	}
	return m.Interface(), nil
}

// merged adds to the entries of an addon what it does not have yet; nil when nothing is new.
func (d *derivation) merged(asset intent.Asset, m protoreflect.Message, entries protoreflect.FieldDescriptor, given givers) (_ proto.Message, start int, _ error) {
	existing, added := addon.EntriesOf(m, entries), false
	if entries.IsList() {
		start = len(existing)
	}
	add := func(name string, say func() (string, error)) error {
		text := ""
		_, exists := existing[name]
		adds, err := given.decide(d, d.kind.Name+"."+name, exists, func() (_ string, err error) {
			text, err = say()
			return text, err
		})
		if adds {
			addon.SetEntry(m, entries, name, text)
			added = true
		}
		return err
	}
	if d.Given != nil {
		literal := addon.EntriesOf(d.Given.ProtoReflect(), entries)
		for _, name := range slices.Sorted(maps.Keys(literal)) {
			if err := add(name, func() (string, error) { return literal[name], nil }); err != nil {
				return nil, 0, err
			}
		}
	}
	for i, value := range d.Values {
		if err := add(value.Name, func() (string, error) { return textOf(d.values[i], value.Expression, asset) }); err != nil {
			return nil, 0, err
		}
	}
	if !added {
		return nil, 0, nil
	}
	return m.Interface(), start, nil
}

// dependencies adds edges. One that the asset has already, to the same asset
// by the same rule in the same dimension, stays as it is.
func (d *derivation) dependencies(asset intent.Asset, own *intentpb.Dependencies, given givers) (proto.Message, int, error) {
	key := func(e *intentpb.Dependency) string {
		return fmt.Sprintf("Dependencies on %s by %s %s", e.On, e.Rule, e.Serves)
	}
	present := map[string]bool{}
	for _, dependency := range own.Dependencies {
		present[key(dependency)] = true
	}
	start := len(own.Dependencies)
	add := func(added *intentpb.Dependency) error {
		adds, err := given.decide(d, key(added), present[key(added)], func() (string, error) {
			return "at least " + added.AtLeast + " expects " + added.Expects, nil
		})
		if adds {
			present[key(added)] = true
			own.Dependencies = append(own.Dependencies, added)
		}
		return err
	}
	if literal, ok := d.Given.(*intentpb.Dependencies); ok {
		for _, dependency := range literal.Dependencies {
			if err := add(dependency); err != nil {
				return nil, 0, err
			}
		}
	}
	for _, e := range d.edges {
		added, err := e.dependency(asset)
		if err == nil && added != nil {
			err = add(added)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	if len(own.Dependencies) == start {
		return nil, 0, nil
	}
	return own, start, nil
}

// dependency evaluates an edge; nil: there is none.
func (e *edge) dependency(asset intent.Asset) (*intentpb.Dependency, error) {
	if e.whenExpr != nil {
		wanted, err := e.whenExpr.Bool(asset)
		if err != nil {
			return nil, &problem{*e.When, err}
		}
		if !wanted {
			return nil, nil
		}
	}
	target, err := textOf(e.onExpr, e.On, asset)
	if err != nil || target == "" {
		return nil, err
	}
	dependency := &intentpb.Dependency{On: target, Rule: e.Rule, Serves: e.Serves, Expects: e.Expects}
	if e.atLeastExpr != nil {
		dependency.AtLeast, err = textOf(e.atLeastExpr, *e.AtLeast, asset)
	}
	return dependency, err
}

func textOf(compiled *rule.Expression, e definition.Expression, asset intent.Asset) (string, error) {
	text, err := compiled.Text(asset)
	if err != nil {
		return "", &problem{e, err}
	}
	return text, nil
}
