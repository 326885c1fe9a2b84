package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"lehr.dev/checkers/kubernetesobjects/builtin"
	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/sdk/generator"
)

// object is a Kubernetes object among the assets.
type object struct {
	asset string
	// key is GROUP/VERSION/KIND.
	key                                        string
	apiVersion, kind, cluster, namespace, name string
	// value is its JSON; numbers are json.Number.
	value map[string]any
}

// readObjects reads the objects among the assets, in the order of their ids. One that is too large for an
// asset is not among what a checking program is given: a warning says so.
func readObjects(in *generator.Input, out *generator.Output) ([]*object, error) {
	assets, err := in.Assets()
	if err != nil {
		return nil, err
	}
	var objects []*object
	for _, asset := range assets {
		if asset.Type != objectType {
			continue
		}
		payload := &kubernetespb.Object{}
		if err := in.Open(asset, payload); err != nil {
			return nil, err
		}
		if payload.External != nil {
			if payload.Kind != definitionKind {
				out.About(asset.ID, "payload.external", "", 0).Warn("split the object, if it can be", "the object is too large for an asset, and is not checked")
			}
			continue
		}
		o, err := newObject(asset.ID, payload)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

func newObject(asset string, payload *kubernetespb.Object) (*object, error) {
	value, err := decode([]byte(payload.Json))
	if err != nil {
		return nil, fmt.Errorf("payload.json of %s: %w", asset, err)
	}
	return &object{
		asset: asset, key: builtin.Key(payload.ApiVersion, payload.Kind), apiVersion: payload.ApiVersion, kind: payload.Kind,
		cluster: payload.Cluster, namespace: payload.Namespace, name: payload.Name, value: value,
	}, nil
}

func decode(text []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	value := map[string]any{}
	err := decoder.Decode(&value)
	return value, err
}

// dig is the value at a path; nil: there is none.
func dig(value any, path ...string) any {
	for _, key := range path {
		switch inner := value.(type) {
		case map[string]any:
			value = inner[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(inner) {
				return nil
			}
			value = inner[i]
		default:
			return nil
		}
	}
	return value
}

func text(value any, path ...string) string {
	found, _ := dig(value, path...).(string)
	return found
}

func list(value any, path ...string) []any {
	found, _ := dig(value, path...).([]any)
	return found
}

// texts are the entries of a mapping that are texts.
func texts(value any, path ...string) map[string]string {
	fields, _ := dig(value, path...).(map[string]any)
	found := map[string]string{}
	for key, value := range fields {
		if value, ok := value.(string); ok {
			found[key] = value
		}
	}
	return found
}

// written is KEY: VALUE of a scalar in a mapping, as manifests mostly write it; else empty.
func (o *object) written(path []string) string {
	if len(path) == 0 {
		return ""
	}
	last := path[len(path)-1]
	if _, err := strconv.Atoi(last); err == nil {
		return ""
	}
	switch value := dig(o.value, path...).(type) {
	case string:
		return last + ": " + value
	case json.Number:
		return last + ": " + value.String()
	case bool:
		return last + ": " + strconv.FormatBool(value)
	}
	return ""
}

var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// shown is a path as findings have it: .spec.list[0]["a.b"].
func shown(path []string) string {
	var b bytes.Buffer
	for _, key := range path {
		if _, err := strconv.Atoi(key); err == nil {
			fmt.Fprintf(&b, "[%s]", key)
		} else if word.MatchString(key) {
			b.WriteString("." + key)
		} else {
			fmt.Fprintf(&b, "[%q]", key)
		}
	}
	return b.String()
}

// with is a path that goes on; the path itself is left as it is.
func with(path []string, keys ...string) []string { return append(slices.Clone(path), keys...) }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
