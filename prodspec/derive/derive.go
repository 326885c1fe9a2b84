// Package derive adds the addons that a partition's definition derives from
// its assets by expressions: impacted scopes, dependencies, capacity and so
// on. Expressions are compiled against the types before anything is derived,
// and what an evaluation costs is bounded by package rule. What a generator
// gave itself always wins. It does no I/O; package generate calls it when a
// run is recorded.
package derive

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/prodspec/definition"
	"lehr.dev/rule"
	"lehr.dev/schema"
)

// Version changes whenever the same derivations may give other addons.
const Version = "derive/1"

// Rules are a definition's derivations, compiled. They are immutable.
type Rules struct {
	file   string
	set    *schema.Set
	list   []*derivation
	digest intent.Digest
}

// Derived says which derivation an addon, or a part of it, comes from.
type Derived struct {
	Derivation string          `json:"derivation"`
	Addon      intent.TypeName `json:"addon"`
	// From is the index of the first derived entry of a list.
	From int `json:"from,omitempty"`
}

type derivation struct {
	definition.Derivation
	where *rule.Filter
	edges []edge
	// values beside those of Derivation.
	values []*rule.Expression
}

type edge struct {
	definition.Edge
	on, when, atLeast *rule.Expression
}

// order: expressions see the addons derived before them, and those of
// dependencies ask for scopes and labels.
var order = map[string]int{"ImpactedScope": 1, "Labels": 1, "Owner": 1, "Group": 1, "Capacity": 2, "Version": 2, "Dependencies": 3}

// New compiles derivations. Findings name the expression and its place; there
// are no rules then.
func New(file string, derivations []definition.Derivation, set *schema.Set) (*Rules, []intent.Finding) {
	r := &Rules{file: file, set: set}
	if len(derivations) == 0 {
		return r, nil
	}
	environment := rule.New(set)
	parts := [][]byte{[]byte(Version)}
	var findings []intent.Finding
	for _, d := range derivations {
		made, problems := compile(file, environment, d)
		r.list, findings = append(r.list, made), append(findings, problems...)
		parts = append(parts, digestOf(d))
	}
	if len(findings) > 0 {
		return nil, findings
	}
	slices.SortStableFunc(r.list, func(a, b *derivation) int { return cmp.Compare(order[a.short()], order[b.short()]) })
	r.digest = intent.Sum("lehr.derive.v1", parts...)
	return r, nil
}

// Digest covers what the derivations say, and not where they say it. Zero:
// nothing is derived.
func (r *Rules) Digest() intent.Digest {
	if r == nil {
		return intent.Digest{}
	}
	return r.digest
}

func (d *derivation) short() string { return short(d.Addon) }

func short(name intent.TypeName) string {
	return string(name[strings.LastIndexByte(string(name), '.')+1:])
}

// Apply derives the addons of an asset. A derivation that cannot be evaluated
// is a finding, and the asset is not to be used then.
func (r *Rules) Apply(asset intent.Asset) (intent.Asset, []Derived, []intent.Finding) {
	if r == nil || asset.ID == intent.PolicyAsset {
		return asset, nil, nil
	}
	var derived []Derived
	for _, d := range r.list {
		if d.where != nil {
			matches, err := d.where.Match(asset)
			if err != nil {
				return asset, nil, []intent.Finding{r.failed(d, asset.ID, *d.Where, err)}
			}
			if !matches {
				continue
			}
		}
		next, from, finding := r.apply(d, asset)
		if finding != nil {
			return asset, nil, []intent.Finding{*finding}
		}
		if from >= 0 {
			asset = next
			derived = append(derived, Derived{Derivation: d.Name, Addon: d.Addon, From: from})
		}
	}
	return asset, derived, nil
}

// problem is an expression that could not be evaluated.
type problem struct {
	expression definition.Expression
	err        error
}

func (p *problem) Error() string { return p.err.Error() }

// apply adds what one derivation gives. A negative from says that it gives
// nothing new.
func (r *Rules) apply(d *derivation, asset intent.Asset) (intent.Asset, int, *intent.Finding) {
	message, from, err := d.message(asset)
	if err == nil && message == nil {
		return asset, -1, nil
	}
	var packed intent.Message
	if err == nil {
		packed, err = r.set.Pack(message)
	}
	if err != nil {
		at := definition.Expression{Field: "generate." + d.Name, Line: d.Line, Column: 1}
		if p, ok := errors.AsType[*problem](err); ok {
			at, err = p.expression, p.err
		}
		finding := r.failed(d, asset.ID, at, err)
		return asset, -1, &finding
	}
	addons := slices.DeleteFunc(slices.Clone(asset.Addons), func(m intent.Message) bool { return m.Type == d.Addon })
	asset.Addons = append(addons, packed)
	return asset, from, nil
}

// failed names derivation, asset, expression and place.
func (r *Rules) failed(d *derivation, asset intent.AssetID, at definition.Expression, err error) intent.Finding {
	f := intent.Finding{
		Rule: "derive", Severity: intent.Error, Asset: asset, File: r.file, Line: at.Line, Column: at.Column, Field: at.Field,
	}
	f.Message, f.Hint = said(err)
	what := ""
	if at.Text != "" {
		const longest = 200
		what = fmt.Sprintf(" by %s", at.Text[:min(len(at.Text), longest)])
		// Package rule names expression and asset too.
		if _, said, does := strings.Cut(f.Message, " of asset "+string(asset)+" "); does {
			f.Message = "it " + said
		}
	}
	f.Message = fmt.Sprintf("deriving the %s of asset %s%s (generate.%s): %s", d.short(), asset, what, d.Name, f.Message)
	return f
}

func said(err error) (message, hint string) {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Message, e.Hint
	}
	return err.Error(), ""
}
