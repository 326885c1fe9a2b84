package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"lehr.dev/checkers/kubernetesobjects/builtin"
	"lehr.dev/sdk/generator"
)

const definitionKind = "CustomResourceDefinition"

// customs are the kinds that definitions give, by GROUP/VERSION/KIND.
type customs struct {
	kinds map[string]customKind
	// unread are kinds whose definition cannot be read: that is told where it stands.
	unread map[string]bool
	// versions by GROUP/KIND.
	versions map[string][]string
}

// customKind is one version of a kind.
type customKind struct {
	schema     *structuralschema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
	deprecated string
}

// readCustoms reads definitions among the objects, and in files that the check's sources have.
func readCustoms(in *generator.Input, out *generator.Output, objects []*object) (*customs, error) {
	c := &customs{kinds: map[string]customKind{}, unread: map[string]bool{}, versions: map[string][]string{}}
	files, err := in.Files()
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if ext := path.Ext(file); ext != ".yaml" && ext != ".yml" && ext != ".json" {
			continue
		}
		content, err := in.Read(file)
		if err != nil {
			return nil, err
		}
		for _, d := range definitionsOf(content) {
			if err := c.define(d.value); err != nil {
				out.At(file, d.line).Error("correct the definition: kubectl apply --dry-run=server says more", "the CustomResourceDefinition %.63q cannot be read: %v", text(d.value, "metadata", "name"), err)
			}
		}
	}
	for _, o := range objects {
		if o.kind != definitionKind || !strings.HasPrefix(o.apiVersion, "apiextensions.k8s.io/v1") {
			continue
		}
		if err := c.define(o.value); err != nil {
			out.AboutValue(o.asset, "payload.json.spec", "", []string{"spec"}).Error("correct the definition: kubectl apply --dry-run=server says more", "the CustomResourceDefinition cannot be read: %v", err)
		}
	}
	return c, nil
}

type definitionAt struct {
	line  int
	value map[string]any
}

// definitionsOf a file: the documents that are CustomResourceDefinitions. What is no YAML has none.
func definitionsOf(content []byte) (found []definitionAt) {
	if !bytes.Contains(content, []byte(definitionKind)) {
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) || err != nil {
			return found
		}
		var value map[string]any
		if document.Decode(&value) != nil || value["kind"] != definitionKind {
			continue
		}
		written, err := json.Marshal(value)
		if err != nil {
			continue
		}
		if value, err = decode(written); err == nil {
			found = append(found, definitionAt{document.Line, value})
		}
	}
}

// define takes the kinds of a definition.
func (c *customs) define(value map[string]any) error {
	written, err := json.Marshal(value)
	if err != nil {
		return err
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(written, definition); err != nil {
		return errors.New("its fields are not those of apiextensions.k8s.io/v1")
	}
	spec := definition.Spec
	for _, version := range spec.Versions {
		key := spec.Group + "/" + version.Name + "/" + spec.Names.Kind
		if !version.Served {
			continue
		}
		c.versions[spec.Group+"/"+spec.Names.Kind] = append(c.versions[spec.Group+"/"+spec.Names.Kind], version.Name)
		kind, err := readCustom(version)
		if err != nil {
			c.unread[key] = true
			return fmt.Errorf("version %s: %w", version.Name, err)
		}
		c.kinds[key] = kind
	}
	return nil
}

func readCustom(version apiextensionsv1.CustomResourceDefinitionVersion) (kind customKind, err error) {
	if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		return kind, errors.New("it has no schema.openAPIV3Schema")
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, internal, nil); err != nil {
		return kind, err
	}
	if kind.schema, err = structuralschema.NewStructural(internal); err != nil {
		return kind, err
	}
	if problems := structuralschema.ValidateStructural(field.NewPath("openAPIV3Schema"), kind.schema); len(problems) > 0 {
		return kind, fmt.Errorf("%s: %s", problems[0].Field, problems[0].Detail)
	}
	if kind.validator, _, err = validation.NewSchemaValidator(internal); err != nil {
		return kind, err
	}
	kind.rules = cel.NewValidator(kind.schema, true, celconfig.PerCallLimit)
	if version.Deprecated {
		kind.deprecated = "this version is deprecated by its definition"
		if version.DeprecationWarning != nil {
			kind.deprecated = *version.DeprecationWarning
		}
	}
	return kind, nil
}

