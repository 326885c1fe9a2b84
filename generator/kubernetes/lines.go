package kubernetes

import (
	"errors"

	"go.yaml.in/yaml/v3"
)

// Lines says where a manifest has which object: its first line, by KIND/NAME,
// where there is one such. Of what cannot be read it says nothing.
func Lines(manifest []byte) map[string]int {
	lines := map[string]int{}
	next := yamlDocuments(manifest)
	for {
		document, err := next()
		if err != nil {
			return lines
		}
		value, err := (&converter{left: maxValues}).document(document)
		if _, is := errors.AsType[*problem](err); is || document.Kind != yaml.MappingNode {
			continue
		}
		fields, _ := value.(map[string]any)
		key := text(fields, "kind") + "/" + text(fields, "metadata", "name")
		if _, twice := lines[key]; twice {
			lines[key] = 0
		} else {
			lines[key] = document.Line
		}
	}
}
