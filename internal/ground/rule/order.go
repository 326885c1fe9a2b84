package rule

import (
	"cmp"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// inOrder gives the keys of a map in their order, and any other value as it is.
// No text can call it, for its name. Without it a loop meets the keys of a map
// in another order each time, so that the same sources give other intent.
const inOrder, inOrderOfAny = "@in_order", "in_order_of_any"

func orderFunction() cel.EnvOption {
	return cel.Function(inOrder, cel.Overload(inOrderOfAny, []*cel.Type{cel.DynType}, cel.DynType, cel.UnaryBinding(ordered)))
}

// ordering is the tree with every loop over what may be a map made one over
// its keys in order.
func ordering(checked *ast.AST) *ast.AST {
	if !hasLoops(checked) {
		return checked
	}
	tree := ast.Copy(checked)
	id := ast.MaxID(tree)
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(node ast.Expr) {
		if !loopsOverMap(tree, node) {
			return
		}
		id++
		tree.SetReference(id, ast.NewFunctionReference(inOrderOfAny))
		tree.SetType(id, types.DynType)
		loop := node.AsComprehension()
		node.SetKindCase(nodesOf.NewComprehension(node.ID(), nodesOf.NewCall(id, inOrder, loop.IterRange()),
			loop.IterVar(), loop.AccuVar(), loop.AccuInit(), loop.LoopCondition(), loop.LoopStep(), loop.Result()))
	}))
	return tree
}

func hasLoops(tree *ast.AST) (loops bool) {
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(node ast.Expr) {
		loops = loops || loopsOverMap(tree, node)
	}))
	return loops
}

// loopsOverMap reports whether a node is a loop, and over what may be a map.
func loopsOverMap(tree *ast.AST, node ast.Expr) bool {
	return node.Kind() == ast.ComprehensionKind && tree.GetType(node.AsComprehension().IterRange().ID()).Kind() != types.ListKind
}

func ordered(value ref.Val) ref.Val {
	mapper, ok := value.(traits.Mapper)
	if !ok {
		return value
	}
	keys := make([]ref.Val, 0, int(mapper.Size().(types.Int)))
	for all := mapper.Iterator(); all.HasNext() == types.True; {
		key := all.Next()
		if kindOfKey(key) == 0 {
			return types.NewErr("a map with a key that is %s has no order", key.Type().TypeName())
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareKeys)
	return types.NewRefValList(types.DefaultTypeAdapter, keys)
}

// compareKeys is a total order of what CEL has for keys.
func compareKeys(a, b ref.Val) int {
	if byKind := cmp.Compare(kindOfKey(a), kindOfKey(b)); byKind != 0 {
		return byKind
	}
	return int(a.(traits.Comparer).Compare(b).(types.Int))
}

// kindOfKey is 0 of what cannot be a key in CEL, though cel-go lets it be one
// where it is found at run time only.
func kindOfKey(key ref.Val) int {
	switch key.(type) {
	case types.Bool:
		return 1
	case types.Int:
		return 2
	case types.Uint:
		return 3
	case types.String:
		return 4
	}
	return 0
}
