package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/secret"
)

// EncodeOutputs gives outputs, as a Resource tells them, the form of a Difference. What is no
// JSON, or holds a secret that the plugin knows, is an error.
func EncodeOutputs(values map[string]any) (list []intent.Output, err error) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text, err := json.Marshal(values[name])
		if err != nil {
			return nil, fmt.Errorf("the output %s is no JSON: %w (a defect of the plugin)", name, err)
		}
		if holdsSecret(string(text)) {
			return nil, fmt.Errorf("the output %s holds a secret, and is not told (a defect of the plugin)", name)
		}
		list = append(list, intent.Output{Name: name, Value: text})
	}
	return list, nil
}

func tellOutputs(list []intent.Output) (told []*pluginpb.Output) {
	for _, output := range list {
		told = append(told, &pluginpb.Output{Name: secret.Redact(output.Name), Json: secret.Redact(string(output.Value))})
	}
	return told
}
