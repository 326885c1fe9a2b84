package prodspec

import (
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate/work"
)

// addPrograms adds the checking programs of the common rules to a definition's own. What one finds
// that is only observed is a warning.
func (c common) addPrograms(d *definition.Definition) {
	for _, rule := range c.rules {
		for _, program := range rule.GetPolicy().GetCheckingPrograms() {
			checker := definition.Checker{
				Generator: definition.Generator{
					Name: program.Name, Language: work.Render, Program: program.Program, Arguments: program.Arguments, Check: true,
					File: c.policy.File, Line: commonpolicy.LineOf(rule, commonpolicy.PartOfProgram(rule, program.Name)),
				},
				Severity: program.Severity, Rule: rule.Name,
			}
			if !commonpolicy.Required(rule) {
				checker.Severity = intentpb.ValidationRule_SEVERITY_WARNING
			}
			for _, name := range program.Types {
				checker.Types = append(checker.Types, intent.TypeName(name))
			}
			if slices.Contains(program.From, definition.AllSources) {
				for _, src := range d.Sources {
					checker.Sources = append(checker.Sources, src.Name)
				}
			}
			if slices.Contains(program.From, definition.AllGenerators) {
				for _, g := range d.Generators {
					checker.Generators = append(checker.Generators, g.Name)
				}
			}
			d.Checkers = append(d.Checkers, checker)
		}
	}
}

// ownCheckers are those that the definition itself names.
func ownCheckers(d definition.Definition) []definition.Generator {
	d.Checkers = slices.DeleteFunc(slices.Clone(d.Checkers), func(c definition.Checker) bool { return c.Rule != "" })
	return checkers(d)
}
