package written

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/document"
)

// rewrite makes a node say what is wanted, by the fewest changes.
func (w *writer) rewrite(n *node, wanted any) error {
	if equal(n.value, wanted) {
		return nil
	}
	if reusable(n, wanted) && n.kind != scalar {
		if target, ok := wanted.(map[string]any); ok {
			return w.mapping(n, target)
		}
		return w.list(n, wanted.([]any))
	}
	w.whole(n, wanted)
	return nil
}

func (w *writer) mapping(n *node, target map[string]any) error {
	removed := make([]bool, len(n.keys))
	added := maps.Clone(target)
	for i, key := range n.keys {
		name := key.value.(string)
		wanted, stays := target[name]
		if delete(added, name); !stays {
			removed[i] = true
			continue
		}
		if err := w.value(n, i, wanted); err != nil {
			return err
		}
	}
	if err := w.removeAll(n, removed); err != nil {
		return err
	}
	var entries [][]byte
	for _, name := range slices.Sorted(maps.Keys(added)) {
		entries = append(entries, w.entry(n, name, added[name]))
	}
	return w.insert(n, entries, lastKept(removed))
}

// lastKept is the last that is not gone.
func lastKept(removed []bool) int {
	for i := len(removed) - 1; i >= 0; i-- {
		if !removed[i] {
			return i
		}
	}
	return -1
}

// value rewrites what a key has.
func (w *writer) value(n *node, i int, wanted any) error {
	inner := n.values[i]
	switch {
	case equal(inner.value, wanted):
		return nil
	case n.flow || w.json || inner.flow && len(inner.values) > 0 || reusable(inner, wanted) || inner.kind == alias && isScalar(wanted):
		return w.rewrite(inner, wanted)
	}
	// What is behind the colon becomes another kind of thing.
	colon := w.colon(n.keys[i].end)
	if colon < 0 {
		return fmt.Errorf("the colon behind the key %q is not found", n.keys[i].value)
	}
	w.replaceValue(colon, inner, wanted, n.indent)
	return nil
}

// reusable: a map or list stays one, and what is in it changes.
func reusable(n *node, wanted any) bool {
	switch to := wanted.(type) {
	case map[string]any:
		return n.kind == mapping && len(n.keys) > 0 && slices.ContainsFunc(n.keys, func(key *node) bool { _, stays := to[key.value.(string)]; return stays })
	case []any:
		return n.kind == list && len(n.values) > 0 && len(to) > 0
	}
	return n.kind == scalar && n.start != n.end
}

func isScalar(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return true
}

// colon is behind a key's.
func (w *writer) colon(at int) int {
	for at < len(w.text) && (w.text[at] == ' ' || w.text[at] == '\t') {
		at++
	}
	if at >= len(w.text) || w.text[at] != ':' {
		return -1
	}
	return at + 1
}

// replaceValue writes a value of a block behind its colon, in the place of what is
// there; a comment on that line stays, in front of what begins on others.
func (w *writer) replaceValue(offset int, inner *node, wanted any, indent int) {
	text := w.block(wanted, indent+w.step)
	start, end := inner.start, inner.end
	if start == end {
		start, end = offset, offset
	}
	newline := bytes.IndexByte(w.text[offset:max(start, offset)], '\n')
	switch {
	case newline < 0 && isScalar(wanted) && start > offset:
		w.replace(start, end, bytes.TrimPrefix(text, []byte(" ")))
	case newline < 0 && isScalar(wanted):
		w.replace(offset, end, text)
	case newline < 0:
		w.replace(offset, end, nil)
		w.replace(w.lineEnd(end), w.lineEnd(end), text)
	case isScalar(wanted): // What is there begins on a line of its own.
		w.replace(offset, offset, text)
		w.replace(w.trimmed(offset+newline), w.lineEnd(end), nil)
	default:
		w.replace(w.trimmed(offset+newline), end, text)
	}
}

