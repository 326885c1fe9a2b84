// Package rule evaluates what people write in CEL over assets: the filters of
// queries, the conditions and expressions of derived addons, and the
// expressions in Capacity and Version. It compiles against the types of a
// schema, so that a misspelt field is refused before anything is evaluated,
// and bounds what an evaluation may cost. It does no I/O and reads no clock.
package rule

import (
	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/schema"
)

// Environment compiles expressions against the types of one schema, and
// remembers what it compiled. It is safe for concurrent use.
//
// An expression finds these variables:
//
//	id       text    the asset's id
//	type     text    its type; compared with a literal, a short name will do
//	payload          the payload; its fields are checked when the type is known
//	scopes   map     of its ImpactedScope addon, by dimension
//	scope    text    the only one of scopes; an error when there are several
//	labels   map     of its Labels addon
//	owner    text    of its Owner addon
//	addons   map     its addons by short type name
//	refs     list    the ids of the assets it refers to
type Environment struct {
	set *schema.Set
}

// New returns an environment for the types of a set.
func New(set *schema.Set) *Environment { return &Environment{set: set} }

// Narrow is what an index can answer of a filter: every asset that matches the
// filter satisfies all of it. Empty fields say nothing. See store.AssetFilter.
type Narrow struct {
	Prefix       string
	Type         intent.TypeName
	Field, Value string
	RefersTo     intent.AssetID
	// Exact: what satisfies it also matches; nothing is left to evaluate.
	Exact bool
}

// Filter is a condition over assets of any type.
type Filter struct{}

// Filter compiles a condition. Invalid says where it is wrong, and what may
// have been meant.
func (e *Environment) Filter(text string) (*Filter, error) {
	return nil, fault.New(fault.Unavailable, "filters are not built yet")
}

// Narrow returns what an index can answer of the filter.
func (f *Filter) Narrow() Narrow { return Narrow{} }

// Match reports whether the filter is true of an asset. A field that the
// asset's type does not have makes it false, not an error.
func (f *Filter) Match(asset intent.Asset) (bool, error) {
	return false, fault.New(fault.Unavailable, "filters are not built yet")
}

// Expression gives a value for an asset.
type Expression struct{}

// Compile compiles an expression over assets of one payload type; empty: of
// any, whose fields are then found when it is evaluated.
func (e *Environment) Compile(text string, over intent.TypeName) (*Expression, error) {
	return nil, fault.New(fault.Unavailable, "expressions are not built yet")
}

// Number evaluates to a finite number of at least 0; anything else is Invalid.
func (x *Expression) Number(asset intent.Asset) (float64, error) {
	return 0, fault.New(fault.Unavailable, "expressions are not built yet")
}

// Text evaluates to a text; numbers and truth values are written out.
func (x *Expression) Text(asset intent.Asset) (string, error) {
	return "", fault.New(fault.Unavailable, "expressions are not built yet")
}

// Bool evaluates to a truth value.
func (x *Expression) Bool(asset intent.Asset) (bool, error) {
	return false, fault.New(fault.Unavailable, "expressions are not built yet")
}
