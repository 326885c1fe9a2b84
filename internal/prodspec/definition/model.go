package definition

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/prodspec/generate/archetype"
)

// model reads which of Lehr's own programs makes the assets.
func (p *parser) model(node *yaml.Node, at string) string {
	name, names := p.text(node, at), archetype.Names()
	if name != "" && !slices.Contains(names, name) {
		hint := "there are " + strings.Join(names, ", ")
		if suggestion := spell.Nearest(name, names); suggestion != "" {
			hint = "did you mean " + suggestion + "? " + hint
		}
		p.at(node, at, "%s: there is no model %q", at, name).hint("%s", hint)
	}
	return archetype.Program(name)
}
