package prodspec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/validate"
)

// environmentSelection is what selectors of environments find among the built assets. It costs what changes:
// only outputs that a build gave otherwise are looked at, and only values are kept.
type environmentSelection struct {
	schema intent.Digest
	found  map[definition.SelectorKey]*foundValues
}

// foundValues are those of one selector.
type foundValues struct {
	filter *rule.Filter
	value  *rule.Expression
	// values of the members that have one, and how many have each value.
	values map[intent.AssetID]string
	counts map[string]int
	// changes are the values of what is built and not taken yet; empty: it has none, or is gone.
	changes map[intent.AssetID]string
	// whole: what was taken of the runs that are pending is not in values, for their stored
	// outputs are newer; all that they gave is in changes.
	whole bool
}

// compileSelector gives the condition under which an asset has a value, and the value.
func compileSelector(environment *rule.Environment, selector *intentpb.EnvironmentSelector) (*foundValues, error) {
	variable, name := "scopes", selector.GetByScope()
	if name == "" {
		variable, name = "labels", selector.GetByLabel()
	}
	condition := strconv.Quote(name) + " in " + variable
	if selector.GetWhere() != "" {
		// A mistake in it is told by its own place, so it is compiled alone first.
		if _, err := environment.Filter(selector.GetWhere()); err != nil {
			return nil, err
		}
		condition += " && (" + selector.GetWhere() + ")"
	}
	filter, err := environment.Filter(condition)
	if err != nil {
		return nil, err
	}
	value, err := environment.Compile(variable+"["+strconv.Quote(name)+"]", "")
	if err != nil {
		return nil, err
	}
	return &foundValues{filter: filter, value: value, values: map[intent.AssetID]string{}, counts: map[string]int{}}, nil
}

// selectEnvironments has the definition say which environments the built assets select, as of this
// build. What is wrong with them goes to the findings.
func (b *builder) selectEnvironments(ctx context.Context, r *reading) error {
	selectors := map[definition.SelectorKey]*intentpb.EnvironmentSelector{}
	for _, d := range r.definition.Policy.GetDeliveries() {
		for _, s := range d.GetSelectors() {
			selectors[definition.KeyOfSelector(d.GetName(), s)] = s
		}
	}
	if len(selectors) == 0 {
		b.selection = environmentSelection{}
		return nil
	}
	if b.selection.schema != b.set.Digest() {
		b.selection = environmentSelection{schema: b.set.Digest(), found: map[definition.SelectorKey]*foundValues{}}
	}
	maps.DeleteFunc(b.selection.found, func(key definition.SelectorKey, _ *foundValues) bool { return selectors[key] == nil })
	environment := rule.New(b.set)
	selected, changed := definition.Selected{}, false
	for key, selector := range selectors {
		found := b.selection.found[key]
		if found == nil {
			var err error
			if found, err = compileSelector(environment, selector); err != nil {
				return err // The definition was judged, so this is a fault of ours.
			}
			if err := b.findAmongMembers(ctx, found); err != nil {
				return b.cannotSelect(key, err, r)
			}
			b.selection.found[key] = found
		}
		if err := b.findAmongPending(ctx, found); err != nil {
			return b.cannotSelect(key, err, r)
		}
		selected[key] = found.distinct()
		changed = changed || !slices.Equal(selected[key], selector.GetValues())
	}
	if changed {
		b.sources.selectAgain(selected, r)
	}
	if len(r.findings) == 0 {
		b.sources.warnOfEmptySelectors(r)
	}
	return nil
}

// cannotSelect makes a finding of a condition that cannot be judged of an asset. Other errors stay.
func (b *builder) cannotSelect(key definition.SelectorKey, err error, r *reading) error {
	if !fault.Is(err, fault.Invalid) {
		return err
	}
	for i, d := range r.definition.Policy.GetDeliveries() {
		if d.GetName() == key.Application {
			field := "environments." + key.Environment + ".each.where"
			r.findings = append(r.findings, b.sources.expressionFinding(r.definition.DeliveryPlaces, "delivery."+key.Application, validate.RuleProblem{Index: i, Field: field, Err: err}))
		}
	}
	return nil
}

// findAmongMembers looks at all that was taken and is still given: the selector is new.
func (b *builder) findAmongMembers(ctx context.Context, found *foundValues) error {
	found.whole = true
	pending := map[intent.AssetID]bool{}
	for _, run := range b.graph.Pending() {
		for i := range run.Taken {
			pending[run.Taken[i].ID] = true
		}
	}
	wanted := func(id intent.AssetID, typeName intent.TypeName) bool {
		return id != intent.PolicyAsset && found.wants(typeName)
	}
	return b.visitUntouched(ctx, pending, wanted, func(id intent.AssetID, content intent.Asset, _ []byte) error {
		value, err := found.valueOf(content)
		if err == nil && value != "" {
			found.values[id] = value
			found.counts[value]++
		}
		return err
	})
}

