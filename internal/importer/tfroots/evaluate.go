package tfroots

import (
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// String is the place as people read it.
func (p place) String() string { return p.file + ":" + strconv.Itoa(p.line) }

// functions that the settings of states are mostly made by. An expression with another is not
// evaluated, and what rests on it is told.
var functions = map[string]function.Function{
	"coalesce": stdlib.CoalesceFunc, "concat": stdlib.ConcatFunc, "element": stdlib.ElementFunc, "format": stdlib.FormatFunc, "join": stdlib.JoinFunc,
	"jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc, "lookup": stdlib.LookupFunc, "lower": stdlib.LowerFunc,
	"merge": stdlib.MergeFunc, "replace": stdlib.ReplaceFunc, "split": stdlib.SplitFunc, "trimprefix": stdlib.TrimPrefixFunc,
	"trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,
}

func objectOf(values map[string]cty.Value) cty.Value {
	if len(values) == 0 {
		return cty.EmptyObjectVal
	}
	return cty.ObjectVal(values)
}

// textOf is an expression's value as a text.
func textOf(expression hcl.Expression, scope *hcl.EvalContext) (text string, ok bool) {
	value, diagnostics := expression.Value(scope)
	if diagnostics.HasErrors() {
		return "", false
	}
	return scalarText(value)
}

// scalarText is a text, number or truth as a text.
func scalarText(value cty.Value) (text string, ok bool) {
	if value == cty.NilVal || !value.IsWhollyKnown() || value.IsNull() {
		return "", false
	}
	converted, err := convert.Convert(value, cty.String)
	if err != nil || converted.IsNull() {
		return "", false
	}
	return converted.AsString(), true
}

// evaluateAll evaluates attributes that may use each other by NAME.ATTRIBUTE, such as local.region. It goes
// over them until a pass evaluates no more: a circle, or what only a plan knows, stays out.
func evaluateAll(all []*hcl.Attribute, scope *hcl.EvalContext, name string) map[string]cty.Value {
	known := map[string]cty.Value{}
	for count := -1; count != len(known); {
		count = len(known)
		inner := scope.NewChild()
		inner.Variables = map[string]cty.Value{name: objectOf(known)}
		found := map[string]cty.Value{}
		for _, attribute := range all {
			if _, ok := known[attribute.Name]; ok {
				continue
			}
			if value, diagnostics := attribute.Expr.Value(inner); !diagnostics.HasErrors() {
				found[attribute.Name] = value
			}
		}
		for key, value := range found {
			known[key] = value
		}
	}
	return known
}
