package definition

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/generator/addon"
)

// addonsKey of with: is Lehr's own: renderers do not see it.
const addonsKey = "addons"

// rendererAddons are the addons that all that a renderer gives is given: a mapping by
// kind, or a list of such mappings, each with the assets that it is about.
func (p *parser) rendererAddons(node *yaml.Node, generator, at string) (list []Derivation) {
	if node.Kind != yaml.SequenceNode {
		return p.addonEntry(node, generator, at)
	}
	if len(node.Content) == 0 {
		p.at(node, at, "%s is empty", at).hint("write %s: {Owner: team@example.com}", at)
	}
	for i, element := range node.Content {
		list = append(list, p.addonEntry(resolve(element), generator, fmt.Sprintf("%s[%d]", at, i))...)
	}
	return list
}

// addonEntry is a mapping of addons by kind, and which assets it is about.
func (p *parser) addonEntry(node *yaml.Node, generator, at string) (list []Derivation) {
	where := p.expression(child(node, "where"), at+".where")
	p.eachPair(node, at, func(key, value *yaml.Node) {
		if key.Value == "where" {
			return
		}
		field := at + "." + key.Value
		kind, hint, ok := addon.ByName(key.Value)
		if !ok {
			p.at(key, field, "%s: there is no addon %s", at, key.Value).hint("%s; beside them where says which assets", hint)
			return
		}
		given, err := kind.FromNode(value, "line "+fmt.Sprint(key.Line)+" of "+p.file)
		if e, ok := errors.AsType[*addon.Error](err); ok {
			p.at(&yaml.Node{Line: max(e.Line, key.Line), Column: max(e.Column, 1)}, join(field, e.Field), "%s: %s", field, e.Message).hint("%s", e.Hint)
			return
		}
		list = append(list, Derivation{
			Name: at[len("generate."):] + "." + kind.Name, Addon: intent.TypeName(kind.FullName()), Generator: generator, Given: given, Where: where, Line: key.Line,
		})
	})
	if len(list) == 0 && len(p.findings) == 0 {
		p.at(node, at, "%s gives no addon", at).hint("write {Owner: team@example.com}, and where: beside it if it is for some assets only")
	}
	return list
}
