package definition

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/intent"
)

// maxCommonRules of a common policy: each partition asks them all.
const maxCommonRules = 100

var (
	commonFields     = []string{"lehr", "partitions", "rules", "register"}
	commonRuleFields = []string{"owner", "reason", "mode", "for", "checks", "overridable", "validate", "defaults", "allow"}
	// defaultFields are what of a lehr.yaml a common rule may say for those who do not.
	defaultFields   = []string{"mode", "modes", "checks", "validate", "plugins", "models", "notifications", "generate"}
	allowanceFields = []string{"plugins", "programs", "addresses", "secrets"}
	commonModes     = map[string]intentpb.CommonRule_Mode{"observe": intentpb.CommonRule_MODE_OBSERVE, "require": intentpb.CommonRule_MODE_REQUIRE}
)

// Common is what a lehr-policy.yaml says, and where its expressions are written.
type Common struct {
	Policy *intentpb.CommonPolicy
	// CheckPlaces and RulePlaces are those of each rule's checks and validation rules, by
	// the rule's name, in their order.
	CheckPlaces, RulePlaces map[string][]RulePlaces
}

// ParseCommon reads a common policy. It is usable when there is no finding: one that is
// usable in part would let go what the other part asks for.
func ParseCommon(file string, data []byte, types Types) (Common, []intent.Finding) {
	p := &parser{file: filepath.Base(file), types: types, isCommon: true}
	common := Common{Policy: &intentpb.CommonPolicy{File: p.file}, CheckPlaces: map[string][]RulePlaces{}, RulePlaces: map[string][]RulePlaces{}}
	root := p.document(data)
	if root == nil {
		return common, p.findings
	}
	fields := p.fields(root, "", commonFields)
	if node := fields["lehr"]; node == nil || node.Value != "v1" {
		p.at(root, "lehr", "lehr: v1 is missing").hint("write lehr: v1")
	}
	common.Policy.Partitions = p.traits(fields["partitions"])
	p.eachPair(fields["rules"], "rules", func(key, value *yaml.Node) {
		if rule := p.commonRule(key, value, &common); rule != nil {
			common.Policy.Rules = append(common.Policy.Rules, rule)
		}
	})
	if len(common.Policy.Rules) > maxCommonRules {
		p.at(root, "rules", "there are %d rules, at most %d are allowed", len(common.Policy.Rules), maxCommonRules).hint("join those about the same partitions")
	}
	common.Policy.Register = p.registrations(fields["register"])
	if len(p.findings) == 0 {
		p.contradictions(common.Policy)
	}
	slices.SortStableFunc(p.findings, func(a, b intent.Finding) int { return a.Line - b.Line })
	return common, p.findings[:min(len(p.findings), maxFindings)]
}

// traits of partitions, by patterns of their names.
func (p *parser) traits(node *yaml.Node) (list []*intentpb.PartitionTraits) {
	p.eachPair(node, "partitions", func(key, value *yaml.Node) {
		at := "partitions." + key.Value
		fields := p.fields(value, at, []string{"owner", "labels"})
		entry := &intentpb.PartitionTraits{Name: key.Value, Labels: p.traitLabels(fields["labels"], at+".labels")}
		if owner := fields["owner"]; owner != nil {
			entry.Owner = p.text(owner, at+".owner")
		}
		list = append(list, entry)
	})
	return list
}

func (p *parser) traitLabels(node *yaml.Node, at string) map[string]string {
	labels := map[string]string{}
	p.eachPair(node, at, func(key, value *yaml.Node) {
		labels[key.Value] = p.text(value, at+"."+key.Value)
	})
	return labels
}

func (p *parser) registrations(node *yaml.Node) (list []*intentpb.Registration) {
	if node == nil {
		return nil
	}
	for i, pattern := range p.texts(node, "register") {
		place := item(node, i)
		if base := filepath.Base(pattern); pattern != "" && (strings.ContainsAny(base, "*?[") || filepath.Ext(base) != ".yaml" && filepath.Ext(base) != ".yml") {
			p.at(place, fmt.Sprintf("register[%d]", i), "%q names no definitions", pattern).hint("write a path that ends in the file's name, as services/*/lehr.yaml")
		}
		if _, err := filepath.Match(pattern, ""); err != nil {
			p.at(place, fmt.Sprintf("register[%d]", i), "%q is no pattern", pattern).hint("write services/*/lehr.yaml")
		}
		list = append(list, &intentpb.Registration{Definitions: pattern, Line: uint32(place.Line)})
	}
	return list
}

