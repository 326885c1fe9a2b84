package definition

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/validate"
)

func (p *parser) sources(node *yaml.Node) (list []Source) {
	p.eachPair(node, "sources", func(key, value *yaml.Node) {
		name := p.name(key, "sources")
		at := "sources." + name
		if name == DefinitionSource || name == ProgramSource || name == TypeSource || name == CommonSource || name == TurndownSource || slices.Contains(work.RendererPrograms(), name) {
			p.at(key, at, "the name %s is taken by Lehr's own source", name).hint("choose another name")
		}
		var s Source
		if kind := kindOf(value); kind != "" {
			s = p.remote(key, value, at, name, kind)
		} else {
			s = p.files(key, value, at)
		}
		if name == OutputSource && (s.Remote == nil || s.Remote.Document != name) {
			p.at(key, at, "the name %s is taken by Lehr's own document", name).hint("choose another name, or write %s: {document: %s}", name, name)
		}
		s.Name = name
		list = append(list, s)
	})
	return list
}

// files is a folder and patterns.
func (p *parser) files(key, value *yaml.Node, at string, usual ...string) Source {
	s := Source{Directory: ".", Line: key.Line, Files: usual}
	fields := p.fields(value, at, []string{"dir", "files"})
	if node := fields["dir"]; node != nil {
		s.Directory = filepath.Clean(p.text(node, at+".dir"))
	}
	node := fields["files"]
	if node == nil {
		if len(usual) == 0 {
			p.at(key, at+".files", "%s.files is missing", at).hint(`write %s: {dir: folder, files: ["*.yaml"]}`, key.Value)
		}
		return s
	}
	s.Files = p.texts(node, at+".files")
	for i, pattern := range s.Files {
		p.check(item(node, i), fmt.Sprintf("%s.files[%d]", at, i), source.CheckPattern(pattern))
	}
	return s
}

// typesSource is where the .proto files are. They have a folder of their own,
// because that is what their imports are relative to.
func (p *parser) typesSource(key, value *yaml.Node) *Source {
	s := p.files(key, value, "types", "**/*.proto")
	s.Name = TypeSource
	return &s
}

func (p *parser) generators(node *yaml.Node, d *Definition) {
	// names of the generators; false: it gives no assets.
	names := map[string]bool{}
	if node == nil {
		return
	}
	p.eachPair(node, "generate", func(key, value *yaml.Node) {
		names[key.Value] = child(value, "derive") == nil && child(value, "resolve") == nil
	})
	p.eachPair(node, "generate", func(key, value *yaml.Node) {
		name := p.name(key, "generate")
		at := "generate." + name
		if name == TurndownSource {
			p.at(key, at, "the name %s is taken by what lehr turndown writes", name).hint("choose another name")
		}
		if name == OutputSource {
			p.at(key, at, "the name %s is taken by what assets tell", name).hint("choose another name")
		}
		if name == GenerationSource {
			p.at(key, at, "the name %s is taken by what rules of generations have removed", name).hint("choose another name")
		}
		if name == PreviewSource {
			p.at(key, at, "the name %s is taken by what previews made", name).hint("choose another name")
		}
		switch {
		case names[key.Value]:
			generator := p.generator(key, value, at, d.Sources, names)
			d.Generators, d.Derivations = append(d.Generators, generator), append(d.Derivations, generator.Addons...)
		case child(value, "derive") != nil:
			derivation := p.derivation(key, value, at)
			derivation.Name = name
			d.Derivations = append(d.Derivations, derivation)
		default:
			d.Resolvers = append(d.Resolvers, p.resolver(key, value, at))
		}
	})
}

func (p *parser) generator(key, value *yaml.Node, at string, sources []Source, names map[string]bool) Generator {
	g := Generator{Name: key.Value, Line: key.Line}
	fields := p.fields(value, at, []string{"starlark", "wasm", "command", "model", "args", "render", "with", "from", "for_each"})
	p.language(key, at, fields, &g)
	if node := fields["from"]; node != nil {
		p.inputs(node, at+".from", &g, sources, names)
	} else {
		p.at(key, at+".from", "%s.from is missing", at).hint("list the sources and generators it reads")
	}
	if node := fields["for_each"]; node != nil {
		p.forEach(node, at+".for_each", &g)
		if g.Keys != nil && (g.Language == work.Model || g.Language == work.Render) {
			p.at(node, at+".for_each", "%s.for_each: models and renderers read whole files", at).hint("write for_each: file and an entry a file, or take the entries in a program of your own")
			g.Keys = nil
		}
		if len(g.Sources) == 0 {
			p.at(node, at+".for_each", "%s has no source to take files from", at).hint("name a source in from")
		}
	}
	return g
}

