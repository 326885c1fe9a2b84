package definition

import (
	"fmt"
	"path"

	"go.yaml.in/yaml/v3"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

var grantFields = []string{"to", "assets", "names"}

// outputGrants are what other partitions may read of what assets tell.
func (p *parser) outputGrants(node *yaml.Node) (list []*intentpb.OutputGrant) {
	if node == nil {
		return nil
	}
	grants := p.fields(node, "outputs", []string{"grants"})["grants"]
	if grants == nil {
		p.at(node, "outputs.grants", "outputs.grants is missing").hint("write outputs: {grants: [{to: PARTITION, assets: [storage/*]}]}")
		return nil
	}
	if grants.Kind != yaml.SequenceNode {
		p.at(grants, "outputs.grants", "outputs.grants is no list").hint("write outputs: {grants: [{to: PARTITION, assets: [storage/*]}]}")
		return nil
	}
	for i := range grants.Content {
		at, one := fmt.Sprintf("outputs.grants[%d]", i), item(grants, i)
		fields := p.fields(one, at, grantFields)
		g := &intentpb.OutputGrant{To: p.globs(fields["to"], at+".to"), Assets: p.globs(fields["assets"], at+".assets"), Names: p.globs(fields["names"], at+".names")}
		if fields["to"] == nil {
			p.at(one, at+".to", "%s.to is missing", at).hint("name the partitions that may read them: to: shop, or to: [shop-*]")
		}
		list = append(list, g)
	}
	return list
}

// globs are patterns of path.Match.
func (p *parser) globs(node *yaml.Node, at string) []string {
	if node == nil {
		return nil
	}
	list := p.texts(node, at)
	for i, pattern := range list {
		if _, err := path.Match(pattern, ""); err != nil {
			p.at(item(node, i), at, "%s: %.300q is no pattern: %s", at, pattern, err).hint("* stands for any text without /, ? for one character")
		}
	}
	return list
}

func outputsSchema() map[string]any {
	return object(map[string]any{"grants": listOf(object(map[string]any{"to": texts(), "assets": texts(), "names": texts()}, "to"))}, "grants")
}