func (p *parser) commonRule(key, value *yaml.Node, common *Common) *intentpb.CommonRule {
	at := "rules." + key.Value
	if !checkName().MatchString(key.Value) {
		p.at(key, at, "%q is not a name", key.Value).hint("use a-z, 0-9, - and _, at most 63")
	}
	fields := p.fields(value, at, commonRuleFields)
	rule := &intentpb.CommonRule{Name: key.Value, Line: uint32(key.Line), Lines: map[string]uint32{}, Policy: &intentpb.Policy{}, Mode: intentpb.CommonRule_MODE_OBSERVE}
	for _, name := range []string{"owner", "for"} {
		if fields[name] == nil && value.Kind == yaml.MappingNode {
			p.at(key, at+"."+name, "%s.%s is missing", at, name).hint("%s", map[string]string{
				"owner": "say who answers for the rule, for whoever waits: owner: platform",
				"for":   "say which partitions: for: {owner: payments}, {labels: {tier: front}}, {partition: pay-*} or all",
			}[name])
		}
	}
	if node := fields["owner"]; node != nil {
		rule.Owner = p.text(node, at+".owner")
	}
	if node := fields["reason"]; node != nil {
		rule.Reason = p.text(node, at+".reason")
	}
	if node := fields["mode"]; node != nil {
		rule.Mode = choice(p, node, at+".mode", commonModes, "observe or require")
	}
	if node := fields["for"]; node != nil {
		rule.Select = p.selector(node, at+".for")
	}
	firstNew := len(p.findings)
	p.commonSections(fields, rule, common)
	for i := range p.findings[firstNew:] {
		p.findings[firstNew+i].Field = join(at, p.findings[firstNew+i].Field)
	}
	if node := fields["overridable"]; node != nil {
		for i, name := range p.texts(node, at+".overridable") {
			whole := commonpolicy.CheckName(rule.Name, name)
			if !slices.ContainsFunc(rule.Policy.Checks, func(c *intentpb.Check) bool { return c.Name == whole }) {
				p.at(item(node, i), fmt.Sprintf("%s.overridable[%d]", at, i), "the rule has no check %q", name).hint("name one of its checks")
			}
			rule.Overridable = append(rule.Overridable, whole)
		}
	}
	return rule
}

func (p *parser) selector(node *yaml.Node, at string) *intentpb.Selector {
	s := &intentpb.Selector{}
	if node.Kind == yaml.ScalarNode {
		if node.Value != "all" {
			p.at(node, at, "%s: %s selects no partitions", at, describe(node)).hint("write all, or {owner: NAME}, {labels: {KEY: VALUE}}, {partition: PATTERN}")
		}
		return s
	}
	fields := p.fields(node, at, []string{"partition", "owner", "labels"})
	if len(fields) == 0 && node.Kind == yaml.MappingNode {
		p.at(node, at, "%s is empty", at).hint("write for: all if the rule is about every partition")
	}
	if value := fields["partition"]; value != nil {
		s.Names = p.texts(value, at+".partition")
	}
	if value := fields["owner"]; value != nil {
		s.Owners = p.texts(value, at+".owner")
	}
	s.Labels = p.traitLabels(fields["labels"], at+".labels")
	return s
}

// commonSections reads what a rule asks, as a lehr.yaml says it.
func (p *parser) commonSections(fields map[string]*yaml.Node, rule *intentpb.CommonRule, common *Common) {
	d := &Definition{Policy: &intentpb.Policy{}}
	if node := fields["checks"]; node != nil {
		p.checks(node, d)
		p.eachPair(node, "checks", func(key, _ *yaml.Node) {
			rule.Lines["checks."+key.Value] = uint32(key.Line)
			if key.Value == "overrides" {
				p.at(key, "checks.overrides", "a common rule allows no overrides of the partitions' checks").hint("write overridable: [NAME] beside checks, for those of the rule")
			}
		})
	}
	if node := fields["validate"]; node != nil {
		sections := p.fields(node, "validate", []string{"shrink", "rules", "programs"})
		d.Policy.Rules, d.RulePlaces = p.rules(sections["rules"])
		p.commonPrograms(sections["programs"], rule)
		if shrink := sections["shrink"]; shrink != nil {
			d.Policy.Shrink, rule.Lines["validate.shrink"] = p.shrink(shrink), uint32(shrink.Line)
		}
	}
	for i, c := range d.Policy.Checks {
		p.refuseEndless(rule, c, d.CheckPlaces[i])
		if protection := c.GetProtection(); protection.GetAfter() != nil || protection.GetDuring() != 0 {
			at := d.CheckPlaces[i][""]
			p.at(&yaml.Node{Line: at.Line, Column: at.Column}, "checks."+c.Name, "checks.%s asks during or after a push, and a common rule asks before it only", c.Name).
				hint("write before: true alone; what is asked during and after pushes is a partition's own check")
		}
		c.Name = commonpolicy.CheckName(rule.Name, c.Name)
	}
	for i, r := range d.Policy.Rules {
		rule.Lines["rules."+r.Id] = uint32(d.RulePlaces[i][""].Line)
		r.Id = commonpolicy.CheckName(rule.Name, r.Id)
	}
	rule.Policy.Checks, rule.Policy.Budgets, rule.Policy.Turndowns, rule.Policy.Approval = d.Policy.Checks, d.Policy.Budgets, d.Policy.Turndowns, d.Policy.Approval
	rule.Policy.Rules, rule.Policy.Shrink = d.Policy.Rules, d.Policy.Shrink
	common.CheckPlaces[rule.Name], common.RulePlaces[rule.Name] = d.CheckPlaces, d.RulePlaces
	if node := fields["defaults"]; node != nil {
		rule.Lines["defaults"] = uint32(node.Line)
		rule.Defaults = p.defaults(node, rule)
	}
	if node := fields["allow"]; node != nil {
		rule.Lines["allow"] = uint32(node.Line)
		rule.Allow = p.allowance(node)
	}
}

