package kargo

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// policy says of Stages whether versions come to them without a person.
type policy struct {
	node                *yaml.Node
	name                string
	labels, expressions *yaml.Node
	isAutomatic         bool
}

// readProject reads a Project, which had the policies once, or a ProjectConfig.
func (r *reading) readProject(o *object) {
	if child(o.node, "spec") == nil {
		return
	}
	r.readSpec(o, map[string]func(*yaml.Node){
		"promotionPolicies": func(node *yaml.Node) { r.eachItem(node, "promotionPolicies", r.readPolicy) },
		"webhookReceivers": r.leaveAll("webhookReceivers",
			"whoever runs the server lists webhooks for this partition, with secrets of their own (docs/operate/versions.md); without one versions are found at the next look"),
		"deepLinks": r.leaveAll("deepLinks", "links are told in notifications and at pull requests"),
	})
}

func (r *reading) readPolicy(node *yaml.Node) {
	p := policy{node: node}
	r.eachKey(node, "the promotion policy", map[string]func(*yaml.Node){
		"stage": r.text(&p.name), "autoPromotionEnabled": r.truth(&p.isAutomatic),
		"stageSelector": func(selector *yaml.Node) {
			r.eachKey(selector, "stageSelector", map[string]func(*yaml.Node){
				"name": r.text(&p.name), "matchLabels": func(n *yaml.Node) { p.labels = n; r.keep(n) },
				"matchExpressions": func(n *yaml.Node) { p.expressions = n; r.keep(n) },
			})
		},
	})
	if pattern, ok := strings.CutPrefix(strings.Replace(p.name, "regexp:", "regex:", 1), "regex:"); ok {
		if _, err := regexp.Compile(pattern); err != nil {
			r.refuse(node, "%q is no regular expression (RE2)", pattern)
		}
	}
	if p.expressions != nil {
		r.eachItem(p.expressions, "matchExpressions", func(item *yaml.Node) {
			if operator := attribute(item, "operator"); !slices.Contains([]string{"In", "NotIn", "Exists", "DoesNotExist"}, operator) {
				r.refuse(item, "the selector of Stages has the operator %q, which is none of In, NotIn, Exists and DoesNotExist", operator)
			}
		})
	}
	if p.name == "" && p.labels == nil && p.expressions == nil {
		r.refuse(node, "the promotion policy selects no Stage: name one, or labels")
	}
	r.policies = append(r.policies, p)
}

// isAutomatic reports whether a policy says so and none says otherwise.
func (r *reading) isAutomatic(s *stage) bool {
	isAutomatic := false
	for _, p := range r.policies {
		if !p.selects(s) {
			continue
		}
		if !p.isAutomatic {
			return false
		}
		isAutomatic = true
	}
	return isAutomatic
}

func (p policy) selects(s *stage) bool {
	if !p.namesStage(s.name) {
		return false
	}
	labels := textsOf(child(s.object.node, "metadata", "labels"))
	for key, value := range textsOf(p.labels) {
		if labels[key] != value {
			return false
		}
	}
	for i := 0; p.expressions != nil && i < len(p.expressions.Content); i++ {
		if !selectsLabel(p.expressions.Content[i], labels) {
			return false
		}
	}
	return true
}

func (p policy) namesStage(name string) bool {
	if pattern, ok := strings.CutPrefix(p.name, "glob:"); ok {
		isNamed, err := path.Match(pattern, name)
		return isNamed && err == nil
	}
	for _, prefix := range []string{"regex:", "regexp:"} {
		if pattern, ok := strings.CutPrefix(p.name, prefix); ok {
			compiled, err := regexp.Compile(pattern)
			return err == nil && compiled.MatchString(name)
		}
	}
	return p.name == "" || p.name == name
}

// selectsLabel is an expression of a selector of Kubernetes.
func selectsLabel(expression *yaml.Node, labels map[string]any) bool {
	value, ok := labels[attribute(expression, "key")]
	var values []string
	if list := child(expression, "values"); list != nil {
		for _, item := range list.Content {
			values = append(values, item.Value)
		}
	}
	text, _ := value.(string)
	switch attribute(expression, "operator") {
	case "In":
		return ok && slices.Contains(values, text)
	case "NotIn":
		return !ok || !slices.Contains(values, text)
	case "Exists":
		return ok
	case "DoesNotExist":
		return !ok
	}
	return false
}
