package workflow

import "encoding/json"

// ReadOutputs reads what an action declares from the JSON object that a call answered: the fields of
// the same names.
func ReadOutputs(action *Action, text string) (outputs map[string]Value, problem string) {
	if len(action.Outputs) == 0 {
		return nil, ""
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return nil, "its answer is not a JSON object, which outputs are read from"
	}
	outputs = map[string]Value{}
	for _, output := range action.Outputs {
		raw, ok := fields[output.Name]
		if !ok {
			continue // The step says that it is missing.
		}
		outputs[output.Name] = Value{Type: output.Type, Text: TextOf(raw)}
	}
	return outputs, ""
}

// TextOf returns a JSON value as a text: of a text without its quotes.
func TextOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
