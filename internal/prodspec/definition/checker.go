package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate/work"
)

// mostCheckers of a partition: each is a program that runs when what it reads changes.
const mostCheckers = 20

// checkerPrograms are the keys that name a checking program.
var checkerPrograms = []string{"check", string(work.WASM), string(work.Native)}

// checkerFields of a checking program.
var checkerFields = append(slices.Clone(checkerPrograms), "args", "with", "from", "types", "for_each", "severity")

// checkers reads validate.programs, after sources and generators.
func (p *parser) checkers(node *yaml.Node, d *Definition) {
	generators := map[string]bool{}
	for _, g := range d.Generators {
		generators[g.Name] = true
	}
	for _, derivation := range d.Derivations {
		if !generators[derivation.Name] {
			generators[derivation.Name] = false
		}
	}
	for _, resolver := range d.Resolvers {
		generators[resolver.Name] = false
	}
	p.eachPair(node, "validate.programs", func(key, value *yaml.Node) {
		name := p.name(key, "validate.programs")
		at := "validate.programs." + name
		if _, ok := generators[name]; ok || name == DefinitionSource || name == GenerationSource || name == TurndownSource || name == PreviewSource {
			p.at(key, at, "the name %s is taken by a generator", name).hint("choose another name")
		}
		checker := p.checker(key, value, at, d.Sources, generators)
		d.Checkers = append(d.Checkers, checker)
		d.Policy.CheckingPrograms = append(d.Policy.CheckingPrograms, checker.policy())
	})
	if len(d.Checkers) > mostCheckers {
		p.at(node, "validate.programs", "there are %d checking programs, at most %d are allowed", len(d.Checkers), mostCheckers).hint("join those that check the same")
	}
	slices.SortFunc(d.Policy.CheckingPrograms, func(a, b *intentpb.CheckingProgram) int { return cmp.Compare(a.GetName(), b.GetName()) })
}

func (p *parser) checker(key, value *yaml.Node, at string, sources []Source, generators map[string]bool) Checker {
	c := Checker{
		Generator: Generator{Name: key.Value, Line: key.Line, Check: true, File: p.file},
		Severity:  intentpb.ValidationRule_SEVERITY_ERROR,
	}
	fields := p.fields(value, at, checkerFields)
	p.checkerProgram(key, at, fields, &c.Generator)
	if node := fields["from"]; node != nil {
		p.inputs(node, at+".from", &c.Generator, sources, generators)
	} else {
		p.at(key, at+".from", "%s.from is missing", at).hint("list the sources and generators that it reads")
	}
	if node := fields["types"]; node != nil {
		for i := range p.texts(node, at+".types") {
			c.Types = append(c.Types, intent.TypeName(p.payloadType(resolve(item(node, i)), fmt.Sprintf("%s.types[%d]", at, i))))
		}
		slices.Sort(c.Types)
		if len(c.Generators) == 0 {
			p.at(node, at+".types", "%s.types says which assets it reads, and it reads those of no generator", at).hint("name a generator in from, or remove types")
		}
	}
	if node := fields["for_each"]; node != nil {
		if word := p.text(node, at+".for_each"); word != "file" {
			p.at(node, at+".for_each", "%s.for_each: %q is not known", at, word).hint("write for_each: file, or leave it out")
		}
		if c.ForEachFile = true; len(c.Sources) == 0 {
			p.at(node, at+".for_each", "%s has no source to take files from", at).hint("name a source in from")
		}
	}
	if node := fields["severity"]; node != nil {
		c.Severity = choice(p, node, at+".severity", ruleSeverities, "error, warning or hold")
	}
	return c
}

// checkerProgram reads which program checks: one of Lehr's own, a module or a native one.
func (p *parser) checkerProgram(key *yaml.Node, at string, fields map[string]*yaml.Node, g *Generator) {
	named := slices.DeleteFunc(slices.Clone(checkerPrograms), func(name string) bool { return fields[name] == nil })
	if len(named) != 1 {
		hint := fmt.Sprintf("write %s: {check: %s, from: [a source or a generator]}, or wasm: %s.wasm, or command: [./%s]; check knows %s", g.Name, work.CheckNames()[0], g.Name, g.Name, strings.Join(work.CheckNames(), ", "))
		if len(named) == 0 {
			p.at(key, at+".check", "%s.check is missing", at).hint("%s", hint)
		} else {
			p.at(key, at, "%s has more than one program: %s", at, strings.Join(named, " and ")).hint("remove all but one")
		}
		return
	}
	if node := fields["check"]; node != nil {
		g.Language, g.Program = work.Render, p.known(node, at+".check", "checking program", work.CheckNames())
		if node := fields["args"]; node != nil {
			p.at(node, at+".args", "%s.args is for modules", at).hint("write with: {KEY: VALUE}")
		}
		if fields["with"] != nil {
			p.rendererOptions(fields["with"], at+".with", g)
		}
		return
	}
	if node := fields["with"]; node != nil {
		p.at(node, at+".with", "%s.with is for checking programs of Lehr's own", at).hint("a module takes args: [text], a command its arguments after its name")
		delete(fields, "with")
	}
	p.language(key, at, fields, g)
}

// policy is what the policy keeps of a checking program.
func (c Checker) policy() *intentpb.CheckingProgram {
	message := &intentpb.CheckingProgram{Name: c.Name, Program: c.Program, Arguments: c.Arguments, From: slices.Concat(c.Sources, c.Generators), Severity: c.Severity}
	for _, name := range c.Types {
		message.Types = append(message.Types, string(name))
	}
	return message
}