// findAmongPending looks at what this build gave otherwise.
func (b *builder) findAmongPending(ctx context.Context, found *foundValues) error {
	found.changes = map[intent.AssetID]string{}
	pending := b.graph.Pending()
	for _, run := range pending {
		for i := range run.Taken {
			if id := run.Taken[i].ID; found.values[id] != "" {
				found.changes[id] = ""
			}
		}
	}
	for _, run := range pending {
		before := make(map[intent.AssetID]intent.Digest, len(run.Taken))
		for i := range run.Taken {
			before[run.Taken[i].ID] = run.Taken[i].Digest
		}
		for i := range run.Outputs {
			output := &run.Outputs[i]
			if output.ID == intent.PolicyAsset || !found.wants(output.Type) {
				continue
			}
			if !found.whole && before[output.ID] == output.Digest {
				delete(found.changes, output.ID)
				continue
			}
			value, err := b.valueOf(ctx, run, output, found)
			if err != nil {
				return err
			}
			if value != "" || found.values[output.ID] != "" {
				found.changes[output.ID] = value
			}
		}
	}
	return nil
}

func (b *builder) valueOf(ctx context.Context, run *generate.Run, output *generate.Output, found *foundValues) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	body, err := b.graph.Body(ctx, run, output.Digest)
	if err != nil {
		return "", err
	}
	content, err := schema.Decode(body)
	if err != nil {
		return "", err
	}
	return found.valueOf(content)
}

// wants reports whether assets of a type can have a value.
func (f *foundValues) wants(typeName intent.TypeName) bool {
	only := f.filter.Narrow().Type
	return only == "" || only == typeName
}

// valueOf an asset; empty: it has none.
func (f *foundValues) valueOf(content intent.Asset) (string, error) {
	matches, err := f.filter.Match(content)
	if err != nil || !matches {
		return "", err
	}
	return f.value.Text(content)
}

// distinct values of what is built, in order.
func (f *foundValues) distinct() []string {
	counts := maps.Clone(f.counts)
	for id, value := range f.changes {
		if before := f.values[id]; before != "" {
			counts[before]--
		}
		if value != "" {
			counts[value]++
		}
	}
	maps.DeleteFunc(counts, func(_ string, count int) bool { return count <= 0 })
	return slices.Sorted(maps.Keys(counts))
}

// take makes what was built what the next build changes.
func (s *environmentSelection) take() {
	for _, f := range s.found {
		for id, value := range f.changes {
			if before := f.values[id]; before != "" {
				if f.counts[before]--; f.counts[before] == 0 {
					delete(f.counts, before)
				}
			}
			if delete(f.values, id); value != "" {
				f.values[id] = value
				f.counts[value]++
			}
		}
		f.changes, f.whole = nil, false
	}
}

// selectAgain parses the definition with what its selectors select now. What else it says is the
// same as before.
func (s *sources) selectAgain(selected definition.Selected, r *reading) {
	last := &s.definition
	again, findings := definition.ParseWithDefaults(s.file, last.content, s.types.set, r.common.defaults(), selected)
	if len(findings) == 0 {
		for _, problem := range validate.CheckDeliveries(s.types.set, again.Policy) {
			findings = append(findings, s.expressionFinding(again.DeliveryPlaces, "delivery."+again.Policy.Deliveries[problem.Index].Name, problem))
		}
	}
	if len(findings) > 0 {
		r.findings = findings
		return
	}
	r.common.addPrograms(&again)
	last.definition = again
	policy := proto.CloneOf(r.definition.Policy) // It has workflows beside.
	policy.Deliveries = again.Policy.Deliveries
	r.definition.Policy, r.definition.DeliveryPlaces = policy, again.DeliveryPlaces
}

// warnOfEmptySelectors that find no asset: nothing is delivered there, and what depends on them
// waits.
func (s *sources) warnOfEmptySelectors(r *reading) {
	for i, d := range r.definition.Policy.GetDeliveries() {
		for _, selector := range d.GetSelectors() {
			if len(selector.GetValues()) > 0 {
				continue
			}
			field := "environments." + selector.GetEnvironment() + ".each"
			place := r.definition.DeliveryPlaces[i][field]
			r.warnings = append(r.warnings, intent.Finding{
				Rule: "delivery", Severity: intent.Warning, File: s.file, Line: place.Line, Column: place.Column, Field: "delivery." + d.GetName() + "." + field,
				Message: fmt.Sprintf("delivery.%s.%s selects no asset, so there is no environment %s-…, and what depends on %s waits",
					d.GetName(), field, selector.GetEnvironment(), selector.GetEnvironment()),
				Hint: "give assets the scope or label that by: names, or look whether where: says what is meant",
			})
		}
	}
}
