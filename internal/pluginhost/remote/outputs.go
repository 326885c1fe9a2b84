package remote

import (
	"fmt"
	"slices"
	"strings"

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
	if size := len(output.Json); size > outputs.MaxValueBytes {
		return nil, fmt.Sprintf("the output %s has %d bytes, at most %d are taken", output.Name, size, outputs.MaxValueBytes)
	}
	value, err := document.Parse([]byte(output.Json))
	if err == nil {
		text, err = document.Canonicalize([]byte(output.Json))
	}
	if err != nil {
		return nil, fmt.Sprintf("the output %s cannot be taken: %s", output.Name, err)
	}
	if value == nil {
		return nil, fmt.Sprintf("the output %s has no value", output.Name)
	}
	if hits := secrecy.Find(map[string]any{output.Name: value}); len(hits) > 0 {
		return nil, fmt.Sprintf("the output %s looks like %s: outputs become part of intent, which many may read", output.Name, hits[0].Is)
	}
	return text, ""
}