// forEach is file, key, or where in the files the keys are.
func (p *parser) forEach(node *yaml.Node, at string, g *Generator) {
	keys := &work.Keys{By: "name"}
	if node.Kind == yaml.MappingNode {
		fields := p.fields(node, at, []string{"key", "by"})
		g.Keys = keys
		if path := fields["key"]; path != nil {
			keys.Path = strings.Split(p.text(path, at+".key"), ".")
			if slices.Contains(keys.Path, "") {
				p.at(path, at+".key", "%s.key: %s leads nowhere", at, describe(path)).hint("write the keys that lead to the mapping, as spec.services")
			}
		} else {
			p.at(node, at+".key", "%s.key is missing", at).hint("write for_each: {key: services}, or for_each: key where the whole file is the mapping")
		}
		if byNode := fields["by"]; byNode != nil {
			keys.By = p.text(byNode, at+".by")
		}
		return
	}
	switch word := p.text(node, at); word {
	case "file":
		g.ForEachFile = true
	case "key":
		g.Keys = keys
	default:
		p.at(node, at, "%s: %q is not known", at, word).hint("write for_each: file, for_each: key or for_each: {key: services}, or leave it out")
	}
}

// child is the value of a mapping's key, or nil.
func child(node *yaml.Node, name string) *yaml.Node {
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return resolve(node.Content[i+1])
		}
	}
	return nil
}

func (p *parser) inputs(node *yaml.Node, at string, g *Generator, sources []Source, generators map[string]bool) {
	for i, name := range p.texts(node, at) {
		field := fmt.Sprintf("%s[%d]", at, i)
		node := item(node, i)
		givesAssets, ok := generators[name]
		isSource := slices.ContainsFunc(sources, func(s Source) bool { return s.Name == name })
		switch {
		case isSource && ok:
			p.at(node, field, "%q is the name of a source and of a generator", name).hint("rename one of them")
		case slices.Contains(g.Sources, name) || slices.Contains(g.Generators, name):
			p.at(node, field, "%q is named twice", name).hint("remove one")
		case isSource:
			g.Sources = append(g.Sources, name)
		case ok && !givesAssets:
			p.at(node, field, "%q adds to assets, and gives no assets", name).hint("name the generators; what they give has been added to already")
		case ok:
			g.Generators = append(g.Generators, name)
		case name != "":
			names := []string{}
			for _, s := range sources {
				names = append(names, s.Name)
			}
			for generator := range generators {
				names = append(names, generator)
			}
			slices.Sort(names)
			hint := "known: " + strings.Join(names, ", ")
			if suggestion := spell.Nearest(name, names); suggestion != "" {
				hint = "did you mean " + suggestion + "? " + hint
			}
			p.at(node, field, "there is no source or generator %q", name).hint("%s", hint)
		}
	}
}

// sorted puts each generator after those it reads, else as in the file.
func (p *parser) sorted(list []Generator) []Generator {
	var ordered []Generator
	placed := map[string]bool{}
	for len(ordered) < len(list) {
		count := len(ordered)
		for _, g := range list {
			ready := !slices.ContainsFunc(g.Generators, func(name string) bool { return !placed[name] })
			if !placed[g.Name] && ready {
				ordered, placed[g.Name] = append(ordered, g), true
			}
		}
		if len(ordered) == count {
			for _, g := range list {
				if !placed[g.Name] {
					at := "generate." + g.Name + ".from"
					p.at(&yaml.Node{Line: g.Line, Column: 1}, at, "generators take from each other in a circle, %s among them", g.Name).hint("let one of them read sources only")
				}
			}
			return nil
		}
	}
	return ordered
}

func (p *parser) validation(node *yaml.Node, d *Definition) {
	fields := p.fieldsOf(node, "validate", []string{"shrink", "rules", "programs"})
	d.Policy.Rules, d.RulePlaces = p.rules(fields["rules"])
	d.Policy.Shrink = p.shrink(fields["shrink"])
	p.checkers(fields["programs"], d)
}

