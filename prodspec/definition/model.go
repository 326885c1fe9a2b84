package definition

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/prodspec/generate/archetype"
	"lehr.dev/spell"
)

// model reads which of Lehr's own programs makes the assets.
func (p *parser) model(node *yaml.Node, at string) string {
	name, known := p.text(node, at), archetype.Names()
	if name != "" && !slices.Contains(known, name) {
		hint := "there are " + strings.Join(known, ", ")
		if near := spell.Nearest(name, known); near != "" {
			hint = "did you mean " + near + "? " + hint
		}
		p.at(node, at, "%s: there is no model %q", at, name).hint("%s", hint)
	}
	return archetype.Program(name)
}
