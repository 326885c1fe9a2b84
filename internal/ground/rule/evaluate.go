package rule

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

var (
	// errNoValue: the asset has no value for it, such as a field or a key that
	// is not there.
	errNoValue = errors.New("has no value")
	// errLimit: evaluating costs more than is allowed.
	errLimit = errors.New("costs more than is allowed")
)

// evaluate gives the value for an asset. An error is Invalid, and errNoValue
// or errLimit; or says that the asset cannot be read.
func (p *program) evaluate(asset intent.Asset) (ref.Val, error) {
	value, _, err := p.measured(asset, nil)
	return value, err
}

// measured evaluates, with what the view adds, and says what it cost.
func (p *program) measured(asset intent.Asset, added map[string]any) (ref.Val, int, error) {
	variables := &variables{set: p.set, asset: asset, values: added}
	if p.fixed != "" && asset.Payload.Type != p.fixed {
		err := fault.New(fault.Invalid, "expression %.200q is over assets of type %s; %s is a %s: it %w", p.text, p.fixed, asset.ID, asset.Payload.Type, errNoValue)
		return nil, 0, err
	}
	value, details, err := p.run.Eval(variables)
	cost := 0
	if details != nil && details.ActualCost() != nil {
		cost = int(min(*details.ActualCost(), math.MaxInt32))
	}
	if variables.unreadable != nil {
		return nil, cost, variables.unreadable
	}
	if err == nil && !types.IsUnknown(value) {
		return value, cost, nil
	}
	return nil, cost, p.failure(asset, err)
}

// failure says why there is no value.
func (p *program) failure(asset intent.Asset, err error) error {
	cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err)
	if ok && cancelled.Cause == interpreter.CostLimitExceeded || errors.Is(err, errLimit) {
		return p.fails(asset, &EvaluationError{errLimit.Error(), errLimit}).
			WithHint("fewer loops within loops, and shorter texts, cost less")
	}
	return p.fails(asset, &EvaluationError{fmt.Sprintf("%v: %s", errNoValue, shorten(reason(err))), errNoValue}).
		WithHint(`ask first whether it has one: has(payload.field), "KEY" in payload.field, or payload.field != 0 before a division`)
}

func reason(err error) string {
	if err == nil {
		return "it is unknown"
	}
	return strings.TrimPrefix(err.Error(), "internal error: ")
}

// shorten bounds a text that somebody else wrote.
func shorten(text string) string {
	const most = 300
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// variables finds the values of variables when they are asked for.
type variables struct {
	set    *schema.Set
	asset  intent.Asset
	values map[string]any
	// unreadable says that the asset itself is broken.
	unreadable error
}

var _ interpreter.Activation = (*variables)(nil)

func (v *variables) Parent() interpreter.Activation { return nil }

func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case "id":
		return string(v.asset.ID), true
	case "type":
		return string(v.asset.Payload.Type), true
	}
	if cached, ok := v.values[name]; ok {
		return cached, true
	}
	find, ok := finders[name]
	if !ok {
		return nil, false
	}
	value, err := find(v)
	if err != nil {
		if !errors.Is(err, errNoValue) {
			v.unreadable = err
		}
		value = types.WrapErr(err)
	}
	if v.values == nil {
		v.values = map[string]any{}
	}
	v.values[name] = value
	return value, true
}

// finders read variables from the content.
var finders map[string]func(*variables) (any, error)

func init() {
	finders = map[string]func(*variables) (any, error){
		"payload": func(v *variables) (any, error) { return v.message(v.asset.Payload) },
		"scopes": func(v *variables) (any, error) {
			var scope intentpb.ImpactedScope
			_, err := schema.Addon(v.asset, &scope)
			return texts(scope.Scopes), err
		},
		"scope": func(v *variables) (any, error) {
			var scope intentpb.ImpactedScope
			if _, err := schema.Addon(v.asset, &scope); err != nil {
				return nil, err
			}
			for _, only := range scope.Scopes {
				if len(scope.Scopes) == 1 {
					return only, nil
				}
			}
			return nil, fault.New(fault.Invalid, "scope %w: the asset has %d scopes", errNoValue, len(scope.Scopes))
		},
		"labels": func(v *variables) (any, error) {
			var labels intentpb.Labels
			_, err := schema.Addon(v.asset, &labels)
			return texts(labels.Labels), err
		},
		"owner": func(v *variables) (any, error) {
			var owner intentpb.Owner
			_, err := schema.Addon(v.asset, &owner)
			return owner.Owner, err
		},
		"addons": (*variables).addons,
		"refs":   (*variables).refs,
	}
}

func texts(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func (v *variables) addons() (any, error) {
	addons := make(map[string]any, len(v.asset.Addons))
	for _, addon := range v.asset.Addons {
		message, err := v.message(addon)
		if err != nil {
			return nil, err
		}
		addons[addonKey(v.set, addon.Type)] = message
	}
	return addons, nil
}

func (v *variables) refs() (any, error) {
	references, err := v.set.References(v.asset)
	if err != nil {
		return nil, err
	}
	refs := make([]string, len(references))
	for i, reference := range references {
		refs[i] = string(reference.To)
	}
	return refs, nil
}

// maxNesting of a message, as in its canonical bytes.
const maxNesting = 100

func (v *variables) message(m intent.Message) (proto.Message, error) {
	message, err := v.set.New(m.Type)
	if err == nil {
		options := proto.UnmarshalOptions{RecursionLimit: maxNesting, Resolver: v.set.Types()}
		err = options.Unmarshal(m.Bytes, message)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot read the %s of asset %s: %w", m.Type, v.asset.ID, err)
	}
	return message, nil
}

// addonKey is what an addon is called in addons: by the last part of its type,
// or by all of it where several types share that.
func addonKey(schemas *schema.Set, name intent.TypeName) string {
	short := lastName(name)
	if resolved, err := schemas.Resolve(short); err == nil && resolved == name {
		return short
	}
	return string(name)
}

func lastName(name intent.TypeName) string {
	return string(name[strings.LastIndexByte(string(name), '.')+1:])
}
