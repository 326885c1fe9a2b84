// Package jsonvalue reads JSON strictly and finds its way in it: nil, bool, string,
// json.Number, []any and map[string]any. No number ever becomes a float64, so that
// integers of any length keep all their digits. What readers of JSON differ about,
// such as a key that is there twice, is refused. It does no I/O.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// maxDepth bounds how deep values lie within each other.
const maxDepth = 200

// Parse reads exactly one JSON value. It refuses text that ends early, text behind
// the value, a key that is there twice, and bytes that are no UTF-8.
func Parse(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	value, err := read(decoder, 0)
	if err != nil {
		return nil, explain(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("something follows the JSON value, at byte %d", decoder.InputOffset())
	}
	return value, nil
}

// explain names what a decoder calls EOF.
func explain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON ends before it is whole")
	}
	return err
}

func read(decoder *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("values lie within more than %d others", maxDepth)
	}
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return readObject(decoder, depth)
	case json.Delim('['):
		list := []any{}
		for decoder.More() {
			value, err := read(decoder, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err := decoder.Token()
		return list, err
	}
	return token, nil
}

func readObject(decoder *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("%v is no key", token)
		}
		if _, ok := object[key]; ok {
			return nil, fmt.Errorf("the key %.60q is there twice", key)
		}
		if object[key], err = read(decoder, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token()
	return object, err
}

// Object reads one JSON object.
func Object(text []byte) (map[string]any, error) {
	value, err := Parse(text)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it is %s, not an object", Describe(value))
	}
	return object, nil
}

// Describe says for people what kind of value it is.
func Describe(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case []any:
		return "a list"
	default:
		return "an object"
	}
}

// Clone copies a value, so that a change of the copy leaves the original alone.
func Clone(value any) any {
	switch value := value.(type) {
	case []any:
		list := make([]any, len(value))
		for i, element := range value {
			list[i] = Clone(element)
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(value))
		for key, element := range value {
			object[key] = Clone(element)
		}
		return object
	}
	return value
}