func (p *parser) shrink(node *yaml.Node) *intentpb.ShrinkGuard {
	// A guard that nobody wrote is on.
	guard := validate.DefaultShrink()
	values := p.fieldsOf(node, "validate.shrink", []string{"max", "changed", "floor", "over"})
	if node := values["max"]; node != nil {
		guard.MaxRemovedPercent = p.percent(node, "validate.shrink.max")
	}
	if node := values["changed"]; node != nil {
		guard.MaxChangedPercent = p.percent(node, "validate.shrink.changed")
	}
	if node := values["floor"]; node != nil {
		guard.Floor = p.number(node, "validate.shrink.floor", 0)
	}
	if node := values["over"]; node != nil {
		guard.Period = durationpb.New(p.duration(node, "validate.shrink.over"))
	}
	return guard
}

func (p *parser) fieldsOf(node *yaml.Node, path string, allowed []string) map[string]*yaml.Node {
	if node == nil {
		return nil
	}
	return p.fields(node, path, allowed)
}

func (p *parser) plugins(node *yaml.Node) (list []*intentpb.PluginBinding, lines map[string]int) {
	lines = map[string]int{}
	p.eachPair(node, "plugins", func(key, value *yaml.Node) {
		at := "plugins." + key.Value
		name := p.payloadType(key, at)
		fields := p.fields(value, at, []string{"run", "dial", "at_once"})
		binding := &intentpb.PluginBinding{Type: name}
		switch run, dial := fields["run"], fields["dial"]; {
		case run == nil && dial == nil:
			p.at(key, at+".run", "%s.run is missing", at).hint("write %s: {run: <program>}, or {dial: HOST:PORT} for a plugin that runs as a server", key.Value)
			return
		case run != nil && dial != nil:
			p.at(dial, at+".dial", "%s is run and dialled", at).hint("remove one: a plugin is a program that Lehr runs, or a server")
			return
		case run != nil:
			binding.Run = p.texts(run, at+".run")
		default:
			binding.Dial = p.text(dial, at+".dial")
			if host, port, err := net.SplitHostPort(binding.Dial); err != nil || host == "" || port == "" {
				p.at(dial, at+".dial", "%.300q is no address", binding.Dial).hint("write HOST:PORT, as plugin.example.com:7443")
			}
		}
		if most := fields["at_once"]; most != nil {
			binding.AtOnce = p.number(most, at+".at_once", 1)
		}
		if slices.ContainsFunc(list, func(b *intentpb.PluginBinding) bool { return b.GetType() == name && name != "" }) {
			p.at(key, at, "the type %s is bound twice", name).hint("remove one binding")
		}
		list, lines[name] = append(list, binding), key.Line
	})
	slices.SortFunc(list, func(a, b *intentpb.PluginBinding) int { return strings.Compare(a.GetType(), b.GetType()) })
	return list, lines
}

