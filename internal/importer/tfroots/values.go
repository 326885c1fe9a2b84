package tfroots

import (
	"bytes"
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"encoding/json"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/secrecy"
)

// values are those of variables that Terraform reads by itself in a root module:
// terraform.tfvars, *.auto.tfvars, and the same as JSON.
type values struct {
	all map[string]cty.Value
	// files without a secret, from the top: they are read where they lie.
	files []string
	// variables are the values of other files but for those that are secret, as after -var.
	variables map[string]string
	// secret are names of variables whose values are left out, by file.
	secret map[string][]string
	// named are files of values that only -var-file reads.
	named []string
}

func isValues(name string) bool {
	return strings.HasSuffix(name, ".tfvars") || strings.HasSuffix(name, ".tfvars.json")
}

// isReadBySelf reports whether Terraform reads a file of values without being told to.
func isReadBySelf(name string) bool {
	return name == "terraform.tfvars" || name == "terraform.tfvars.json" || strings.HasSuffix(name, ".auto.tfvars") || strings.HasSuffix(name, ".auto.tfvars.json")
}

// readValues reads them in Terraform's order, so that a later one wins.
func readValues(top string, f *folder) (*values, error) {
	v := &values{all: map[string]cty.Value{}, variables: map[string]string{}, secret: map[string][]string{}}
	names := slices.Clone(f.names)
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(orderOf(a), orderOf(b)), cmp.Compare(a, b))
	})
	for _, name := range names {
		switch at := path.Join(f.path, name); {
		case !isValues(name):
		case !isReadBySelf(name):
			v.named = append(v.named, at)
		default:
			if err := v.read(top, at, f.variables); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func orderOf(name string) int {
	switch name {
	case "terraform.tfvars":
		return 0
	case "terraform.tfvars.json":
		return 1
	}
	return 2
}

func (v *values) read(top, name string, declared map[string]variable) error {
	file, err := parse(top, name)
	if err != nil {
		return err
	}
	attributes, diagnostics := file.Body.JustAttributes()
	if diagnostics.HasErrors() {
		return invalid(diagnosis(diagnostics))
	}
	kept := map[string]string{}
	var secret []string
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		value, diagnostics := attributes[key].Expr.Value(nil)
		if diagnostics.HasErrors() {
			return invalid(diagnosis(diagnostics))
		}
		text, err := variableText(value)
		if err != nil {
			return invalid(placeOf(attributes[key].Range).String() + ": the value has no JSON: " + err.Error())
		}
		if declared[key].isSensitive || isSecret(key, value) {
			secret = append(secret, key)
			delete(v.variables, key)
			continue
		}
		v.all[key] = value
		if _, isDeclared := declared[key]; isDeclared && !value.IsNull() {
			kept[key] = text
		}
	}
	if len(secret) == 0 {
		v.files = append(v.files, name)
		return nil
	}
	v.secret[name] = secret
	maps.Copy(v.variables, kept)
	return nil
}

// variableText is a value as after -var NAME=: a text as it is, all else as JSON, which
// Terraform's language reads.
func variableText(value cty.Value) (string, error) {
	if text, ok := scalarText(value); ok {
		return text, nil
	}
	encoded, err := ctyjson.Marshal(value, value.Type())
	return string(encoded), err
}

// isSecret reports whether a value is secret by its variable's name, or has a secret in it.
func isSecret(name string, value cty.Value) bool {
	encoded, err := ctyjson.Marshal(value, value.Type())
	if err != nil {
		return true
	}
	var plain any
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	if err := decoder.Decode(&plain); err != nil {
		return true
	}
	if text, ok := plain.(string); ok && text == "" || plain == nil {
		return false
	}
	if _, isTruth := plain.(bool); isTruth {
		return false
	}
	return secrecy.Name(name) || len(secrecy.Find(map[string]any{name: plain})) > 0
}

func invalid(text string) error {
	return fault.New(fault.Invalid, "%s", text).WithHint("mend the file: terraform validate says more")
}