// trimmed is where a line ends that is followed by a newline there.
func (w *writer) trimmed(newline int) int {
	if newline > 0 && w.text[newline-1] == '\r' {
		return newline - 1
	}
	return newline
}

// lineEnd is the end of a place's line, without its newline.
func (w *writer) lineEnd(at int) int {
	next := bytes.IndexByte(w.text[at:], '\n')
	if next < 0 {
		return len(w.text)
	}
	return w.trimmed(at + next)
}

// whole replaces all of a node.
func (w *writer) whole(n *node, wanted any) {
	text := w.scalarOrFlow(wanted, n)
	switch indent, ok := indentOf(w.text, n.start); {
	case w.json:
		text = w.jsonValue(wanted, n.start)
	case n.start == n.end:
		text = append([]byte(" "), text...)
	case !n.flow && !isScalar(wanted) && ok:
		text = bytes.TrimLeft(bytes.TrimPrefix(w.block(wanted, len(indent)), []byte(w.newline)), " ")
	}
	w.replace(n.start, n.end, text)
}

// list changes, removes and inserts elements between those that are the same at
// the beginning and the end.
func (w *writer) list(n *node, target []any) error {
	prefix, same := 0, min(len(n.values), len(target))
	for prefix < same && equal(n.values[prefix].value, target[prefix]) {
		prefix++
	}
	suffix := 0
	for suffix < same-prefix && equal(n.values[len(n.values)-1-suffix].value, target[len(target)-1-suffix]) {
		suffix++
	}
	olds, news := len(n.values)-suffix, len(target)-suffix
	removed := make([]bool, len(n.values))
	for i := prefix; i < olds; i++ {
		if i >= news {
			removed[i] = true
			continue
		}
		if err := w.element(n, i, target[i]); err != nil {
			return err
		}
	}
	if err := w.removeAll(n, removed); err != nil {
		return err
	}
	var entries [][]byte
	for i := olds; i < news; i++ {
		entries = append(entries, w.item(n, target[i]))
	}
	return w.insert(n, entries, olds-1)
}

// element rewrites one of a list.
func (w *writer) element(n *node, i int, wanted any) error {
	inner := n.values[i]
	if n.flow || w.json || inner.flow || reusable(inner, wanted) {
		return w.rewrite(inner, wanted)
	}
	dash := w.dash(inner.start)
	if dash < 0 {
		return fmt.Errorf("the dash before an element is not found")
	}
	text := w.item(n, wanted)
	w.replace(dash, inner.end, bytes.TrimLeft(bytes.TrimPrefix(text, []byte(w.newline)), " "))
	return nil
}

// dash is that before an element.
func (w *writer) dash(at int) int {
	for at--; at >= 0; at-- {
		switch w.text[at] {
		case '-':
			return at
		case ' ', '\t', '\r', '\n':
		default:
			return -1
		}
	}
	return -1
}

// removeAll removes entries of a map or elements of a list, not all of them.
func (w *writer) removeAll(n *node, removed []bool) error {
	last := lastKept(removed)
	for i := range removed {
		if !removed[i] {
			continue
		}
		start := n.values[i].start
		if n.kind == mapping {
			start = n.keys[i].start
		}
		if n.flow || w.json {
			w.removeFlow(n, i, start, last)
			continue
		}
		if n.kind == list {
			if start = w.dash(start); start < 0 {
				return fmt.Errorf("the dash before an element is not found")
			}
		}
		if err := w.removeBlock(n, i, start); err != nil {
			return err
		}
	}
	return nil
}

// removeFlow removes an entry with the comma that is before it; of those before
// the first that stays, with the one behind.
func (w *writer) removeFlow(n *node, i, start, last int) {
	if i > last {
		// Behind the last that stays all go, with their commas.
		w.replace(n.values[i-1].end, n.values[i].end, nil)
		return
	}
	next := n.values[i+1].start
	if n.kind == mapping {
		next = n.keys[i+1].start
	}
	w.replace(start, next, nil)
}