// models returns the types that no plugin is to serve, sorted. Bound are those that one
// is bound to.
func (p *parser) models(node *yaml.Node, bound map[string]int) (names []string) {
	if node == nil {
		return nil
	}
	for i := range p.texts(node, "models") {
		at, item := fmt.Sprintf("models[%d]", i), resolve(item(node, i))
		name := p.payloadType(item, at)
		switch {
		case name == "":
			continue
		case slices.Contains(names, name):
			p.at(item, at, "the type %s is listed twice", name).hint("remove one")
		case bound[name] > 0:
			p.at(item, at, "the type %s is a model, and a plugin is bound to it in line %d", name, bound[name]).hint("remove it here, or the binding under plugins")
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (p *parser) approval(node *yaml.Node) *intentpb.ApprovalPolicy {
	const most = 20
	fields := p.fields(node, "checks.approval", []string{"quorum", "expires"})
	policy := &intentpb.ApprovalPolicy{}
	if node := fields["quorum"]; node != nil {
		if policy.Quorum = p.number(node, "checks.approval.quorum", 1); policy.Quorum > most {
			p.at(node, "checks.approval.quorum", "checks.approval.quorum: %d people are more than %d", policy.Quorum, most).hint("write how many must approve, for example 2")
		}
	}
	if node := fields["expires"]; node != nil {
		policy.Expires = durationpb.New(p.duration(node, "checks.approval.expires"))
	}
	return policy
}

// access is who may do what, by role.
func (p *parser) access(node *yaml.Node) (bindings []*intentpb.RoleBinding) {
	p.eachPair(node, "access", func(key, value *yaml.Node) {
		at := "access." + key.Value
		role, err := intent.ParseRole(key.Value)
		p.check(key, at, err)
		if role == intent.Admin {
			p.at(key, at, "a definition cannot make an admin: who may edit it could make themselves one").
				hint("the server's access policy gives that role: docs/operate/access.md")
		}
		binding := &intentpb.RoleBinding{Role: string(role), To: p.texts(value, at)}
		for i, subject := range binding.To {
			field := fmt.Sprintf("%s[%d]", at, i)
			p.check(item(value, i), field, intent.CheckSubject(subject))
			if subject == intent.Everyone && role != intent.Viewer {
				p.at(item(value, i), field, "everyone cannot be %s", role).hint("name groups or users; everyone can be viewer")
			}
			if slices.Contains(binding.To[:i], subject) {
				p.at(item(value, i), field, "%s is named twice", subject).hint("remove one")
			}
		}
		bindings = append(bindings, binding)
	})
	return bindings
}

func (p *parser) budget(node *yaml.Node) []*intentpb.Budget {
	fields := p.fields(node, "checks.budget", []string{"scope", "in_flight", "unhealthy"})
	for _, name := range []string{"scope", "in_flight"} {
		if fields[name] == nil {
			p.at(node, "checks.budget."+name, "checks.budget.%s is missing", name).hint("write budget: {scope: cluster, in_flight: 1}")
			return nil
		}
	}
	budget := &intentpb.Budget{
		Scope:    p.text(fields["scope"], "checks.budget.scope"),
		InFlight: p.number(fields["in_flight"], "checks.budget.in_flight", 1),
	}
	if unhealthy := fields["unhealthy"]; unhealthy != nil {
		budget.Unhealthy = p.number(unhealthy, "checks.budget.unhealthy", 1)
	}
	return []*intentpb.Budget{budget}
}

func (p *parser) typeModes(node *yaml.Node) map[string]intentpb.EnforcementMode {
	modes := map[string]intentpb.EnforcementMode{}
	p.eachPair(node, "modes", func(key, value *yaml.Node) {
		at := "modes." + key.Value
		name := p.payloadType(key, at)
		if _, duplicate := modes[name]; duplicate && name != "" {
			p.at(key, at, "the type %s has two modes", name).hint("remove one")
		}
		modes[name] = p.mode(value, at)
	})
	return modes
}

func (p *parser) mode(node *yaml.Node, at string) intentpb.EnforcementMode {
	// YAML 1.1 readers take off for false; it is meant as the word.
	switch node.Value {
	case "enforce":
		return intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE
	case "observe":
		return intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE
	case "off":
		return intentpb.EnforcementMode_ENFORCEMENT_MODE_OFF
	}
	p.at(node, at, "%s: %s is not a mode", at, describe(node)).hint("write enforce, observe or off")
	return intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE
}

func (p *parser) payloadType(node *yaml.Node, at string) string {
	name, err := p.types.Resolve(node.Value)
	p.check(node, at, err)
	return string(name)
}

// name checks the name of a source or generator.
func (p *parser) name(node *yaml.Node, at string) string {
	for i, c := range []byte(node.Value) {
		alphanumeric := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !alphanumeric && (i == 0 || c != '_' && c != '-') || i >= 63 {
			p.at(node, at+"."+node.Value, "%q is not a name", node.Value).hint("use a-z, 0-9, - and _, at most 63")
			break
		}
	}
	return node.Value
}

func (p *parser) percent(node *yaml.Node, at string) uint32 {
	digits, ok := strings.CutSuffix(node.Value, "%")
	n, err := strconv.ParseUint(digits, 10, 8)
	if !ok || err != nil || n > 100 {
		p.at(node, at, "%s: %s is not a percentage", at, describe(node)).hint("write 20%%")
		return 0
	}
	return uint32(n)
}

func (p *parser) duration(node *yaml.Node, at string) time.Duration {
	text := node.Value
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			text = strconv.FormatUint(n*24, 10) + "h"
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		p.at(node, at, "%s: %s is not a length of time", at, describe(node)).hint("write 10m, 24h or 7d")
		return 0
	}
	return d
}
