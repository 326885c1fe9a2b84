// Command lehr-terraform-types is the checking program terraform-types: it holds modules of
// Terraform to the schemas of their providers, as "terraform providers schema -json" writes them,
// and to what they declare themselves. It starts no Terraform and no provider, and asks nobody,
// so that it runs in a sandbox. Lehr starts it; it gives findings.
package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"lehr.dev/sdk/generator"
)

func main() { generator.Main(check) }

// mostFindings of a run are told.
const mostFindings = 200

// check reads the schemas, then each folder with files of Terraform's language.
func check(in *generator.Input, out *generator.Output) error {
	options, err := in.Options("require_schemas", "if_none")
	if err != nil {
		return err
	}
	require, err := options.One("require_schemas", "false")
	if err != nil {
		return err
	}
	if require != "true" && require != "false" {
		return fmt.Errorf("with: {require_schemas: %s}: write true or false", require)
	}
	passesNone, err := options.PassesNone()
	if err != nil {
		return err
	}
	names, err := in.Files()
	if err != nil {
		return err
	}
	c := &checker{out: out, known: newSchemas(), modules: map[string]*module{}, withoutSchema: map[string]place{}}
	for _, name := range names {
		if err := c.add(in, name); err != nil {
			return err
		}
	}
	if len(c.modules) == 0 && passesNone {
		return nil
	}
	if len(c.modules) == 0 {
		out.Error("let from name a source that lists *.tf", "nothing that it was given is a module of Terraform")
		return nil
	}
	for _, folder := range sortedKeys(c.modules) {
		c.checkModule(c.modules[folder])
	}
	c.tellWithoutSchema(require == "true")
	return nil
}

// checker holds what was read.
type checker struct {
	out     *generator.Output
	known   *schemas
	modules map[string]*module
	// withoutSchema are types of which no schema was given, with the first place of each.
	withoutSchema map[string]place
	found         int
}

// place is a line of a file.
type place struct {
	file string
	line int
}

// add reads a file: a schema, or one of a module.
func (c *checker) add(in *generator.Input, name string) error {
	isModule := strings.HasSuffix(name, ".tf") || strings.HasSuffix(name, ".tf.json")
	isJSON := strings.HasSuffix(name, ".json")
	if !isModule && !isJSON {
		return nil
	}
	text, err := in.Read(name)
	if err != nil {
		return err
	}
	switch {
	case isModule:
		folder := path.Dir(name)
		if c.modules[folder] == nil {
			c.modules[folder] = newModule(folder)
		}
		c.read(c.modules[folder], name, text)
	default:
		return c.known.add(name, text)
	}
	return nil
}

// fail tells a finding, unless there are many already.
func (c *checker) fail(at place, hint, format string, arguments ...any) {
	switch c.found++; {
	case c.found < mostFindings:
		c.out.At(at.file, at.line).Error(hint, format, arguments...)
	case c.found == mostFindings:
		c.out.Error("mend those, and build again", "there are more than %d findings", mostFindings)
	}
}

// tellWithoutSchema says what could not be held to a schema.
func (c *checker) tellWithoutSchema(isRequired bool) {
	const hint = "write them beside the module, where terraform init was run: terraform providers schema -json > providers.schema.json; and let a source list that file"
	for _, name := range sortedKeys(c.withoutSchema) {
		at := c.withoutSchema[name]
		if isRequired {
			c.fail(at, hint, "no schema was given that has the type %s", name)
		} else {
			c.out.At(at.file, at.line).Warn(hint, "no schema was given that has the type %s: it is not checked", name)
		}
	}
}

func sortedKeys[V any](values map[string]V) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
