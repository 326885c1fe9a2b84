package rule

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
	"google.golang.org/protobuf/proto"
)

// The limit on costs is looked at after each step, so a single step must be
// bounded by itself.
const (
	// maxLength of a text that is made, in bytes, and maxElements of a list.
	maxLength   = 1 << 20
	maxElements = 10_000
	// maxWeight of what is compared: values within values can be written
	// shortly and be larger than any memory.
	maxWeight = 20_000
	// maxPattern is the size of a regular expression's program, and maxSteps
	// that times the length of a text.
	maxPattern = 300
	maxSteps   = 5_000_000
)

const boundedMatches = "matches within limits"

// guard replaces the operations whose one step may take long by such that
// refuse to.
func guard(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := node.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 2 {
		return node, nil
	}
	switch call.Function() {
	case operators.Equals:
		return guarded(call, func(left, right ref.Val) ref.Val { return compare(left, right) }), nil
	case operators.NotEquals:
		return guarded(call, func(left, right ref.Val) ref.Val {
			equal := compare(left, right)
			if types.IsUnknownOrError(equal) {
				return equal
			}
			return types.Bool(equal != types.True)
		}), nil
	case operators.In:
		return guarded(call, contains), nil
	case operators.Add:
		return guarded(call, add), nil
	case overloads.Matches:
		return guardMatch(call)
	}
	return node, nil
}

func guarded(call interpreter.InterpretableCall, do func(left, right ref.Val) ref.Val) interpreter.InterpretableCall {
	var operation functions.FunctionOp = func(values ...ref.Val) ref.Val {
		if len(values) != 2 {
			return types.NoSuchOverloadErr()
		}
		return do(values[0], values[1])
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), operation)
}

func refuse(format string, arguments ...any) ref.Val {
	return types.WrapErr(fmt.Errorf("%s: it %w", fmt.Sprintf(format, arguments...), errLimit))
}

func compare(left, right ref.Val) ref.Val {
	if min(weight(left, maxWeight), weight(right, maxWeight)) >= maxWeight {
		return refuse("comparing values of more than %d parts", maxWeight)
	}
	return types.Equal(left, right)
}

func contains(element, holder ref.Val) ref.Val {
	container, ok := holder.(traits.Container)
	if !ok {
		return types.ValOrErr(holder, "no such overload")
	}
	if _, ok := holder.(traits.Mapper); !ok && weight(element, maxWeight) > 1 && weight(holder, maxWeight) >= maxWeight {
		return refuse("looking through more than %d parts", maxWeight)
	}
	return container.Contains(element)
}

func add(left, right ref.Val) ref.Val {
	switch left := left.(type) {
	case types.String:
		if right, ok := right.(types.String); ok && len(left)+len(right) > maxLength {
			return refuse("making a text of more than %d bytes", maxLength)
		}
	case types.Bytes:
		if right, ok := right.(types.Bytes); ok && len(left)+len(right) > maxLength {
			return refuse("making more than %d bytes", maxLength)
		}
	case traits.Lister:
		if right, ok := right.(traits.Lister); ok && left.Size().(types.Int)+right.Size().(types.Int) > maxElements {
			return refuse("making a list of more than %d elements", maxElements)
		}
	}
	adder, ok := left.(traits.Adder)
	if !ok {
		return types.MaybeNoSuchOverloadErr(left)
	}
	return adder.Add(right)
}

// weight counts the parts of a value, up to a number.
func weight(value ref.Val, most int) int {
	switch value := value.(type) {
	case traits.Mapper:
		count := 1
		for all := value.Iterator(); count < most && all.HasNext() == types.True; {
			key := all.Next()
			part, _ := value.Find(key)
			count += 1 + weight(part, most-count)
		}
		return count
	case traits.Lister:
		count := 1
		for all := value.Iterator(); count < most && all.HasNext() == types.True; {
			count += weight(all.Next(), most-count)
		}
		return count
	case types.String:
		return 1 + len(value)/100
	case types.Bytes:
		return 1 + len(value)/100
	}
	if value == nil {
		return 1
	}
	if message, ok := value.Value().(proto.Message); ok {
		return 1 + proto.Size(message)/10
	}
	return 1
}

// guardMatch compiles the pattern, which resolveNames found to be a literal.
func guardMatch(call interpreter.InterpretableCall) (interpreter.InterpretableV2, error) {
	literal, ok := call.Args()[1].(interpreter.InterpretableConst)
	if !ok {
		return nil, fmt.Errorf("the pattern of matches is not a literal")
	}
	text, _ := literal.Value().(types.String)
	pattern, err := regexp.Compile(string(text))
	if err != nil {
		return nil, err
	}
	size, err := patternSize(string(text))
	if err != nil {
		return nil, err
	}
	// Under its own name, cel-go would replace it by one that has no limit.
	renamed := interpreter.NewCall(call.ID(), boundedMatches, "", call.Args(), nil)
	return guarded(renamed, func(input, _ ref.Val) ref.Val {
		text, ok := input.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(input)
		}
		if len(text)*size > maxSteps {
			return refuse("matching %d bytes with this pattern", len(text))
		}
		return types.Bool(pattern.MatchString(string(text)))
	}), nil
}

// patternSize is about how large the program of a regular expression is; it
// is found without building the program.
func patternSize(text string) (int, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return nodes(parsed), nil
}

func nodes(pattern *syntax.Regexp) int {
	const most = 1 << 30
	count := 1
	if pattern.Op == syntax.OpLiteral {
		count = len(pattern.Rune)
	}
	for _, part := range pattern.Sub {
		count = min(most, count+nodes(part))
	}
	if pattern.Op == syntax.OpRepeat {
		count = min(most, count*max(1, pattern.Min, pattern.Max))
	}
	return count
}

// costs says what operations cost that cel-go takes to cost nothing.
type costs struct{}

func (costs) CallCost(function, _ string, arguments []ref.Val, result ref.Val) *uint64 {
	cost := uint64(0)
	switch function {
	case operators.Equals, operators.NotEquals:
		cost = uint64(min(weight(arguments[0], maxWeight), weight(arguments[1], maxWeight)))
	case operators.In:
		if _, ok := arguments[1].(traits.Mapper); ok {
			return nil
		}
		cost = uint64(weight(arguments[1], maxWeight))
	case inOrder:
		if mapper, ok := arguments[0].(traits.Mapper); ok {
			cost = uint64(mapper.Size().(types.Int))
		}
	case boundedMatches:
		if text, ok := arguments[0].(types.String); ok {
			cost = 1 + uint64(len(text))
		}
	default:
		if function != overloads.Size && (function == overloads.TypeConvertDyn || !overloads.IsTypeConversionFunction(function)) {
			return textCost(function, arguments, result)
		}
		switch argument := arguments[0].(type) {
		case types.String:
			cost = 1 + uint64(len(argument)/100)
		case types.Bytes:
			cost = 1 + uint64(len(argument)/100)
		default:
			return nil
		}
	}
	return &cost
}
