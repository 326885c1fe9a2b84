package kubernetes

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// documents reads the documents of a file, one after the other, until io.EOF.
func documents(file string, text []byte) func() (*yaml.Node, error) {
	if strings.HasSuffix(file, ".json") || isJSON(text) {
		return jsonDocuments(text)
	}
	return yamlDocuments(text)
}

// yamlDocuments splits text as kubectl does: at lines that begin with ---, each part
// with a newline at its end. Anything else that begins a document is refused, for
// kubectl does not read it.
func yamlDocuments(text []byte) func() (*yaml.Node, error) {
	line := 0
	return func() (*yaml.Node, error) {
		for len(text) > 0 {
			part, lines, rest := nextPart(text)
			offset := line
			line += lines
			text = rest
			node, err := onlyDocument(part)
			if errors.Is(err, io.EOF) {
				continue
			}
			if err != nil {
				located := *syntax(err, part)
				located.line += offset
				return nil, &located
			}
			move(node, offset)
			return node, nil
		}
		return nil, io.EOF
	}
}

// nextPart is the text up to the next line that begins with ---, with that of its own
// at its beginning, the number of its lines, and what follows.
func nextPart(text []byte) (part []byte, lines int, rest []byte) {
	end := 0
	for end < len(text) {
		if lines > 0 && bytes.HasPrefix(text[end:], []byte("---")) {
			break
		}
		newline := bytes.IndexByte(text[end:], '\n')
		if lines++; newline < 0 {
			return slices.Concat(text, []byte("\n")), lines, nil
		}
		end += newline + 1
	}
	return text[:end], lines, text[end:]
}

// onlyDocument is that of a part; io.EOF: it has none.
func onlyDocument(part []byte) (*yaml.Node, error) {
	if begins, ok := bytes.CutPrefix(part, []byte("---")); ok {
		first, _, _ := bytes.Cut(begins, []byte("\n"))
		if first = bytes.TrimSpace(first); len(first) > 0 && first[0] != '#' {
			return nil, &problem{1, "a line that begins with --- holds more than that: kubectl does not read it", "write --- alone on its line"}
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(part))
	document, more := &yaml.Node{}, &yaml.Node{}
	if err := decoder.Decode(document); err != nil {
		return nil, err
	}
	if err := decoder.Decode(more); errors.Is(err, io.EOF) {
		// Nothing follows.
	} else if at := bytes.Index(part, []byte("\n...")); at >= 0 {
		return nil, &problem{2 + bytes.Count(part[:at], []byte("\n")), "a document ends with ... here, and what follows does not begin with a line ---: kubectl does not read it", "write --- in place of ..."}
	} else if err != nil {
		return nil, err
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
	}
	return document.Content[0], nil
}

// move adds to the lines of a node and of all in it.
func move(node *yaml.Node, lines int) {
	if lines == 0 {
		return
	}
	node.Line += lines
	for _, child := range node.Content {
		move(child, lines)
	}
}
