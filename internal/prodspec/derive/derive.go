// Package derive adds the addons that a partition's definition derives from
// its assets by expressions, such as impacted scopes, dependencies and capacity,
// and changes the payload fields that its resolvers name. Expressions are compiled against the types before anything is derived,
// and what an evaluation costs is bounded by package rule. What a generator gave itself wins over
// what with: of a renderer gives, and that over what derivations give; two of one kind that
// contradict each other are a finding. It does no I/O; package generate calls it when a
// run is recorded.
package derive

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/sdk/generator/addon"
)

// Version changes whenever the same derivations may give other addons.
const Version = "derive/2"

// Rules are a definition's derivations and resolvers, compiled. They are
// immutable.
type Rules struct {
	file   string
	set    *schema.Set
	list   []step
	digest intent.Digest
	places intent.Digest
	// reasons of the assets that people had turned down by command, and turndowns
	// covers all of them.
	reasons   map[intent.AssetID]string
	turndowns intent.Digest
	// endings are the previews that end, whose assets are turned down; nil: none does.
	endings *branchpreview.Endings
	// values are the outputs that assets told, and valuesDigest covers all of them.
	values outputs.Values
	// grants are what other partitions grant, of those whose outputs a source reads.
	grants       map[intent.PartitionID]outputs.Grants
	valuesDigest intent.Digest
}

// step is a derivation or a resolver.
type step struct {
	rank int
	*derivation
	*resolver
}

// Derived says which derivation an addon, or a part of it, comes from, or which
// resolver changed a field.
type Derived struct {
	Derivation string          `json:"derivation"`
	Addon      intent.TypeName `json:"addon,omitempty"`
	// From is the index of the first derived entry of a list.
	From int `json:"from,omitempty"`
	// Field of the payload that a resolver changed, and what it was for people;
	// empty: unset.
	Field string `json:"field,omitempty"`
	Was   string `json:"was,omitempty"`
	// Output that was filled in; Unknown: nobody told it yet.
	Output  outputs.ID `json:"output,omitzero"`
	Unknown bool       `json:"unknown,omitempty"`
}

type derivation struct {
	definition.Derivation
	kind   addon.Kind
	filter *rule.Filter
	edges  []edge
	// values beside those of Derivation.
	values []*rule.Expression
}

type edge struct {
	definition.Edge
	onExpr, whenExpr, atLeastExpr *rule.Expression
}

// Ranks: expressions see what came before them. Fields are filled first, so that
// nothing else need know of the old ones; opinions ask for scopes and labels, which are of
// the first stage; dependencies ask for all, and are of the last. Within a stage, what
// with: gives comes before what is derived.
const (
	fills     = 0
	stageRank = 10
	sets      = stageRank + 2
)

func (d *derivation) rank() int {
	rank := d.kind.Stage() * stageRank
	if d.Given == nil {
		rank++
	}
	return rank
}

// New compiles a definition's derivations and resolvers. Findings name the
// expression and its place; there are no rules then.
func New(file string, d definition.Definition, schemas *schema.Set) (*Rules, []intent.Finding) {
	r := &Rules{file: file, set: schemas}
	if len(d.Derivations)+len(d.Resolvers) == 0 {
		return r, nil
	}
	environment := rule.New(schemas)
	parts := [][]byte{[]byte(Version)}
	var findings []intent.Finding
	for _, derivation := range d.Derivations {
		compiled, problems := compile(file, environment, derivation)
		r.list, findings = append(r.list, step{rank: compiled.rank(), derivation: compiled}), append(findings, problems...)
		parts = append(parts, digestOf(derivation))
	}
	for _, resolver := range d.Resolvers {
		compiled, problems := compileResolver(file, environment, resolver)
		rank := sets
		if compiled.Fill {
			rank = fills
		}
		r.list, findings = append(r.list, step{rank: rank, resolver: compiled}), append(findings, problems...)
		parts = append(parts, digestOfResolver(resolver))
	}
	if len(findings) > 0 {
		return nil, findings
	}
	slices.SortStableFunc(r.list, func(a, b step) int { return cmp.Compare(a.rank, b.rank) })
	r.digest = intent.Sum("lehr.derive.v1", parts...)
	places, err := json.Marshal([]any{file, d.Derivations, d.Resolvers})
	if err != nil { // They are of texts and numbers.
		return nil, []intent.Finding{{Rule: "derive", Severity: intent.Error, File: file, Line: 1, Message: err.Error()}}
	}
	r.places = intent.Sum("lehr.derive.places.v1", r.digest[:], places)
	return r, nil
}

