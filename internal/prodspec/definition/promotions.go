package definition

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
)

var promotionFields = []string{"application", "document", "fields"}

const promotionExample = "write promotions: {grants: [{application: shop/web, document: knobs, fields: [/production/version]}]}"

// promotionGrants are the fields that applications of other partitions may set here.
func (p *parser) promotionGrants(node *yaml.Node, sources []Source) (list []*intentpb.PromotionGrant) {
	if node == nil {
		return nil
	}
	grants := p.fields(node, "promotions", []string{"grants"})["grants"]
	if grants == nil || grants.Kind != yaml.SequenceNode {
		p.at(node, "promotions.grants", "promotions.grants is no list").hint(promotionExample)
		return nil
	}
	stored, inGit := documentsOf(sources)
	for i := range grants.Content {
		at, one := fmt.Sprintf("promotions.grants[%d]", i), item(grants, i)
		fields := p.fields(one, at, promotionFields)
		for _, needed := range promotionFields {
			if fields[needed] == nil && one.Kind == yaml.MappingNode {
				p.at(one, at+"."+needed, "%s.%s is missing", at, needed).hint(promotionExample)
			}
		}
		g := &intentpb.PromotionGrant{}
		if node := fields["application"]; node != nil {
			text := p.text(node, at+".application")
			partition, name, ok := strings.Cut(text, "/")
			if _, err := intent.ParsePartitionID(partition); text != "" && (!ok || err != nil || !checkName().MatchString(name)) {
				p.at(node, at+".application", "%q is no application of a partition", text).hint("write PARTITION/APPLICATION, as shop/web")
			}
			g.Partition, g.Application = partition, name
		}
		if node := fields["document"]; node != nil {
			g.Document = p.text(node, at+".document")
			switch g.Source = stored[g.Document]; {
			case g.Source != "" || g.Document == "":
			case slices.Contains(inGit, g.Document):
				g.Source, g.InRepository = g.Document, true
			default:
				p.at(node, at+".document", "no source is the document %q", g.Document).
					hint("name one under sources: knobs: {document: knobs}; known: %s", strings.Join(append(slices.Sorted(maps.Keys(stored)), inGit...), ", "))
			}
		}
		if node := fields["fields"]; node != nil {
			g.Pointers = p.texts(node, at+".fields")
			for j, pointer := range g.Pointers {
				if pointer != "" {
					_, err := document.ParsePath(pointer)
					p.check(item(node, j), at+".fields", err)
				}
			}
		}
		list = append(list, g)
	}
	return list
}

func promotionsSchema() map[string]any {
	grant := object(map[string]any{"application": text(), "document": text(), "fields": texts()}, promotionFields...)
	return object(map[string]any{"grants": listOf(grant)}, "grants")
}
