package definition

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// Place is where something is written.
type Place struct{ Line, Column int }

// RulePlaces say where each field of a validation rule, or of a check, is
// written, by its name. The empty name is the rule itself.
type RulePlaces map[string]Place

const (
	// maxRules of a partition: each changed asset is judged by all.
	maxRules = 200
	// What is asked outside is answered within defaultTimeout, and counts for
	// defaultKeep, unless the rule says otherwise.
	defaultTimeout, mostTimeout = 5 * time.Second, time.Minute
	defaultKeep                 = 5 * time.Minute
)

var ruleFields = []string{"id", "where", "must", "severity", "message", "scope", "by", "http", "parameters", "sql", "database", "command", "arguments", "timeout", "keep"}

var ruleSeverities = map[string]intentpb.ValidationRule_Severity{
	"error":   intentpb.ValidationRule_SEVERITY_ERROR,
	"warning": intentpb.ValidationRule_SEVERITY_WARNING,
	"hold":    intentpb.ValidationRule_SEVERITY_HOLD,
}

var ruleScopes = map[string]intentpb.ValidationRule_Scope{
	"asset":         intentpb.ValidationRule_SCOPE_ASSET,
	"neighbourhood": intentpb.ValidationRule_SCOPE_NEIGHBOURHOOD,
	"whole":         intentpb.ValidationRule_SCOPE_WHOLE,
}

