package definition

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
)

// maxReleaseLines of a partition.
const maxReleaseLines = 20

var (
	releaseLineKeys  = []string{"applications", "order", "mode"}
	releaseOrderKeys = []string{"first", "then", "by"}
)

const releasesExample = "write releases: {main: {applications: [payments, orders], order: [{first: payments, then: [orders]}]}}"

var releaseModes = map[string]intentpb.ReleaseLine_Mode{
	"train": intentpb.ReleaseLine_MODE_TRAIN, "immediate": intentpb.ReleaseLine_MODE_IMMEDIATE,
}

// releaseOrders say whether those that wait do so for the whole application, or in each environment.
var releaseOrders = map[string]bool{"environment": false, "application": true}

// releaseLines reads lines of releases: which applications go out together, and in which order.
func (p *parser) releaseLines(node *yaml.Node, d *Definition) {
	p.eachPair(node, "releases", func(key, value *yaml.Node) {
		at := "releases." + key.Value
		if !checkName().MatchString(key.Value) {
			p.at(key, at, "%q is not a name", key.Value).hint("use a-z, 0-9, - and _, at most 63")
		}
		if slices.ContainsFunc(d.Policy.Deliveries, func(spec *intentpb.Delivery) bool { return spec.GetName() == key.Value }) {
			p.at(key, at, "an application is called %s, too", key.Value).hint("rename one of them: their histories are listed by name")
		}
		if len(d.Policy.ReleaseLines) == maxReleaseLines {
			p.at(key, at, "there are more than %d lines of releases", maxReleaseLines).hint("put applications that go out together into one line")
			return
		}
		d.Policy.ReleaseLines = append(d.Policy.ReleaseLines, p.releaseLine(key, value, at, d))
	})
	for i, spec := range d.Policy.Deliveries {
		p.checkLineOf(spec, d, d.DeliveryPlaces[i])
	}
}

func (p *parser) releaseLine(key, value *yaml.Node, at string, d *Definition) *intentpb.ReleaseLine {
	line := &intentpb.ReleaseLine{Name: key.Value}
	fields := p.fields(value, at, releaseLineKeys)
	if fields["applications"] == nil && value.Kind == yaml.MappingNode {
		p.at(key, at+".applications", "%s.applications is missing", at).hint(releasesExample)
	}
	if node := fields["applications"]; node != nil {
		for i, text := range p.texts(node, at+".applications") {
			if name, ok := p.lineApplication(item(node, i), at+".applications", text, d); ok {
				line.Applications = append(line.Applications, name)
			}
		}
		p.checkDuplicates(node, at+".applications", line.Applications, "application")
	}
	if node := fields["mode"]; node != nil {
		line.Mode = choice(p, node, at+".mode", releaseModes, "train or immediate")
	}
	if node := fields["order"]; node != nil {
		count := len(p.findings)
		p.elements(node, at+".order", "order: [{first: payments, then: [orders]}]", func(node *yaml.Node, field string) {
			if order := p.releaseOrder(node, field, line, d); order != nil {
				line.Order = append(line.Order, order)
			}
		})
		if err := promotion.CheckOrder(line); err != nil && count == len(p.findings) {
			p.check(node, at+".order", err)
		}
	}
	return line
}

// lineApplication is an application of a line, as PARTITION/APPLICATION; ok: it is the name of one.
func (p *parser) lineApplication(node *yaml.Node, at, text string, d *Definition) (name string, ok bool) {
	if text == "" {
		return "", false // A finding says so.
	}
	partition, application, isElsewhere := strings.Cut(text, "/")
	if !isElsewhere {
		partition, application = string(d.Partition), text
	}
	if _, err := intent.ParsePartitionID(partition); err != nil || !checkName().MatchString(application) {
		p.at(node, at, "%q is no application", text).hint("write its name, or PARTITION/APPLICATION for one of another partition")
		return "", false
	}
	if partition != string(d.Partition) {
		return partition + "/" + application, true
	}
	for _, spec := range d.Policy.Deliveries {
		if spec.GetName() == application {
			return partition + "/" + application, true
		}
	}
	p.at(node, at, "there is no application %q under delivery", application).hint("write it there, or PARTITION/%s for one of another partition", application)
	return "", false
}