// refuseEndless refuses a denylist that holds every push of all partitions for good: a stop
// does that, and can be ended.
func (p *parser) refuseEndless(rule *intentpb.CommonRule, c *intentpb.Check, places RulePlaces) {
	s := rule.GetSelect()
	everybody := len(s.GetNames()) == 0 && len(s.GetOwners()) == 0 && len(s.GetLabels()) == 0
	for _, entry := range c.GetDeny().GetEntries() {
		if everybody && c.Where == "" && strings.Trim(entry.GetVersion(), "*") == "" && entry.GetVersion() != "" {
			at := places[""]
			p.at(&yaml.Node{Line: at.Line, Column: at.Column}, "checks."+c.Name, "checks.%s would hold everything in every partition for ever", c.Name).
				hint("name versions; lehr stop --all --reason WHY stops everything until lehr resume --all --reason WHY")
		}
	}
}

func (p *parser) allowance(node *yaml.Node) *intentpb.Allowance {
	fields := p.fields(node, "allow", allowanceFields)
	list := func(name string) []string {
		if fields[name] == nil {
			return nil
		}
		return p.texts(fields[name], "allow."+name)
	}
	return &intentpb.Allowance{Plugins: list("plugins"), Programs: list("programs"), Addresses: list("addresses"), Secrets: list("secrets")}
}

// defaults are parsed as in a lehr.yaml, so that what is wrong with them is told where they are
// written, and kept as JSON.
func (p *parser) defaults(node *yaml.Node, rule *intentpb.CommonRule) string {
	firstNew := len(p.findings)
	fields := p.fields(node, "defaults", defaultFields)
	if validate := fields["validate"]; validate != nil {
		p.fields(validate, "defaults.validate", []string{"shrink"})
	}
	p.eachPair(fields["generate"], "defaults.generate", func(key, value *yaml.Node) {
		if child(value, "resolve") == nil {
			p.at(key, "defaults.generate."+key.Value, "defaults.generate.%s is no resolver", key.Value).hint("a rule gives opinions about what partitions make: {resolve: TYPE, set: {FIELD: CEL}, reason: WHY}")
		}
	})
	if len(p.findings) > firstNew {
		return ""
	}
	root := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: node.Line}
	minimal := []string{"lehr", "v1", "partition", "any"}
	for _, text := range minimal {
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: node.Line})
	}
	for _, name := range []string{"sources", "generate"} {
		if fields[name] != nil {
			continue
		}
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name, Line: node.Line}, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: node.Line})
	}
	root.Content = append(root.Content, resolve(node).Content...)
	p.definition(root)
	for i := range p.findings[firstNew:] {
		p.findings[firstNew+i].Field = join("defaults", p.findings[firstNew+i].Field)
	}
	var value map[string]any
	if err := node.Decode(&value); err != nil {
		p.check(node, "defaults", err)
		return ""
	}
	tellRule(value, rule, p.file)
	text, err := json.Marshal(value)
	p.check(node, "defaults", err)
	return string(text)
}

// tellRule has the reasons of resolvers tell which rule they are of: a definition has no line for
// them.
func tellRule(defaults map[string]any, rule *intentpb.CommonRule, file string) {
	resolvers, _ := defaults["generate"].(map[string]any)
	for _, value := range resolvers {
		if resolver, ok := value.(map[string]any); ok {
			resolver["reason"] = fmt.Sprintf("%v (common rule %s of %s, %s:%d)", resolver["reason"], rule.Name, rule.Owner, file, commonpolicy.LineOf(rule, "defaults"))
		}
	}
}
