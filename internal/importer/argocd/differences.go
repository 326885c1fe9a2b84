package argocd

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// addonsOf are the addons of all objects of an Application: what finds them, and whether they
// are pushed.
func (l *importing) addonsOf(a *app) []map[string]any {
	labels := map[string]any{applicationLabel: a.Metadata.Name, projectLabel: a.projectName()}
	list := []map[string]any{{"Labels": map[string]any{"labels": labels}}}
	if !a.isAutomated() {
		list[0]["Mode"] = "observe"
		l.manual = append(l.manual, a.Metadata.Name)
	}
	return list
}

func (a *app) projectName() string {
	if a.Spec.Project == "" {
		return "default"
	}
	return a.Spec.Project
}

func (a *app) isAutomated() bool {
	policy := a.Spec.SyncPolicy
	return policy != nil && policy.Automated != nil && (policy.Automated.Enabled == nil || *policy.Automated.Enabled)
}

// step of a path within an object: a field, the number of an element, an element by a field, or
// all elements.
type step struct {
	field, key, value string
	index             int
	isIndex, isEach   bool
}

// pointerSteps reads a JSON pointer.
func pointerSteps(pointer string) (steps []step, ok bool) {
	if !strings.HasPrefix(pointer, "/") || pointer == "/" {
		return nil, false
	}
	for _, part := range strings.Split(pointer[1:], "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		if index, err := strconv.Atoi(part); err == nil && len(steps) > 0 {
			steps = append(steps, step{index: index, isIndex: true, field: part})
			continue
		}
		steps = append(steps, step{field: part})
	}
	return steps, true
}

var (
	jqField  = regexp.MustCompile(`^\.?(?:"((?:[^"\\]|\\.)*)"|([A-Za-z_][A-Za-z0-9_]*))\??`)
	jqKey    = regexp.MustCompile(`^\.?\[\s*"((?:[^"\\]|\\.)*)"\s*\]\??`)
	jqIndex  = regexp.MustCompile(`^\.?\[\s*([0-9]+)\s*\]\??`)
	jqEach   = regexp.MustCompile(`^\.?\[\s*\]\??`)
	jqSelect = regexp.MustCompile(`^\s*\|\s*select\(\s*\.([A-Za-z_][A-Za-z0-9_]*)\s*==\s*"((?:[^"\\]|\\.)*)"\s*\)`)
	jqPipe   = regexp.MustCompile(`^\s*\|\s*`)
)

// jqSteps reads the paths of jq: fields, elements, and select(.name == "x").
func jqSteps(text string) (steps []step, ok bool) {
	rest := strings.TrimSpace(text)
	if !strings.HasPrefix(rest, ".") {
		return nil, false
	}
	for rest != "" {
		if found := jqSelect.FindStringSubmatch(rest); found != nil && len(steps) > 0 && steps[len(steps)-1].isEach {
			steps[len(steps)-1] = step{key: found[1], value: found[2]}
			rest = rest[len(found[0]):]
			continue
		}
		if found := jqPipe.FindString(rest); found != "" && strings.HasPrefix(rest[len(found):], ".") {
			rest = rest[len(found):]
			continue
		}
		var found []string
		switch {
		case jqEach.MatchString(rest):
			found = jqEach.FindStringSubmatch(rest)
			steps = append(steps, step{isEach: true})
		case jqIndex.MatchString(rest):
			found = jqIndex.FindStringSubmatch(rest)
			index, _ := strconv.Atoi(found[1])
			steps = append(steps, step{index: index, isIndex: true, field: found[1]})
		case jqKey.MatchString(rest):
			found = jqKey.FindStringSubmatch(rest)
			steps = append(steps, step{field: found[1]})
		case jqField.MatchString(rest):
			found = jqField.FindStringSubmatch(rest)
			steps = append(steps, step{field: found[1] + found[2]})
		default:
			return nil, false
		}
		rest = rest[len(found[0]):]
	}
	return steps, len(steps) > 0
}

var plainField = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// fieldPath writes steps as the paths of Unmanaged. Elements that are named by number, or not
// at all, are found in the objects: those of most lists are known by their names.
func fieldPaths(steps []step, objects []map[string]any) (paths []string, ok bool) {
	if last := steps[len(steps)-1]; last.isEach || last.key != "" {
		return nil, false
	}
	isOpen := slices.ContainsFunc(steps, func(s step) bool { return s.isEach || s.isIndex })
	if !isOpen {
		return []string{writeSteps(steps)}, true
	}
	for _, o := range objects {
		for _, resolved := range resolveSteps(steps, o) {
			if text := writeSteps(resolved); !slices.Contains(paths, text) {
				paths = append(paths, text)
			}
		}
	}
	return paths, len(paths) > 0
}

func writeSteps(steps []step) string {
	text := "json"
	for _, s := range steps {
		switch {
		case s.key != "":
			text += "[" + s.key + "=" + s.value + "]"
		case s.isIndex:
			text += fmt.Sprintf("[%d]", s.index)
		case plainField.MatchString(s.field):
			text += "." + s.field
		default:
			text += fmt.Sprintf("[%q]", s.field)
		}
	}
	return text
}

