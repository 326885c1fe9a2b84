// Package written edits files of YAML and JSON as people wrote them: it changes
// the fields that differ from what is wanted, and leaves every other byte as it
// is, with comments, order, quotes and indentation. It is pure. What it wrote is
// read again, and refused unless it is exactly what was wanted.
package written

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
)

// Parse reads a file: JSON by its name, else YAML. It is refused when it holds
// several documents, or what JSON cannot say.
func Parse(name string, text []byte) (any, error) {
	root, err := parse(name, text)
	if err != nil {
		return nil, err
	}
	return root.value, nil
}

// Print writes a new file.
func Print(name string, value any) []byte {
	if isJSON(name) {
		return document.Pretty(value)
	}
	w := writer{newline: "\n"}
	return append(bytes.TrimPrefix(w.block(value, 0), []byte("\n")), '\n')
}

func isJSON(name string) bool { return strings.EqualFold(path.Ext(name), ".json") }

func parse(name string, text []byte) (*node, error) {
	if len(text) > maxBytes {
		return nil, fault.New(fault.Invalid, "%s has %d bytes, at most %d are edited", name, len(text), maxBytes)
	}
	read := parseYAML
	if isJSON(name) {
		read = parseJSON
	}
	root, err := read(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s: %w", name, err).WithHint("mend the file: one document of YAML or JSON, whose values JSON can say")
	}
	return root, nil
}

// maxBytes of a file.
const maxBytes = 2 << 20

// Edit returns the file with the value that is wanted.
func Edit(name string, text []byte, wanted any) ([]byte, error) {
	root, err := parse(name, text)
	if err != nil {
		return nil, err
	}
	if equal(root.value, wanted) {
		return text, nil
	}
	w := &writer{text: text, json: isJSON(name), newline: "\n", step: 2}
	if bytes.Contains(text, []byte("\r\n")) {
		w.newline = "\r\n"
	}
	if w.json {
		w.step = jsonStep(root, text)
	}
	if err := w.rewrite(root, wanted); err != nil {
		return nil, fault.New(fault.Invalid, "%s: %w", name, err).WithHint("edit the file in its repository")
	}
	edited, err := w.apply()
	if err == nil {
		var again *node
		if again, err = parse(name, edited); err == nil && !equal(again.value, wanted) {
			err = fmt.Errorf("it would not say what is wanted")
		}
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s is written in a way in which these fields cannot be changed without changing others: %w", name, err).
			WithHint("edit the file in its repository")
	}
	return edited, nil
}

func equal(a, b any) bool { return bytes.Equal(document.Canonical(a), document.Canonical(b)) }

// node is a value and where it is written.
type node struct {
	value any
	kind  kind
	// flow: between brackets.
	flow bool
	// start and end in the text; equal: nothing is written for null.
	start, end int
	// keys and values of a map; values of a list.
	keys, values []*node
	// indent is the column of a map's keys, or of a list's dashes.
	indent int
	quote  byte
}

type kind uint8

const (
	scalar kind = iota
	mapping
	list
	// alias stands for what is written elsewhere.
	alias
)

// splice replaces a part of the text.
type splice struct {
	start, end int
	text       []byte
}

// writer gathers what is to be replaced.
type writer struct {
	text    []byte
	json    bool
	newline string
	// step is how far what is in something is indented.
	step    int
	splices []splice
}

func (w *writer) replace(start, end int, text []byte) {
	w.splices = append(w.splices, splice{start, end, text})
}

func (w *writer) apply() ([]byte, error) {
	slices.SortStableFunc(w.splices, func(a, b splice) int { return cmp.Or(a.start-b.start, a.end-b.end) })
	var text []byte
	at := 0
	for _, s := range w.splices {
		if s.start < at || s.end > len(w.text) {
			return nil, fmt.Errorf("they overlap")
		}
		text = append(append(text, w.text[at:s.start]...), s.text...)
		at = s.end
	}
	return append(text, w.text[at:]...), nil
}
