package definition

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/prodspec/generate/work"
)

// What a checking program of a common rule reads: all sources, and what all generators give.
// Sources and generators have other names in every partition.
const (
	AllSources    = "sources"
	AllGenerators = "generators"
)

var commonProgramFields = []string{"check", "with", "from", "types", "severity"}

// passNothing has a checking program of Lehr's own pass where nothing is given to it that it checks:
// not every partition that a rule selects has some.
const passNothing = "--if_none=pass"

// commonPrograms reads the checking programs of a common rule.
func (p *parser) commonPrograms(node *yaml.Node, rule *intentpb.CommonRule) {
	p.eachPair(node, "validate.programs", func(key, value *yaml.Node) {
		name := p.name(key, "validate.programs")
		rule.Lines["programs."+name] = uint32(key.Line)
		program := p.commonProgram(key, value, "validate.programs."+name)
		program.Name = commonpolicy.CheckName(rule.Name, name)
		rule.Policy.CheckingPrograms = append(rule.Policy.CheckingPrograms, program)
	})
	if n := len(rule.Policy.CheckingPrograms); n > mostCheckers {
		p.at(node, "validate.programs", "there are %d checking programs, at most %d are allowed", n, mostCheckers).hint("join those that check the same")
	}
}

func (p *parser) commonProgram(key, value *yaml.Node, at string) *intentpb.CheckingProgram {
	program := &intentpb.CheckingProgram{From: []string{AllSources, AllGenerators}, Severity: intentpb.ValidationRule_SEVERITY_ERROR}
	for _, own := range []string{string(work.WASM), string(work.Native)} {
		if node := child(value, own); node != nil {
			p.at(node, at+"."+own, "%s.%s: a program of a partition's folder is no part of a common rule", at, own).hint("write check: and one of %s; other programs are named by each partition", strings.Join(work.CheckNames(), ", "))
			return program
		}
	}
	fields := p.fields(value, at, commonProgramFields)
	g := Generator{Name: key.Value, Line: key.Line, Check: true, File: p.file}
	p.checkerProgram(key, at, fields, &g)
	program.Program, program.Arguments = g.Program, g.Arguments
	if !slices.ContainsFunc(program.Arguments, func(text string) bool { return strings.HasPrefix(text, "--if_none=") }) {
		program.Arguments = append(program.Arguments, passNothing)
	}
	if node := fields["from"]; node != nil {
		program.From = p.texts(node, at+".from")
		for i, word := range program.From {
			if word != AllSources && word != AllGenerators {
				p.at(item(node, i), fmt.Sprintf("%s.from[%d]", at, i), "%s.from: %q is known in one partition only", at, word).hint("write from: sources, generators, or leave it out to read both")
			}
		}
	}
	if node := fields["types"]; node != nil {
		for i := range p.texts(node, at+".types") {
			program.Types = append(program.Types, p.payloadType(resolve(item(node, i)), fmt.Sprintf("%s.types[%d]", at, i)))
		}
		slices.Sort(program.Types)
	}
	if node := fields["severity"]; node != nil {
		program.Severity = choice(p, node, at+".severity", ruleSeverities, "error, warning or hold")
	}
	return program
}
