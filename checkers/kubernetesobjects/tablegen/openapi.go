package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lehr.dev/checkers/kubernetesobjects/builtin"
)

// definition of a type, or of a field, in an OpenAPI document.
type definition struct {
	Ref                  string `json:"$ref"`
	Type, Format         string
	Properties           map[string]definition
	AdditionalProperties *definition
	Items                *definition
	Required             []string
	Kinds                []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
}

// maker of tables; indices of structs by their JSON.
type maker struct {
	tables  *builtin.Tables
	indices map[string]int
}

// scalars are types that have no fields, and a form of their own.
var scalars = map[string]string{
	"io.k8s.apimachinery.pkg.api.resource.Quantity":    "quantity",
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString":  "int-or-string",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Time":        "time",
	"io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":   "time",
	"io.k8s.apimachinery.pkg.runtime.RawExtension":     "any",
	"io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1":    "any",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Status":      "any",
	"io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent":  "any",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Patch":       "any",
	"io.k8s.apimachinery.pkg.apis.meta.v1.APIResource": "any",
}

// version takes the kinds of one version, and the types that these reach.
func (m *maker) version(minor string, all map[string]definition) error {
	kinds, types := map[string]string{}, map[string]int{}
	m.tables.Kinds[minor], m.tables.Types[minor] = kinds, types
	var queue []string
	for name, d := range all {
		// Options of requests and lists are of every group.
		if len(d.Kinds) != 1 || d.Properties["metadata"].Ref == "" || strings.HasSuffix(d.Properties["metadata"].Ref, ".ListMeta") {
			continue
		}
		kind := d.Kinds[0]
		kinds[kind.Group+"/"+kind.Version+"/"+kind.Kind] = short(name)
		queue = append(queue, name)
	}
	slices.Sort(queue)
	for ; len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		if _, ok := types[short(name)]; ok {
			continue
		}
		made := builtin.Struct{Fields: map[string]string{}, Required: slices.Sorted(slices.Values(all[name].Required))}
		for _, field := range slices.Sorted(maps.Keys(all[name].Properties)) {
			code, reached, err := typeCode(all, all[name].Properties[field])
			if err != nil {
				return fmt.Errorf("%s, field %s: %w", name, field, err)
			}
			made.Fields[field] = code
			if reached != "" {
				queue = append(queue, reached)
			}
		}
		text, err := json.Marshal(made)
		if err != nil {
			return err
		}
		index, ok := m.indices[string(text)]
		if !ok {
			index = len(m.tables.Structs)
			m.indices[string(text)], m.tables.Structs = index, append(m.tables.Structs, made)
		}
		types[short(name)] = index
	}
	return nil
}

// typeCode of a field's type, and the struct that it reaches, if any.
func typeCode(all map[string]definition, d definition) (code, reached string, err error) {
	if d.Ref != "" {
		return reference(all, strings.TrimPrefix(d.Ref, "#/definitions/"))
	}
	switch {
	case d.Type == "array" && d.Items != nil:
		code, reached, err = typeCode(all, *d.Items)
		return "[]" + code, reached, err
	case d.Type == "object" && d.AdditionalProperties != nil:
		code, reached, err = typeCode(all, *d.AdditionalProperties)
		return "{}" + code, reached, err
	case d.Type == "object", d.Type == "":
		return "any", "", nil
	case d.Type == "boolean":
		return "bool", "", nil
	case d.Type == "integer":
		return d.Format, "", nil
	case d.Type == "string" && d.Format == "byte":
		return "bytes", "", nil
	case d.Type == "string" || d.Type == "number":
		return d.Type, "", nil
	}
	return "", "", fmt.Errorf("the type %s is not known", d.Type)
}

func reference(all map[string]definition, name string) (code, reached string, err error) {
	d, ok := all[name]
	switch known := scalars[name]; {
	case !ok:
		return "", "", fmt.Errorf("the definition %s is not there", name)
	case known != "":
		return known, "", nil
	case len(d.Properties) == 0:
		return "any", "", nil
	}
	return "#" + short(name), name, nil
}

// short is a type's name without what all have.
func short(name string) string {
	for _, prefix := range []string{"io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s."} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest
		}
	}
	return name
}
