package kubernetes

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

const twiceHint = "remove one of them: readers differ in which one counts"

// Twice says which keys a file has twice in one mapping, by their lines: keys that are
// one field to kubectl, Kustomize and Helm, which keep the last and lose the others in
// silence. What cannot be read as YAML or JSON it leaves to those who read it.
func Twice(file string, text []byte) (findings []Finding) {
	find := func(line int, format string, arguments ...any) {
		findings = append(findings, Finding{File: file, Line: line, Message: fmt.Sprintf(format, arguments...), Hint: twiceHint})
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if isJSON(text) {
		next := jsonDocuments(text)
		for node, err := next(); err == nil; node, err = next() {
			twiceIn(node, "", find)
		}
		return findings
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		document := &yaml.Node{}
		if err := decoder.Decode(document); err != nil {
			return findings
		}
		twiceIn(document, "", find)
	}
}

func twiceIn(node *yaml.Node, at string, find func(int, string, ...any)) {
	switch node.Kind {
	case yaml.DocumentNode:
		for _, below := range node.Content {
			twiceIn(below, at, find)
		}
	case yaml.SequenceNode:
		for i, below := range node.Content {
			twiceIn(below, fmt.Sprintf("%s[%d]", at, i), find)
		}
	case yaml.MappingNode:
		lines := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			name, is := kubectlKey(node.Content[i])
			if !is {
				continue
			}
			line := node.Content[i].Line
			if before, twice := lines[name]; twice {
				find(line, "%s is there twice: it was at line %d before", join(at, name), before)
			} else {
				lines[name] = line
			}
			twiceIn(node.Content[i+1], join(at, name), find)
		}
	}
}