// resolveSteps names the elements that an object has.
func resolveSteps(steps []step, value any) [][]step {
	if len(steps) == 0 {
		return [][]step{nil}
	}
	first := steps[0]
	var all [][]step
	follow := func(with step, below any) {
		for _, rest := range resolveSteps(steps[1:], below) {
			all = append(all, append([]step{with}, rest...))
		}
	}
	switch list, ok := value.([]any); {
	case ok && (first.isEach || first.isIndex):
		for i, element := range list {
			if first.isIndex && i != first.index {
				continue
			}
			fields, _ := element.(map[string]any)
			if name, ok := fields["name"].(string); ok {
				follow(step{key: "name", value: name}, element)
			} else {
				follow(step{index: i, isIndex: true}, element)
			}
		}
	case ok && first.key != "":
		for _, element := range list {
			fields, _ := element.(map[string]any)
			if fields[first.key] == first.value {
				follow(first, element)
			}
		}
	default:
		fields, _ := value.(map[string]any)
		if first.field != "" {
			follow(step{field: first.field}, fields[first.field])
		} else if first.isEach {
			for _, key := range sortedKeys(fields) {
				follow(step{field: key}, fields[key])
			}
		}
	}
	return all
}

// ignoreDifferences gives the objects of an Application the fields that production owns.
func (l *importing) ignoreDifferences(a *app, objects []map[string]any) {
	for _, rule := range slices.Concat(a.Spec.IgnoreDifferences, l.ignoredByAll) {
		isOwn := slices.ContainsFunc(a.Spec.IgnoreDifferences, func(r ignored) bool { return inJSON(r) == inJSON(rule) })
		tell := func(what string) {
			if isOwn {
				l.leave(a.String(), fmt.Sprintf("%s: ignoreDifferences of %s: %s", a.place, rule.Kind, what), true)
			}
		}
		var about []map[string]any
		for _, o := range objects {
			if rule.isAbout(o) {
				about = append(about, o)
			}
		}
		if !isOwn && len(about) == 0 {
			continue
		}
		var fields []any
		add := func(text string, steps []step, ok bool) {
			if ok {
				var paths []string
				if paths, ok = fieldPaths(steps, about); ok {
					for _, path := range paths {
						fields = append(fields, map[string]any{"path": path, "reason": "Argo CD ignored its differences"})
					}
					return
				}
			}
			tell(text + " leads to no field that an object of this render has, or is more than a path: annotate the object, lehr.dev/unmanaged: PATH")
		}
		for _, pointer := range rule.JSONPointers {
			steps, ok := pointerSteps(pointer)
			add(pointer, steps, ok)
		}
		for _, expression := range rule.JQPathExpressions {
			steps, ok := jqSteps(expression)
			add(expression, steps, ok)
		}
		for _, manager := range rule.ManagedFieldsManagers {
			tell("the fields of the manager " + manager + " are known only in the cluster; those that intent does not name are left to it anyway, and others are named by lehr.dev/unmanaged: PATH")
		}
		if len(fields) == 0 {
			continue
		}
		for _, made := range a.made {
			made.addons = append(made.addons, map[string]any{"where": rule.condition(), "Unmanaged": map[string]any{"fields": fields}})
		}
	}
}

// isAbout says whether a rule is about an object.
func (r ignored) isAbout(o map[string]any) bool {
	kind, group, _ := strings.Cut(fullKind(o), ".")
	head, _ := o["metadata"].(map[string]any)
	is := func(wanted, got string) bool { return wanted == "" || wanted == "*" || wanted == got }
	name, _ := head["name"].(string)
	namespace, _ := head["namespace"].(string)
	return is(r.Kind, kind) && (r.Group == "*" || r.Kind == "*" && r.Group == "" || r.Group == group) && is(r.Name, name) && is(r.Namespace, namespace)
}

// condition says the same in CEL.
func (r ignored) condition() string {
	parts := []string{`type == "Object"`}
	add := func(field, value string) {
		if value != "" && value != "*" {
			parts = append(parts, fmt.Sprintf("payload.%s == %q", field, value))
		}
	}
	add("kind", r.Kind)
	switch {
	case r.Group == "*" || r.Group == "" && (r.Kind == "*" || r.Kind == ""):
	case r.Group == "":
		parts = append(parts, `!payload.api_version.contains("/")`)
	default:
		parts = append(parts, fmt.Sprintf("payload.api_version.startsWith(%q)", r.Group+"/"))
	}
	add("name", r.Name)
	add("namespace", r.Namespace)
	return strings.Join(parts, " && ")
}

// settingsDifferences reads what the ConfigMap argocd-cm has Argo CD ignore of all.
func settingsDifferences(o object) (list []ignored) {
	data, _ := o.fields["data"].(map[string]any)
	const prefix = "resource.customizations.ignoreDifferences."
	for _, key := range sortedKeys(data) {
		of, ok := strings.CutPrefix(key, prefix)
		text, isText := data[key].(string)
		if !ok || !isText {
			continue
		}
		value, err := parseYAML([]byte(text))
		var rule ignored
		if err != nil || convert(value, &rule) != nil {
			continue
		}
		if rule.Group, rule.Kind, ok = strings.Cut(of, "_"); !ok {
			rule.Group, rule.Kind = "", of
		}
		if of == "all" {
			rule.Group, rule.Kind = "*", "*"
		}
		list = append(list, rule)
	}
	return list
}
