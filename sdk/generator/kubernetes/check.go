package kubernetes

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

const twiceHint = "remove one of them: readers differ in which one counts"

// Check says what of a file Kustomize and Helm would read wrongly without a word, by its
// lines: a key that is twice in one mapping, of which they lose one, and an alias within
// its own anchor, which Kustomize follows for ever. What cannot be read as YAML or JSON
// at all it leaves to those who read it.
func Check(file string, text []byte) (findings []Finding) {
	c := &checker{file: file, ancestors: map[*yaml.Node]bool{}}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if isJSON(text) {
		next := jsonDocuments(text)
		for node, err := next(); err == nil; node, err = next() {
			c.node(node, "")
		}
		return c.findings
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		document := &yaml.Node{}
		if err := decoder.Decode(document); err != nil {
			return c.findings
		}
		c.node(document, "")
	}
}

// checker is a walk through a file; ancestors are the nodes around the present one.
type checker struct {
	file      string
	findings  []Finding
	ancestors map[*yaml.Node]bool
}

func (c *checker) wrong(line int, hint, format string, arguments ...any) {
	c.findings = append(c.findings, Finding{File: c.file, Line: line, Message: fmt.Sprintf(format, arguments...), Hint: hint})
}

func (c *checker) node(node *yaml.Node, at string) {
	c.ancestors[node] = true
	defer delete(c.ancestors, node)
	switch node.Kind {
	case yaml.AliasNode:
		if c.ancestors[node.Alias] {
			c.wrong(node.Line, "write out what is meant", "%sis an alias within its own anchor: the value has no end", subject(at))
		}
	case yaml.DocumentNode:
		for _, child := range node.Content {
			c.node(child, at)
		}
	case yaml.SequenceNode:
		for i, child := range node.Content {
			c.node(child, fmt.Sprintf("%s[%d]", at, i))
		}
	case yaml.MappingNode:
		c.mapping(node, at)
	}
}

func (c *checker) mapping(node *yaml.Node, at string) {
	lines := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, ok := kubectlKey(node.Content[i])
		if !ok {
			continue
		}
		line := node.Content[i].Line
		if first, duplicate := lines[name]; duplicate {
			c.wrong(line, twiceHint, "%s is there twice: it was at line %d before", join(at, name), first)
		} else {
			lines[name] = line
		}
		c.node(node.Content[i+1], join(at, name))
	}
}