// Digest covers what the derivations and resolvers say, and not where they say
// it. Zero: there are none.
func (r *Rules) Digest() intent.Digest {
	if r == nil {
		return intent.Digest{}
	}
	return r.digest
}

// Places covers what they say and where they say it. Zero: there are none.
func (r *Rules) Places() intent.Digest {
	if r == nil {
		return intent.Digest{}
	}
	return r.places
}

// Apply derives the addons of an asset that a generator gave and resolves its fields. What
// cannot be evaluated, or is contradicted, is a finding, and the asset is not to be used then.
func (r *Rules) Apply(asset intent.Asset, generator string) (intent.Asset, []Derived, []intent.Finding) {
	if r == nil || asset.ID == intent.PolicyAsset {
		return asset, nil, nil
	}
	asset, derived, findings := r.fillOutputs(asset)
	if len(findings) > 0 {
		return asset, nil, findings
	}
	var opinions []opinion
	given := givers{}
	for _, s := range r.list {
		var more []Derived
		var finding *intent.Finding
		if s.resolver != nil {
			asset, more, finding = r.resolve(s.resolver, asset, &opinions)
		} else if s.Generator == "" || s.Generator == generator {
			asset, more, finding = r.derive(s.derivation, asset, given)
		}
		if finding != nil {
			return asset, nil, []intent.Finding{*finding}
		}
		derived = append(derived, more...)
	}
	return r.turnDown(asset, derived)
}

// derive adds what one derivation gives, if it is about the asset.
func (r *Rules) derive(d *derivation, asset intent.Asset, given givers) (intent.Asset, []Derived, *intent.Finding) {
	if d.filter != nil {
		matches, err := d.filter.Match(asset)
		if err != nil {
			finding := r.failed(d, asset.ID, *d.Where, err)
			return asset, nil, &finding
		}
		if !matches {
			return asset, nil, nil
		}
	}
	next, start, finding := r.apply(d, asset, given)
	if finding != nil || start < 0 {
		return asset, nil, finding
	}
	return next, []Derived{{Derivation: d.Name, Addon: d.Addon, From: start}}, nil
}

// problem is an expression that could not be evaluated.
type problem struct {
	expression definition.Expression
	err        error
}

func (p *problem) Error() string { return p.err.Error() }

// apply adds what one derivation gives. A negative from says that it gives
// nothing new.
func (r *Rules) apply(d *derivation, asset intent.Asset, given givers) (intent.Asset, int, *intent.Finding) {
	message, start, err := d.message(asset, given)
	if err == nil && message == nil {
		return asset, -1, nil
	}
	var packed intent.Message
	if err == nil {
		packed, err = r.set.Pack(message)
	}
	if err != nil {
		at := definition.Expression{Field: "generate." + d.Name, Line: d.Line, Column: 1}
		if contradicted, ok := errors.AsType[*contradiction](err); ok {
			finding := r.contradicted(d, asset.ID, contradicted)
			return asset, -1, &finding
		}
		if p, ok := errors.AsType[*problem](err); ok {
			at, err = p.expression, p.err
		}
		finding := r.failed(d, asset.ID, at, err)
		return asset, -1, &finding
	}
	addons := slices.DeleteFunc(slices.Clone(asset.Addons), func(m intent.Message) bool { return m.Type == d.Addon })
	asset.Addons = append(addons, packed)
	return asset, start, nil
}

// failed names derivation, asset, expression and place.
func (r *Rules) failed(d *derivation, asset intent.AssetID, at definition.Expression, err error) intent.Finding {
	f := intent.Finding{
		Rule: "derive", Severity: intent.Error, Asset: asset, File: r.file, Line: at.Line, Column: at.Column, Field: at.Field,
	}
	f.Message, f.Hint = explain(err)
	suffix := ""
	if at.Text != "" {
		const longest = 200
		suffix = fmt.Sprintf(" by %s", at.Text[:min(len(at.Text), longest)])
		// What package rule says names expression and asset too.
		if e, ok := errors.AsType[*rule.EvaluationError](err); ok {
			f.Message = "it " + e.Problem
		}
	}
	f.Message = fmt.Sprintf("deriving the %s of asset %s%s (generate.%s): %s", d.kind.Name, asset, suffix, d.Name, f.Message)
	return f
}

func explain(err error) (message, hint string) {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Message, e.Hint
	}
	return err.Error(), ""
}