// removeBlock removes the lines of an entry; comments on lines of their own stay.
func (w *writer) removeBlock(n *node, i, start int) error {
	end := max(n.values[i].end, start)
	if n.kind == mapping {
		end = max(end, w.colon(n.keys[i].end))
	}
	end = w.lineEnd(end)
	indent, ok := indentOf(w.text, start)
	if ok {
		line := start - len(indent)
		if end < len(w.text) {
			end += bytes.IndexByte(w.text[end:], '\n') + 1
		} else if line > 0 {
			line = w.trimmed(line - 1)
		}
		w.replace(line, end, nil)
		return nil
	}
	// It is behind a dash, and the next one takes its place.
	if i+1 >= len(n.values) {
		return fmt.Errorf("an element would have nothing left")
	}
	next := n.values[i+1].start
	if n.kind == mapping {
		next = n.keys[i+1].start
	}
	if bytes.IndexByte(w.text[end:next], '#') >= 0 {
		return fmt.Errorf("there is a comment behind the first field of an element")
	}
	w.replace(start, next, nil)
	return nil
}

// first is where a collection's first entry begins.
func (n *node) first() *node {
	if n.kind == mapping {
		return n.keys[0]
	}
	return n.values[0]
}

// insert writes entries behind the one at a place; -1: before the first.
func (w *writer) insert(n *node, entries [][]byte, index int) error {
	if len(entries) == 0 {
		return nil
	}
	if index < 0 && !n.flow && !w.json {
		at := w.dash(n.values[0].start)
		if at < 0 {
			return fmt.Errorf("the dash before an element is not found")
		}
		text := bytes.TrimLeft(bytes.TrimPrefix(bytes.Join(entries, nil), []byte(w.newline)), " ")
		w.replace(at, at, append(text, w.newline+strings.Repeat(" ", n.indent)...))
		return nil
	}
	anchor := n.values[max(index, 0)]
	if !n.flow && !w.json {
		at := w.lineEnd(max(anchor.end, anchor.start))
		if n.kind == mapping {
			at = w.lineEnd(max(anchor.end, w.colon(n.keys[index].end)))
		}
		var text []byte
		for _, entry := range entries {
			text = append(text, entry...)
		}
		w.replace(at, at, text)
		return nil
	}
	separator := " "
	if indent, ok := indentOf(w.text, n.first().start); ok {
		separator = w.newline + string(indent)
	} else if w.json && len(n.values) > 1 && w.text[n.values[0].end+1] != ' ' {
		separator = ""
	}
	var text []byte
	for _, entry := range entries {
		if index < 0 {
			text = append(append(append(text, entry...), ','), separator...)
		} else {
			text = append(append(append(text, ','), separator...), entry...)
		}
	}
	if index < 0 {
		w.replace(anchor.start, anchor.start, text)
	} else {
		w.replace(anchor.end, anchor.end, text)
	}
	return nil
}

// entry is a key and its value, as they are written in a map.
func (w *writer) entry(n *node, name string, value any) []byte {
	switch {
	case w.json:
		at := n.keys[0].start
		colon := []byte(":")
		if end := w.colon(n.keys[0].end); end > 0 && end < len(w.text) && w.text[end] == ' ' || len(n.keys) == 0 {
			colon = []byte(": ")
		}
		return append(append(document.Canonical(name), colon...), w.jsonValue(value, at)...)
	case n.flow:
		return append(append(plainOr(name, 0), ": "...), w.scalarOrFlow(value, nil)...)
	}
	indent := strings.Repeat(" ", n.indent)
	return append(append([]byte(w.newline+indent), plainOr(name, 0)...), append([]byte(":"), w.block(value, n.indent+w.step)...)...)
}

// item is an element, as it is written in a list.
func (w *writer) item(n *node, value any) []byte {
	switch {
	case w.json:
		return w.jsonValue(value, n.values[0].start)
	case n.flow:
		return w.scalarOrFlow(value, nil)
	}
	return w.dashed(value, n.indent)
}

