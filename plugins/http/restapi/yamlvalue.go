package restapi

import (
	"encoding/json"
	"fmt"
)

// jsonOf makes JSON of a value that a profile has in YAML.
func jsonOf(value any) any {
	switch value := value.(type) {
	case nil, bool, string:
		return value
	case int:
		return json.Number(fmt.Sprint(value))
	case []any:
		list := make([]any, len(value))
		for i, element := range value {
			list[i] = jsonOf(element)
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(value))
		for key, element := range value {
			object[key] = jsonOf(element)
		}
		return object
	}
	return json.Number(fmt.Sprint(value))
}
