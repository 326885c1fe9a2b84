// Package kubectl reads manifests as kubectl does, by its own libraries, and makes
// documents to read. Tests compare what renderers read with it. No program uses it.
package kubectl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Read gives the objects of a file, as kubectl apply -f sends them: split into
// documents, made JSON by sigs.k8s.io/yaml, and decoded without a schema.
func Read(text []byte) ([]map[string]any, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var objects []map[string]any
	for {
		var raw runtime.RawExtension
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		raw.Raw = bytes.TrimSpace(raw.Raw)
		if len(raw.Raw) == 0 || bytes.Equal(raw.Raw, []byte("null")) {
			continue
		}
		object, _, err := unstructured.UnstructuredJSONScheme.Decode(raw.Raw, nil, nil)
		if err != nil {
			return nil, err
		}
		one, isOne := object.(*unstructured.Unstructured)
		if !isOne {
			return nil, fmt.Errorf("a %T is no single object", object)
		}
		objects = append(objects, one.Object)
	}
}

// Same says where two JSON values differ; empty: they do not. Numbers are compared
// by value, and integers by all their digits.
func Same(a, b any) string {
	left, right := text(a), text(b)
	if left == right {
		return ""
	}
	return fmt.Sprintf("%s\nis not\n%s", left, right)
}

func text(value any) string {
	var to bytes.Buffer
	encoder := json.NewEncoder(&to)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err.Error()
	}
	return to.String()
}

// Value decodes JSON as the API server does: integers are int64, all else float64.
func Value(text string) (map[string]any, error) {
	var object unstructured.Unstructured
	err := object.UnmarshalJSON([]byte(text))
	return object.Object, err
}
