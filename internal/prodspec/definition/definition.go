// Package definition reads the file in which a partition is defined,
// lehr.yaml: sources, generators, guards, plugins and checks. It is strict:
// what it does not know it refuses, with the place, the field and what would
// be allowed, because a misspelt guard is no guard. It does no I/O and decides
// nothing; package prodspec hands it the bytes and runs what it says.
package definition

import (
	"slices"

	"go.yaml.in/yaml/v3"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/turndown"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/source"
)

// Definition is what a lehr.yaml says.
type Definition struct {
	Partition intent.PartitionID
	// Types is the folder of .proto files; nil: the built-in types will do.
	Types   *Source
	Sources []Source
	// Generators in an order in which each comes after those it takes from.
	Generators []Generator
	// Checkers judge what the generators give, in the order of the file.
	Checkers []Checker
	// Derivations of addons, in the order of the file.
	Derivations []Derivation
	// Resolvers of payload fields, in the order of the file.
	Resolvers []Resolver
	// Policy becomes the asset lehr/policy.
	Policy *intentpb.Policy
	// PolicyLine is where the policy begins, for findings about it.
	PolicyLine int
	// Lines of the file's sections, by their names.
	Lines map[string]int
	// PluginLines are those of what is bound to a plugin, by its type.
	PluginLines map[string]int
	// RulePlaces of the policy's rules, in their order.
	RulePlaces []RulePlaces
	// CheckPlaces of the policy's checks, in their order.
	CheckPlaces []RulePlaces
	// RolloutPlaces of the policy's rollouts, in their order; of a stage
	// "stages[0]" and "stages[0].where".
	RolloutPlaces []RulePlaces
	// DeliveryPlaces of the policy's applications, in their order; of an environment
	// "environments.prod", and of its filter "environments.prod.assets".
	DeliveryPlaces []RulePlaces
	// Workflows that can be started in the partition, by their names.
	Workflows []Workflow
	// GenerationLines are those of the rules of generations, by their names.
	GenerationLines map[string]int
	// PreviewLines are those of the rules of previews, by their names.
	PreviewLines map[string]int
}

// Source is a folder and the files in it.
type Source struct {
	Name string
	// Directory is relative to the definition's folder, or absolute. What lies
	// elsewhere has its name for one.
	Directory string
	Files     []string
	Line      int
	// Remote says where it lies elsewhere; nil: it is a folder of this machine.
	// Its paths are as they are written, relative ones too.
	Remote *source.Remote
}

// Generator is a program and what it takes from.
type Generator struct {
	Name     string
	Language work.Language
	// Program is a file of that language, relative to the definition's folder; or
	// a renderer's format.
	Program string
	// Arguments of a module, a native program or a renderer.
	Arguments []string
	// File is the definition's, of a renderer: it has no other.
	File string
	// Sources and Generators it reads, in the order of the file.
	Sources, Generators []string
	// ForEachFile: one run for each file of the first source; the other
	// sources and generators are seen by every run.
	ForEachFile bool
	// Keys: one run for each entry of the files of the first source, which are
	// seen by no run otherwise; nil: there is none.
	Keys *work.Keys
	// Addons that a renderer's assets are given by with:.
	Addons []Derivation
	// Check: it is a checking program, which gives findings and no assets.
	Check bool
	// Types of the assets that it sees, of a checking program; none: all.
	Types []intent.TypeName
	Line  int
}

// Checker is a checking program of a partition.
type Checker struct {
	Generator
	// Severity of the errors that it finds.
	Severity intentpb.ValidationRule_Severity
	// Rule is the common rule that asks it; empty: the definition does.
	Rule string
}

// Types resolves short and full protobuf names; schema.Set is one.
type Types interface {
	Resolve(short string) (intent.TypeName, error)
}

// Parse reads a definition. It is usable when no finding is an error.
func Parse(file string, data []byte, types Types) (Definition, []intent.Finding) {
	return ParseWithDefaults(file, data, types, nil, nil)
}

func (p *parser) parse(root *yaml.Node) (Definition, []intent.Finding) {
	d := p.definition(root)
	if len(p.findings) == 0 {
		d.Generators = p.sorted(d.Generators)
		tellOrigins(d.Generators, d.Sources)
	}
	slices.SortStableFunc(p.findings, func(a, b intent.Finding) int { return a.Line - b.Line })
	return d, p.findings[:min(len(p.findings), maxFindings)]
}

