package definition

import (
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/prodspec/generate/work"
)

// language reads which program makes the assets, in what language.
func (p *parser) language(key *yaml.Node, at string, fields map[string]*yaml.Node, g *Generator) {
	for _, language := range []work.Language{work.Starlark, work.WASM, work.Native, work.Model, work.Render} {
		node := fields[string(language)]
		if node == nil {
			continue
		}
		field := at + "." + string(language)
		if g.Language != "" {
			p.at(node, field, "%s has two programs, %s and %s", at, g.Language, language).hint("remove one, or write two generators")
			continue
		}
		g.Language = language
		switch language {
		case work.Model:
			g.Program = p.model(node, field)
		case work.Starlark:
			g.Program = p.program(node, field, ".star")
		case work.WASM:
			g.Program = p.program(node, field, ".wasm")
		case work.Native:
			words := p.texts(node, field)
			if len(words) > 0 {
				g.Program, g.Arguments = p.programPath(item(node, 0), field, words[0], ""), words[1:]
			}
		case work.Render:
			g.Program, g.File = p.format(node, field), p.file
		}
	}
	if g.Language == "" {
		p.at(key, at+".starlark", "%s.starlark is missing", at).
			hint("name the program: %s: {starlark: %s.star, from: [a source]}, or wasm: %s.wasm, or command: [./%s]; or take a model of Lehr's: %s: {model: web-service, from: [a source]}; or render files: %s: {render: assets, from: [a source]}; or derive addons: %s: {derive: Owner, owner: ...}", g.Name, g.Name, g.Name, g.Name, g.Name, g.Name, g.Name)
	}
	if node := fields["with"]; node != nil {
		p.rendererOptions(node, at+".with", g)
	}
	if node := fields["args"]; node != nil {
		if g.Language != work.WASM {
			p.at(node, at+".args", "%s.args is for modules", at).hint("write a command's arguments after it: command: [./program, argument]")
			return
		}
		g.Arguments = p.texts(node, at+".args")
	}
}

// format is one that there is a renderer for.
func (p *parser) format(node *yaml.Node, at string) string {
	return p.known(node, at, "renderer", work.FormatNames())
}

// known is one of the names of what Lehr brings.
func (p *parser) known(node *yaml.Node, at, what string, names []string) string {
	name := p.text(node, at)
	if name != "" && !slices.Contains(names, name) {
		f := p.at(node, at, "%s: there is no %s for %q", at, what, name)
		if suggestion := spell.Nearest(name, names); suggestion != "" {
			f.hint("did you mean %s? allowed: %s", suggestion, strings.Join(names, ", "))
		} else {
			f.hint("allowed: %s", strings.Join(names, ", "))
		}
	}
	return name
}

// rendererOptions are a renderer's options, which reach it as arguments.
func (p *parser) rendererOptions(node *yaml.Node, at string, g *Generator) {
	if g.Language != work.Render {
		p.at(node, at, "%s is for renderers", at).hint("a module takes args: [text], a command its arguments after its name")
		return
	}
	options := map[string][]string{}
	p.eachPair(node, at, func(key, value *yaml.Node) {
		name := p.text(key, at)
		if name == addonsKey && g.Check {
			p.at(key, at+"."+name, "%s.%s: a checking program gives no assets", at, name).hint("write addons into with: of the renderer")
			return
		}
		if name == addonsKey {
			g.Addons = p.rendererAddons(value, g.Name, at+"."+name)
			return
		}
		if name == originsKey && g.Program == kustomizeFormat {
			p.at(key, at+"."+name, "%s.%s: where sources come from is told by Lehr itself", at, name).hint("remove it, and name the sources in from")
			return
		}
		if strings.ContainsAny(name, "=\x00") {
			p.at(key, at, "%s: %q is no key", at, name).hint("use a-z, 0-9, - and _")
		}
		options[name] = p.texts(value, at+"."+name)
	})
	for _, name := range slices.Sorted(maps.Keys(options)) {
		for _, text := range options[name] {
			g.Arguments = append(g.Arguments, "--"+name+"="+text)
		}
	}
}

// program checks the path of a file inside the definition's folder.
func (p *parser) program(node *yaml.Node, at, extension string) string {
	return p.programPath(node, at, p.text(node, at), extension)
}

func (p *parser) programPath(node *yaml.Node, at, text, extension string) string {
	clean := path.Clean(text)
	isOutside := path.IsAbs(clean) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../")
	if text != "" && (isOutside || extension != "" && path.Ext(clean) != extension || strings.ContainsAny(clean, "*?[\\")) {
		p.at(node, at, "%s: %q is not a %s in this folder", at, text, strings.TrimSpace(extension+" file")).hint("move the program beside lehr.yaml or below it")
	}
	return clean
}
