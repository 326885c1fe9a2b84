package rule

import (
	"encoding/json"
	"io"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// textFunctions are the functions on texts beside those of CEL itself. They
// are bounded one by one: those of cel-go's extension make, in one step, texts
// as long as the product of two.
func textFunctions() []cel.EnvOption {
	text, texts := cel.StringType, cel.ListType(cel.StringType)
	one := func(name string, do func(string) string) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload("text_"+name, []*cel.Type{text}, text, cel.UnaryBinding(func(v ref.Val) ref.Val {
			return types.String(do(string(v.(types.String))))
		})))
	}
	return []cel.EnvOption{
		one("lowerAscii", strings.ToLower),
		one("upperAscii", strings.ToUpper),
		one("trim", strings.TrimSpace),
		cel.Function("parseJSON", cel.Overload("text_parse_json", []*cel.Type{text}, cel.DynType, cel.UnaryBinding(parseJSON))),
		cel.Function("split", cel.MemberOverload("text_split", []*cel.Type{text, text}, texts, cel.BinaryBinding(split))),
		cel.Function("join", cel.MemberOverload("text_join", []*cel.Type{texts, text}, text, cel.BinaryBinding(join))),
		cel.Function("replace", cel.MemberOverload("text_replace", []*cel.Type{text, text, text}, text, cel.FunctionBinding(replace))),
		cel.Function("substring",
			cel.MemberOverload("text_substring_from", []*cel.Type{text, cel.IntType}, text, cel.BinaryBinding(func(v, start ref.Val) ref.Val {
				return substring(v, start, types.Int(len([]rune(string(v.(types.String))))))
			})),
			cel.MemberOverload("text_substring", []*cel.Type{text, cel.IntType, cel.IntType}, text, cel.FunctionBinding(func(v ...ref.Val) ref.Val {
				return substring(v[0], v[1], v[2])
			}))),
	}
}

// textCost charges for what is read and what is made.
func textCost(function string, arguments []ref.Val, result ref.Val) *uint64 {
	switch function {
	case "parseJSON":
		read := uint64(len(arguments[0].(types.String))) / jsonBytesPerCost
		return &read
	case "lowerAscii", "upperAscii", "trim", "split", "join", "replace", "substring":
	default:
		return nil
	}
	cost := uint64(weight(result, maxWeight))
	for _, argument := range arguments {
		cost += uint64(weight(argument, maxWeight))
	}
	return &cost
}

// jsonBytesPerCost: so many bytes of JSON are read for one unit of cost.
const jsonBytesPerCost = 10

// parseJSON reads a text that is JSON, as payloads of objects have it. Integers are exact.
func parseJSON(v ref.Val) ref.Val {
	text := string(v.(types.String))
	if len(text) > maxLength {
		return refuse("reading JSON of more than %d bytes", maxLength)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return types.NewErr("the text is no JSON: %v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return types.NewErr("the text is more than one value of JSON")
	}
	return types.DefaultTypeAdapter.NativeToValue(exactNumbers(value))
}

// exactNumbers makes integers of those that are, and floating-point numbers of the others.
func exactNumbers(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		number, err := value.Float64()
		if err != nil {
			return value.String()
		}
		return number
	case []any:
		for i := range value {
			value[i] = exactNumbers(value[i])
		}
	case map[string]any:
		for name := range value {
			value[name] = exactNumbers(value[name])
		}
	}
	return value
}

func split(v, separator ref.Val) ref.Val {
	parts := strings.SplitN(string(v.(types.String)), string(separator.(types.String)), maxElements+1)
	if len(parts) > maxElements {
		return refuse("splitting a text into more than %d parts", maxElements)
	}
	return types.NewStringList(types.DefaultTypeAdapter, parts)
}

func join(v, separator ref.Val) ref.Val {
	var b strings.Builder
	for all, first := v.(traits.Lister).Iterator(), true; all.HasNext() == types.True; first = false {
		part, ok := all.Next().(types.String)
		if !ok {
			return types.NewErr("join is for lists of texts")
		}
		if !first {
			b.WriteString(string(separator.(types.String)))
		}
		b.WriteString(string(part))
		if b.Len() > maxLength {
			return refuse("making a text of more than %d bytes", maxLength)
		}
	}
	return types.String(b.String())
}

func replace(v ...ref.Val) ref.Val {
	text, old, fresh := string(v[0].(types.String)), string(v[1].(types.String)), string(v[2].(types.String))
	if length := len(text) + strings.Count(text, old)*(len(fresh)-len(old)); length > maxLength {
		return refuse("making a text of %d bytes", length)
	}
	return types.String(strings.ReplaceAll(text, old, fresh))
}

func substring(v, start, end ref.Val) ref.Val {
	runes := []rune(string(v.(types.String)))
	first, last := start.(types.Int), end.(types.Int)
	if first < 0 || last < first || last > types.Int(len(runes)) {
		return types.NewErr("a text of %d characters has no part from %d to %d", len(runes), first, last)
	}
	return types.String(runes[first:last])
}
