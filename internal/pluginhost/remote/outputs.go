package remote

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/secrecy"
)

// checkOutputs takes over what a plugin tells of an asset in sync. What is beyond limits is
// refused as a whole: what was told before stands then.
func checkOutputs(told []*pluginpb.Output) (list []intent.Output, problem string) {
	if len(told) > outputs.MaxOutputs {
		return nil, fmt.Sprintf("its plugin tells %d outputs, at most %d are taken", len(told), outputs.MaxOutputs)
	}
	size := 0
	for _, output := range told {
		text, problem := checkOutput(output)
		if problem != "" {
			return nil, problem
		}
		size += len(text)
		list = append(list, intent.Output{Name: output.Name, Value: text})
	}
	if size > outputs.MaxAssetBytes {
		return nil, fmt.Sprintf("the outputs that its plugin tells have %d bytes, at most %d are taken", size, outputs.MaxAssetBytes)
	}
	slices.SortFunc(list, func(a, b intent.Output) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(list); i++ {
		if list[i].Name == list[i-1].Name {
			return nil, fmt.Sprintf("its plugin tells the output %s twice", list[i].Name)
		}
	}
	return list, ""
}

func checkOutput(output *pluginpb.Output) (text []byte, problem string) {
	if err := outputs.CheckName(output.GetName()); err != nil {
		return nil, err.Error()
	}
	if problem := checkValue(output.GetValue()); problem != "" {
		return nil, fmt.Sprintf("the output %s %s", output.Name, problem)
	}
	value := output.Value.AsInterface()
	text, err := json.Marshal(value)
	if err == nil {
		text, err = document.Canonicalize(text)
	}
	if err != nil {
		return nil, fmt.Sprintf("the output %s cannot be taken: %s", output.Name, err)
	}
	if len(text) > outputs.MaxValueBytes {
		return nil, fmt.Sprintf("the output %s has %d bytes, at most %d are taken", output.Name, len(text), outputs.MaxValueBytes)
	}
	if hits := secrecy.Find(map[string]any{output.Name: value}); len(hits) > 0 {
		return nil, fmt.Sprintf("the output %s looks like %s: outputs become part of intent, which many may read", output.Name, hits[0].Is)
	}
	return text, ""
}

func checkValue(value *structpb.Value) (problem string) {
	switch kind := value.GetKind().(type) {
	case nil, *structpb.Value_NullValue:
		return "has no value"
	case *structpb.Value_NumberValue:
		if math.IsNaN(kind.NumberValue) || math.IsInf(kind.NumberValue, 0) {
			return "is no number"
		}
	case *structpb.Value_ListValue:
		for _, element := range kind.ListValue.GetValues() {
			if problem := checkValue(element); problem != "" {
				return problem
			}
		}
	case *structpb.Value_StructValue:
		for _, element := range kind.StructValue.GetFields() {
			if problem := checkValue(element); problem != "" {
				return problem
			}
		}
	}
	return ""
}
