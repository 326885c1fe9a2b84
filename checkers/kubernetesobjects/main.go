// Command lehr-kubernetes-objects is the checking program kubernetes-objects: it reads each Kubernetes
// object as the API server of a declared version would, by tables of its kinds, and custom resources
// by their definitions. It gives findings, changes nothing, and asks no cluster. Lehr starts it in a
// sandbox.
package main

import (
	"fmt"
	"slices"
	"strings"
	_ "time/tzdata" // Zones of CronJobs: nothing of this machine is in the sandbox.

	"lehr.dev/checkers/kubernetesobjects/builtin"
	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/sdk/generator"
)

func main() { generator.Main(check) }

// check reads all objects, and then judges each, also by the others.
func check(in *generator.Input, out *generator.Output) error {
	settings, err := readSettings(in)
	if err != nil {
		return err
	}
	objects, err := readObjects(in, out)
	if err != nil {
		return err
	}
	if len(objects) == 0 && settings.passesNone {
		return nil
	}
	if len(objects) == 0 {
		out.Error("let from name what gives assets of the type lehr.kubernetes.v1.Object, or remove the check", "nothing that it was given is a Kubernetes object")
		return nil
	}
	customs, err := readCustoms(in, out, objects)
	if err != nil {
		return err
	}
	c := &checker{settings: settings, customs: customs, objects: objects}
	for _, o := range objects {
		c.object(o)
		c.tell(out, o)
	}
	c.tellUnknown(out)
	return nil
}

// settings are what lehr.yaml says in with.
type settings struct {
	version builtin.Version
	// definitionsRequired makes an error of a custom resource whose definition is not there.
	definitionsRequired bool
	// passesNone: no objects at all are no error.
	passesNone bool
}

func readSettings(in *generator.Input) (s settings, err error) {
	options, err := in.Options("definitions", "version", "if_none")
	if err != nil {
		return s, err
	}
	tables, err := builtin.Load()
	if err != nil {
		return s, err
	}
	version, err := options.One("version", "")
	if err != nil {
		return s, err
	}
	if version == "" {
		return s, fmt.Errorf("with does not name the version of Kubernetes that the cluster has: write with: {version: %q}; there are tables of %s", tables.Versions()[0], strings.Join(tables.Versions(), ", "))
	}
	if s.version, err = tables.Version(version); err != nil {
		return s, fmt.Errorf("with.version: %w", err)
	}
	definitions, err := options.One("definitions", "optional")
	if err != nil {
		return s, err
	}
	if definitions != "optional" && definitions != "required" {
		return s, fmt.Errorf("with: {definitions: %s}: write optional or required", definitions)
	}
	s.definitionsRequired = definitions == "required"
	s.passesNone, err = options.PassesNone()
	return s, err
}

// checker judges objects. What it finds of the present one is in found.
type checker struct {
	settings settings
	customs  *customs
	objects  []*object
	found    []finding
	// unknown objects by the kind of which there is no definition.
	unknown map[string][]*object
}

// finding is about a value within an object, by its path.
type finding struct {
	path          []string
	message, hint string
	warning       bool
}

// mostFindings of one object are told.
const mostFindings = 30

func (c *checker) wrong(path []string, hint, format string, arguments ...any) {
	c.found = append(c.found, finding{slices.Clone(path), fmt.Sprintf(format, arguments...), hint, false})
}

func (c *checker) warn(path []string, hint, format string, arguments ...any) {
	c.found = append(c.found, finding{slices.Clone(path), fmt.Sprintf(format, arguments...), hint, true})
}

// object judges one: by the tables, by its definition, or not at all.
func (c *checker) object(o *object) {
	c.found = nil
	if !c.served(o) {
		return
	}
	if kind, ok := c.settings.version.Struct(o.key); ok {
		c.structure(o.value, kind, c.settings.version.TypeName(o.key), nil)
	} else if kind, ok := c.customs.kinds[o.key]; ok {
		c.custom(o, kind)
	} else if !c.otherVersion(o) && !c.customs.unread[o.key] {
		if c.unknown == nil {
			c.unknown = map[string][]*object{}
		}
		c.unknown[o.key] = append(c.unknown[o.key], o)
	}
	c.metadata(o)
	c.workload(o)
	c.schedule(o)
	c.subjects(o)
	c.selection(o)
}

// tell what was found of an object: errors first, where there is too much.
func (c *checker) tell(out *generator.Output, o *object) {
	slices.SortStableFunc(c.found, func(a, b finding) int {
		if a.warning != b.warning {
			return map[bool]int{false: -1, true: 1}[a.warning]
		}
		return slices.Compare(a.path, b.path)
	})
	for i, f := range c.found {
		if i == mostFindings {
			out.About(o.asset, "payload.json", "", 0).Warn("mend those that are told first", "%d more findings of this object are not told", len(c.found)-i)
			return
		}
		at := out.AboutValue(o.asset, "payload.json"+shown(f.path), o.written(f.path), f.path)
		if f.warning {
			at.Warn(f.hint, "%s", f.message)
		} else {
			at.Error(f.hint, "%s", f.message)
		}
	}
}

// tellUnknown says once of each kind that nothing of its objects was read.
func (c *checker) tellUnknown(out *generator.Output) {
	for _, key := range sortedKeys(c.unknown) {
		objects := c.unknown[key]
		at := out.AboutValue(objects[0].asset, "payload.json", "", []string{"kind"})
		const hint = "let the check's from name a source with its CustomResourceDefinition"
		message := fmt.Sprintf("%s is no kind of Kubernetes %s, and its definition is not here: the content of its objects (%d) is not checked", builtin.Named(key), c.settings.version.Name, len(objects))
		if c.settings.definitionsRequired {
			at.Error(hint, "%s", message)
		} else {
			at.Warn(hint, "%s", message)
		}
	}
}

var objectType = string((&kubernetespb.Object{}).ProtoReflect().Descriptor().FullName())
