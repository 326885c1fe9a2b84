package definition

import (
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/prodspec/generate/work"
)

// language reads which program makes the assets, in what language.
func (p *parser) language(key *yaml.Node, at string, fields map[string]*yaml.Node, g *Generator) {
	for _, language := range []work.Language{work.Starlark, work.WASM, work.Native, work.Model} {
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
		}
	}
	if g.Language == "" {
		p.at(key, at+".starlark", "%s.starlark is missing", at).
			hint("name the program: %s: {starlark: %s.star, from: [a source]}, or wasm: %s.wasm, or command: [./%s]; or take a model of Lehr's: %s: {model: web-service, from: [a source]}; or derive addons: %s: {derive: Owner, owner: ...}", g.Name, g.Name, g.Name, g.Name, g.Name, g.Name)
	}
	if node := fields["args"]; node != nil {
		if g.Language != work.WASM {
			p.at(node, at+".args", "%s.args is for modules", at).hint("write a command's arguments after it: command: [./program, argument]")
			return
		}
		g.Arguments = p.texts(node, at+".args")
	}
}

// program checks the path of a file inside the definition's folder.
func (p *parser) program(node *yaml.Node, at, extension string) string {
	return p.programPath(node, at, p.text(node, at), extension)
}

func (p *parser) programPath(node *yaml.Node, at, text, extension string) string {
	clean := path.Clean(text)
	outside := path.IsAbs(clean) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../")
	if text != "" && (outside || extension != "" && path.Ext(clean) != extension || strings.ContainsAny(clean, "*?[\\")) {
		p.at(node, at, "%s: %q is not a %s in this folder", at, text, strings.TrimSpace(extension+" file")).hint("move the program beside lehr.yaml or below it")
	}
	return clean
}