func (w *writer) dashed(value any, indent int) []byte {
	begin := w.newline + strings.Repeat(" ", indent) + "-"
	if isScalar(value) {
		return append([]byte(begin), w.block(value, 0)...)
	}
	inner := bytes.TrimLeft(bytes.TrimPrefix(w.block(value, indent+2), []byte(w.newline)), " ")
	return append([]byte(begin+" "), inner...)
}

// block is a value as it is written behind a colon: " 1", or on lines of its
// own, each of which begins with a newline.
func (w *writer) block(value any, indent int) []byte {
	if isScalar(value) {
		return append([]byte(" "), w.scalarOrFlow(value, nil)...)
	}
	var text []byte
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			text = append(append(text, w.newline+strings.Repeat(" ", indent)...), plainOr(key, 0)...)
			text = append(append(text, ':'), w.block(v[key], indent+max(w.step, 2))...)
		}
	case []any:
		for _, item := range v {
			text = append(text, w.dashed(item, indent)...)
		}
	}
	return text
}

// jsonValue is written as people do: on one line where its file is, else with a
// field a line.
func (w *writer) jsonValue(value any, at int) []byte {
	indent, _ := indentOf(w.text, at)
	if isScalar(value) || bytes.IndexByte(bytes.TrimSpace(w.text), '\n') < 0 {
		return document.Canonical(value)
	}
	step := strings.Repeat(" ", w.step)
	if bytes.HasPrefix(indent, []byte("\t")) {
		step = "\t"
	}
	return document.Indented(value, w.newline+string(indent), step)
}

// scalarOrFlow is a value on one line, quoted as the one before it was.
func (w *writer) scalarOrFlow(value any, previous *node) []byte {
	switch v := value.(type) {
	case string:
		quote := byte(0)
		if previous != nil && previous.kind == scalar && previous.quote != '|' {
			quote = previous.quote
		}
		return plainOr(v, quote)
	case map[string]any:
		var text []byte
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				text = append(text, ", "...)
			}
			text = append(append(append(text, plainOr(key, 0)...), ": "...), w.scalarOrFlow(v[key], nil)...)
		}
		return append(append([]byte("{"), text...), '}')
	case []any:
		var text []byte
		for i, item := range v {
			if i > 0 {
				text = append(text, ", "...)
			}
			text = append(text, w.scalarOrFlow(item, nil)...)
		}
		return append(append([]byte("["), text...), ']')
	case json.Number:
		return []byte(v)
	}
	return document.Canonical(value)
}

var (
	plainText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[\pL_./+][\pL\pN_./+@=~-]*( [\pL\pN_./+@=~(][\pL\pN_./+@=~()-]*)*$`)
	})
	// Words that older parsers take for true or false.
	words = regexp.MustCompile(`(?i)^(y|n|yes|no|on|off|true|false|null|~)$`)
)

// plainOr is a text: without quotes where it means the same, unless others were
// used.
func plainOr(text string, quote byte) []byte {
	switch {
	case quote == '\'' && !strings.ContainsAny(text, "\n\r\t\x00") && strings.IndexFunc(text, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == 0xfeff || r == 0x85 || r == 0x2028 || r == 0x2029
	}) < 0:
		return []byte("'" + strings.ReplaceAll(text, "'", "''") + "'")
	case quote == 0 && isPlain(text):
		return []byte(text)
	}
	return document.Canonical(text)
}

func isPlain(text string) bool {
	if !plainText().MatchString(text) || words.MatchString(text) {
		return false
	}
	var read yaml.Node
	return yaml.Unmarshal([]byte(text), &read) == nil && len(read.Content) == 1 && read.Content[0].Kind == yaml.ScalarNode &&
		read.Content[0].Tag == "!!str" && read.Content[0].Value == text
}
