package written

import (
	"bytes"
	"encoding/json"

	"lehr.dev/internal/ground/document"
)

// parseJSON reads JSON with where each value is written.
func parseJSON(text []byte) (*node, error) {
	value, err := document.Parse(text)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	p := &jsonParser{text: text, decoder: decoder}
	return p.next(value)
}

type jsonParser struct {
	text    []byte
	decoder *json.Decoder
}

// token is the next one's place.
func (p *jsonParser) token() (start, end int, token json.Token, err error) {
	start = int(p.decoder.InputOffset())
	token, err = p.decoder.Token()
	end = int(p.decoder.InputOffset())
	for start < end && bytes.IndexByte([]byte(" \t\r\n,:"), p.text[start]) >= 0 {
		start++
	}
	return start, end, token, err
}

// next reads what is known to be valid, and to have the value.
func (p *jsonParser) next(value any) (*node, error) {
	start, end, token, err := p.token()
	if err != nil {
		return nil, err
	}
	n := &node{value: value, start: start, end: end, flow: true}
	switch token {
	case json.Delim('{'):
		n.kind = mapping
		for p.decoder.More() {
			start, end, token, err := p.token()
			if err != nil {
				return nil, err
			}
			key, _ := token.(string)
			inner, err := p.next(value.(map[string]any)[key])
			if err != nil {
				return nil, err
			}
			n.keys = append(n.keys, &node{value: key, start: start, end: end, quote: '"'})
			n.values = append(n.values, inner)
		}
		_, n.end, _, err = p.token()
	case json.Delim('['):
		n.kind = list
		for i := 0; p.decoder.More(); i++ {
			inner, err := p.next(value.([]any)[i])
			if err != nil {
				return nil, err
			}
			n.values = append(n.values, inner)
		}
		_, n.end, _, err = p.token()
	}
	return n, err
}

// jsonStep is how far a file indents.
func jsonStep(n *node, text []byte) int {
	if len(n.values) == 0 {
		return 2
	}
	indent, ok := indentOf(text, n.first().start)
	outer, _ := indentOf(text, n.start)
	if !ok || len(indent) <= len(outer) {
		return 2
	}
	return len(indent) - len(outer)
}

// indentOf is the space before a place's line; begins: and nothing else.
func indentOf(text []byte, at int) (indent []byte, begins bool) {
	line := bytes.LastIndexByte(text[:at], '\n') + 1
	end := line
	for end < len(text) && (text[end] == ' ' || text[end] == '\t') {
		end++
	}
	return text[line:min(end, at)], end >= at
}