// custom judges an object as an API server does: defaults, unknown fields, the schema, and its rules.
func (c *checker) custom(o *object, kind customKind) {
	value := plainNumbers(o.value).(map[string]any)
	if kind.deprecated != "" {
		c.warn([]string{"apiVersion"}, "write a newer version", "%s", kind.deprecated)
	}
	options := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, unknown := range pruning.PruneWithOptions(runtime.DeepCopyJSON(value), kind.schema, true, options) {
		at := splitPath(unknown)
		if len(at) == 0 {
			continue
		}
		parent := at[:len(at)-1]
		if schema := schemaAt(kind.schema, parent); schema != nil {
			c.unknownCustom(at, schema)
		}
	}
	defaulting.Default(value, kind.schema)
	for _, problem := range validation.ValidateCustomResource(nil, value, kind.validator) {
		c.refused(problem)
	}
	for _, problem := range listtype.ValidateListSetsAndMaps(nil, kind.schema, value) {
		c.refused(problem)
	}
	if kind.rules != nil && len(c.found) == 0 {
		problems, _ := kind.rules.Validate(context.Background(), nil, kind.schema, value, nil, celconfig.RuntimeCELCostBudget)
		for _, problem := range problems {
			c.refused(problem)
		}
	}
}

func (c *checker) unknownCustom(at []string, schema *structuralschema.Structural) {
	hint := "remove it, or read the definition"
	if near := nearest(at[len(at)-1], sortedKeys(schema.Properties)); near != "" {
		hint = "did you mean " + near + "?"
	}
	c.wrong(at, hint, "the definition of the kind knows no such field here")
}

// refused says what a library of Kubernetes has against a value, without the value.
func (c *checker) refused(problem *field.Error) {
	detail := problem.Detail
	if detail == "" {
		detail = "its definition refuses it"
	}
	at := splitPath(problem.Field)
	if problem.Type == field.ErrorTypeRequired {
		c.wrong(at[:max(0, len(at)-1)], "write it", "has no %s, which its definition requires", strings.TrimPrefix(shown(at[max(0, len(at)-1):]), "."))
		return
	}
	hint := "write what the definition of the kind allows"
	if problem.Type == field.ErrorTypeNotSupported {
		hint, detail = detail, "is none of the values that its definition allows"
	}
	c.wrong(at, hint, "%s: %s", strings.ToLower(problem.Type.String()), detail)
}

// schemaAt follows a path into a schema; nil: it leads nowhere.
func schemaAt(schema *structuralschema.Structural, path []string) *structuralschema.Structural {
	for _, key := range path {
		switch property, ok := schema.Properties[key]; {
		case ok:
			schema = &property
		case schema.Items != nil:
			schema = schema.Items
		case schema.AdditionalProperties != nil && schema.AdditionalProperties.Structural != nil:
			schema = schema.AdditionalProperties.Structural
		default:
			return nil
		}
	}
	return schema
}

// splitPath reads a path as libraries of Kubernetes write it: spec.list[0].labels[a.b].
func splitPath(written string) (path []string) {
	for written != "" && written != "<nil>" {
		if rest, ok := strings.CutPrefix(written, "["); ok {
			key, after, _ := strings.Cut(rest, "]")
			path, written = append(path, strings.Trim(key, `"`)), strings.TrimPrefix(after, ".")
			continue
		}
		end := strings.IndexAny(written, ".[")
		if end < 0 {
			return append(path, written)
		}
		path = append(path, written[:end])
		written = strings.TrimPrefix(written[end:], ".")
	}
	return path
}

// plainNumbers are numbers as libraries of Kubernetes have them: int64, else float64.
func plainNumbers(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		float, _ := value.Float64() // It was read as JSON.
		return float
	case []any:
		made := make([]any, len(value))
		for i := range value {
			made[i] = plainNumbers(value[i])
		}
		return made
	case map[string]any:
		made := make(map[string]any, len(value))
		for key := range value {
			made[key] = plainNumbers(value[key])
		}
		return made
	}
	return value
}

// versionsOf a custom kind, for who wrote another.
func (c *customs) versionsOf(key string) []string { return c.versions[groupKind(key)] }

// otherVersion says that a kind is defined in other versions only.
func (c *checker) otherVersion(o *object) bool {
	versions := c.customs.versionsOf(o.key)
	if len(versions) == 0 || c.customs.unread[o.key] {
		return false
	}
	c.wrong([]string{"apiVersion"}, "write "+groupOfKey(o.key)+"/"+versions[0], "the definition of the kind does not serve %s", builtin.Named(o.key))
	return true
}