var ruleID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`) })

func (p *parser) rules(node *yaml.Node) (rules []*intentpb.ValidationRule, places []RulePlaces) {
	if node == nil {
		return nil, nil
	}
	const at = "validate.rules"
	if node.Kind != yaml.SequenceNode {
		p.at(node, at, "%s must be a list, is %s", at, describe(node)).hint(`write rules: [{id: redundant, where: type == "Job", must: payload.replicas >= 2}]`)
		return nil, nil
	}
	if len(node.Content) > maxRules {
		p.at(node, at, "there are %d rules, at most %d are allowed", len(node.Content), maxRules).hint("join those that are about the same assets")
		return nil, nil
	}
	for i, element := range node.Content {
		rule, place := p.rule(resolve(element), fmt.Sprintf("%s[%d]", at, i))
		if slices.ContainsFunc(rules, func(r *intentpb.ValidationRule) bool { return r.Id == rule.Id && rule.Id != "" }) {
			p.at(element, fmt.Sprintf("%s[%d].id", at, i), "two rules are named %q", rule.Id).hint("rename one of them")
		}
		rules, places = append(rules, rule), append(places, place)
	}
	return rules, places
}

func (p *parser) rule(node *yaml.Node, at string) (*intentpb.ValidationRule, RulePlaces) {
	rule := &intentpb.ValidationRule{Severity: intentpb.ValidationRule_SEVERITY_ERROR, Scope: intentpb.ValidationRule_SCOPE_ASSET}
	places := RulePlaces{"": {node.Line, node.Column}}
	fields := p.fieldsOf(node, at, ruleFields)
	for name, value := range fields {
		places[name] = Place{value.Line, value.Column}
	}
	for _, name := range []string{"id", "must"} {
		if fields[name] == nil && node.Kind == yaml.MappingNode {
			p.at(node, at+"."+name, "%s.%s is missing", at, name).hint("write {id: NAME, must: EXPRESSION}")
		}
	}
	if id := fields["id"]; id != nil {
		if rule.Id = p.text(id, at+".id"); rule.Id != "" && !ruleID().MatchString(rule.Id) {
			p.at(id, at+".id", "%q is not a name", rule.Id).hint("use a-z, 0-9, - and _, at most 63")
		}
	}
	text := func(name string) string {
		if e := p.expression(fields[name], at+"."+name); e != nil {
			return e.Text
		}
		return ""
	}
	rule.Where, rule.Must, rule.By, rule.Message = text("where"), text("must"), text("by"), text("message")
	if value := fields["severity"]; value != nil {
		rule.Severity = choice(p, value, at+".severity", ruleSeverities, "error, warning or hold")
	}
	if value := fields["scope"]; value != nil {
		rule.Scope = choice(p, value, at+".scope", ruleScopes, "asset, neighbourhood or whole")
	}
	if byNode := fields["by"]; byNode != nil && rule.Scope != intentpb.ValidationRule_SCOPE_WHOLE {
		p.at(byNode, at+".by", "%s.by is for scope: whole", at).hint("remove it, or change the scope")
	}
	rule.External = p.external(fields, node, at)
	if rule.External != nil && rule.Scope != intentpb.ValidationRule_SCOPE_ASSET {
		p.at(fields["scope"], at+".scope", "%s asks something outside about single assets", at).hint("write scope: asset, or remove it")
	}
	return rule, places
}

func choice[T any](p *parser, node *yaml.Node, at string, options map[string]T, allowed string) (chosen T) {
	chosen, ok := options[node.Value]
	if !ok {
		p.at(node, at, "%s: %s is not known", at, describe(node)).hint("write %s", allowed)
	}
	return chosen
}

// external is what a rule asks outside; nil: nothing.
func (p *parser) external(fields map[string]*yaml.Node, node *yaml.Node, at string) *intentpb.ExternalCheck {
	var kinds []string
	for _, name := range []string{"http", "sql", "command"} {
		if fields[name] != nil {
			kinds = append(kinds, name)
		}
	}
	for _, only := range []struct {
		name   string
		owners []string
	}{
		{"parameters", []string{"http"}}, {"database", []string{"sql"}}, {"arguments", []string{"sql", "command"}},
		{"timeout", []string{"http", "sql", "command"}}, {"keep", []string{"http", "sql", "command"}},
	} {
		if value := fields[only.name]; value != nil && (len(kinds) != 1 || !slices.Contains(only.owners, kinds[0])) {
			p.at(value, at+"."+only.name, "%s.%s is for a rule with %s", at, only.name, strings.Join(only.owners, " or ")).hint("remove it")
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	if len(kinds) > 1 {
		p.at(node, at, "%s asks by %s", at, strings.Join(kinds, " and by ")).hint("write two rules")
		return nil
	}
	e := &intentpb.ExternalCheck{Timeout: durationpb.New(defaultTimeout), Keep: durationpb.New(defaultKeep)}
	switch kinds[0] {
	case "http":
		text := p.text(fields["http"], at+".http")
		if !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
			p.at(fields["http"], at+".http", "%.200q is no URL", text).hint("write https://HOST/PATH; what depends on the asset goes into parameters")
		}
		e.Ask = &intentpb.ExternalCheck_Http{Http: text}
	case "sql":
		e.Ask = &intentpb.ExternalCheck_Sql{Sql: p.text(fields["sql"], at+".sql")}
		if fields["database"] == nil {
			p.at(node, at+".database", "%s.database is missing", at).hint("name a database that the server's policy lists")
		} else {
			e.Database = p.text(fields["database"], at+".database")
		}
	case "command":
		e.Ask = &intentpb.ExternalCheck_Command{Command: &intentpb.CommandLine{Line: p.texts(fields["command"], at+".command")}}
	}
	p.eachPair(fields["parameters"], at+".parameters", func(key, value *yaml.Node) {
		if e.Parameters == nil {
			e.Parameters = map[string]string{}
		}
		if x := p.expression(value, at+".parameters."+key.Value); x != nil {
			e.Parameters[key.Value] = x.Text
		}
	})
	if list := fields["arguments"]; list != nil {
		if list.Kind != yaml.SequenceNode {
			p.at(list, at+".arguments", "%s.arguments must be a list, is %s", at, describe(list)).hint("write arguments: [payload.name]")
		} else {
			for i, element := range list.Content {
				if x := p.expression(resolve(element), at+".arguments["+strconv.Itoa(i)+"]"); x != nil {
					e.Arguments = append(e.Arguments, x.Text)
				}
			}
		}
	}
	if value := fields["timeout"]; value != nil {
		d := p.duration(value, at+".timeout")
		if d > mostTimeout {
			p.at(value, at+".timeout", "%s.timeout is longer than %s", at, mostTimeout).hint("write at most 1m")
		}
		e.Timeout = durationpb.New(d)
	}
	if value := fields["keep"]; value != nil {
		e.Keep = durationpb.New(p.duration(value, at+".keep"))
	}
	return e
}