func (p *parser) releaseOrder(node *yaml.Node, at string, line *intentpb.ReleaseLine, d *Definition) *intentpb.ReleaseOrder {
	fields := p.fields(node, at, releaseOrderKeys)
	for _, needed := range []string{"first", "then"} {
		if fields[needed] == nil {
			if node.Kind == yaml.MappingNode {
				p.at(node, at+"."+needed, "%s.%s is missing", at, needed).hint("write {first: payments, then: [orders]}")
			}
			return nil
		}
	}
	order := &intentpb.ReleaseOrder{}
	member := func(node *yaml.Node, at, text string) string {
		name, ok := p.lineApplication(node, at, text, d)
		if ok && !slices.Contains(line.Applications, name) {
			p.at(node, at, "%s is not among the applications of the line", text).hint("add it to applications, or take it out here")
		}
		return name
	}
	order.First = member(fields["first"], at+".first", p.text(fields["first"], at+".first"))
	for i, text := range p.texts(fields["then"], at+".then") {
		order.Then = append(order.Then, member(item(fields["then"], i), at+".then", text))
	}
	if node := fields["by"]; node != nil {
		order.Whole = choice(p, node, at+".by", releaseOrders, "environment or application")
	}
	return order
}

// checkLineOf an application: a line of the partition itself must list it. Lines of other partitions are read
// when versions are to come.
func (p *parser) checkLineOf(spec *intentpb.Delivery, d *Definition, places RulePlaces) {
	partition, name, _ := strings.Cut(spec.GetReleases(), "/")
	if partition != string(d.Partition) || name == "" {
		return
	}
	at := fmt.Sprintf("delivery.%s.releases", spec.GetName())
	node := &yaml.Node{Line: places["releases"].Line, Column: places["releases"].Column}
	var names []string
	for _, line := range d.Policy.ReleaseLines {
		names = append(names, line.GetName())
		if line.GetName() != name {
			continue
		}
		if !slices.Contains(line.GetApplications(), partition+"/"+spec.GetName()) {
			p.at(node, at, "the line of releases %s does not list %s", name, spec.GetName()).hint("add it to releases.%s.applications", name)
		}
		return
	}
	hint := releasesExample
	if len(names) > 0 {
		hint = "known: " + strings.Join(names, ", ")
	}
	p.at(node, at, "there is no line of releases %q", name).hint("%s", hint)
}

// releases names the line that brings an application's versions, as PARTITION/LINE.
func (r *deliveryParser) releases(node *yaml.Node) string {
	text := r.text(node, r.at+".releases")
	if text == "" {
		return ""
	}
	r.places["releases"] = Place{node.Line, node.Column}
	partition, name, isElsewhere := strings.Cut(text, "/")
	if !isElsewhere {
		partition, name = string(r.definition.Partition), text
	}
	if _, err := intent.ParsePartitionID(partition); err != nil || !checkName().MatchString(name) {
		r.parser.at(node, r.at+".releases", "%q is no line of releases", text).hint("write its name, or PARTITION/LINE for one of another partition")
		return ""
	}
	return partition + "/" + name
}

func (r *deliveryParser) lag(c *intentpb.DeliveryConstraint, fields map[string]*yaml.Node, at string) {
	spec := &intentpb.VersionLag{AtMost: r.number(fields["lag"], at+".lag", 0)}
	if node := fields["behind"]; node != nil {
		spec.Environments = r.texts(node, at+".behind")
		r.checkDuplicates(node, at+".behind", spec.Environments, "environment")
	} else {
		r.parser.at(fields["lag"], at+".behind", "%s does not say which environments may be behind", at).hint("write {lag: 2, behind: [production]}")
	}
	c.Kind = &intentpb.DeliveryConstraint_Lag{Lag: spec}
}

func releasesSchema() map[string]any {
	order := object(map[string]any{"first": text(), "then": texts(), "by": enum([]string{"environment", "application"})}, "first", "then")
	return object(map[string]any{"applications": texts(), "order": listOf(order), "mode": enum([]string{"train", "immediate"})}, "applications")
}