// TypesOf reads only where a definition says that its types are: the rest is
// parsed with them. Nil when it names none, or cannot be read; Parse says why.
func TypesOf(file string, data []byte) (*Source, []intent.Finding) {
	p := &parser{file: file}
	root := p.document(data)
	if root == nil {
		return nil, nil
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "types" {
			return p.typesSource(root.Content[i], resolve(root.Content[i+1])), p.findings
		}
	}
	return nil, nil
}

// Reserved names of the sources that every partition has. Those of renderers that
// are programs (work.RendererPrograms) are others.
const (
	// DefinitionSource is the definition's own file.
	DefinitionSource = "definition"
	// ProgramSource is the generators' programs.
	ProgramSource = "programs"
	// TypeSource is the .proto files.
	TypeSource = "types"
	// CommonSource is what the server's common policy asks of the partition.
	CommonSource = "common-policy"
	// TurndownSource is what people had turned down by command.
	TurndownSource = turndown.Document
	// OutputSource is what assets told that others need.
	OutputSource = outputs.Document
	// GenerationSource is what rules of generations have removed.
	GenerationSource = generation.Name
	// PreviewSource is what previews made that their template does not give any more.
	PreviewSource = branchpreview.Provided
)

var topFields = []string{"lehr", "partition", "owner", "mode", "modes", "types", "sources", "generate", "validate", "plugins", "models", "outputs", "checks", "access", "notifications", "rollouts", "validations", "generations", "delivery", "releases", "promotions", "workflows", "previews"}

func (p *parser) definition(root *yaml.Node) (d Definition) {
	policy := &intentpb.Policy{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE}
	d.Policy, d.PolicyLine = policy, 1
	d.Lines = map[string]int{}
	p.eachPair(root, "", func(key, _ *yaml.Node) { d.Lines[key.Value] = key.Line })
	fields := p.fields(root, "", topFields)
	for _, name := range []string{"lehr", "partition", "sources", "generate"} {
		if _, ok := fields[name]; !ok && len(p.findings) == 0 {
			p.at(root, name, "%s is missing", name).hint("add %s: to the file", name)
		}
	}
	if node := fields["lehr"]; node != nil {
		if version := p.text(node, "lehr"); version != "v1" {
			p.at(node, "lehr", "version %q is not known", version).hint("write lehr: v1")
		}
	}
	if node := fields["partition"]; node != nil {
		id, err := intent.ParsePartitionID(p.text(node, "partition"))
		p.check(node, "partition", err)
		d.Partition = id
	}
	if node := fields["owner"]; node != nil {
		policy.Owner = p.text(node, "owner")
	}
	if node := fields["mode"]; node != nil {
		policy.Mode = p.mode(node, "mode")
		d.PolicyLine = node.Line
	}
	if node := fields["modes"]; node != nil {
		policy.TypeModes = p.typeModes(node)
	}
	if node := fields["types"]; node != nil {
		d.Types = p.typesSource(node, node)
	}
	d.Sources = p.sources(fields["sources"])
	p.generators(fields["generate"], &d)
	p.validation(fields["validate"], &d)
	policy.Plugins, d.PluginLines = p.plugins(fields["plugins"])
	policy.Models = p.models(fields["models"], d.PluginLines)
	policy.OutputGrants = p.outputGrants(fields["outputs"])
	p.checks(fields["checks"], &d)
	policy.Access = p.access(fields["access"])
	policy.Notifications = p.notifications(fields["notifications"])
	policy.Validations = p.validations(fields["validations"])
	p.rollouts(fields["rollouts"], &d)
	p.generations(fields["generations"], &d)
	p.deliveries(fields["delivery"], &d)
	p.releaseLines(fields["releases"], &d)
	p.trainChecks(&d)
	policy.PromotionGrants = p.promotionGrants(fields["promotions"], d.Sources)
	d.Workflows = p.workflows(fields["workflows"])
	p.previews(fields["previews"], &d)
	return d
}

// SourcesOf reads only the sources of a definition, whatever else is wrong with
// it. Sources that are wrong are among the findings.
func SourcesOf(file string, data []byte) ([]Source, []intent.Finding) {
	p := &parser{file: file}
	root := p.document(data)
	if root == nil {
		return nil, p.findings
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "sources" {
			return p.sources(resolve(root.Content[i+1])), p.findings
		}
	}
	return nil, p.findings
}
