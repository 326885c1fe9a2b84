// Package kubekind knows the kinds of objects that every Kubernetes cluster has, by the names
// that people and API servers give them, and reads from the definition of a custom resource
// what it defines. It asks no cluster. The packages cli and kubeaccess call it.
package kubekind

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// Kind is one kind of objects.
type Kind struct {
	// Name is that of manifests, such as Deployment; Group is empty for the core's kinds.
	Name, Group string
	// Plural names the resource in URLs and in roles, such as deployments.
	Plural string
	// Namespaced: its objects are in namespaces.
	Namespaced bool
	// Short are other names that kubectl takes, such as deploy.
	Short []string
}

// Full is Kind.group, as errors of kubectl have it: Deployment.apps.
func (k Kind) Full() string { return FullName(k.Name, k.Group) }

// FullName is Kind.group of a kind that may not be known.
func FullName(kind, group string) string {
	if group == "" {
		return kind
	}
	return kind + "." + group
}

// GroupOf an apiVersion, such as apps of apps/v1.
func GroupOf(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// BuiltIn lists the kinds of every cluster.
var BuiltIn = sync.OnceValue(func() (kinds []Kind) {
	for line := range strings.Lines(builtIn) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		kind := Kind{Plural: words[1], Namespaced: words[2] == "namespaced"}
		kind.Name, kind.Group, _ = strings.Cut(words[0], ".")
		if len(words) > 3 {
			kind.Short = strings.Split(words[3], ",")
		}
		kinds = append(kinds, kind)
	}
	return kinds
})

// Define returns the kind that a CustomResourceDefinition defines; ok is false where it does
// not say so.
func Define(definition map[string]any) (kind Kind, ok bool) {
	spec, _ := definition["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	text := func(from map[string]any, key string) string { value, _ := from[key].(string); return value }
	kind = Kind{Name: text(names, "kind"), Group: text(spec, "group"), Plural: text(names, "plural"), Namespaced: text(spec, "scope") == "Namespaced"}
	short, _ := names["shortNames"].([]any)
	for _, one := range short {
		if name, ok := one.(string); ok {
			kind.Short = append(kind.Short, name)
		}
	}
	if singular := text(names, "singular"); singular != "" {
		kind.Short = append(kind.Short, singular)
	}
	return kind, kind.Name != "" && kind.Group != "" && kind.Plural != ""
}

// Table finds kinds.
type Table struct {
	byFull map[string]Kind
	kinds  []Kind
}

// NewTable has the kinds of every cluster, and others, which count before those.
func NewTable(others ...Kind) *Table {
	t := &Table{byFull: map[string]Kind{}, kinds: slices.Concat(others, BuiltIn())}
	for _, kind := range t.kinds {
		if _, ok := t.byFull[kind.Full()]; !ok {
			t.byFull[kind.Full()] = kind
		}
	}
	return t
}

// Find returns a kind by its names in manifests.
func (t *Table) Find(kind, group string) (found Kind, ok bool) {
	found, ok = t.byFull[FullName(kind, group)]
	return found, ok
}

// Match returns the kinds that a word means to kubectl: a kind in any case, its plural or a
// short name, each alone or before its group, such as deploy, deployments.apps or
// Deployment.apps. A version between the two, as in deployments.v1.apps, is passed over.
func (t *Table) Match(word string) (kinds []Kind) {
	name, group, hasGroup := strings.Cut(strings.ToLower(word), ".")
	if version, rest, ok := strings.Cut(group, "."); ok && isVersion(version) {
		group = rest
	} else if isVersion(group) {
		group = ""
	}
	for _, kind := range t.kinds {
		isNamed := name == strings.ToLower(kind.Name) || name == kind.Plural || slices.Contains(kind.Short, name)
		if isNamed && (!hasGroup || group == kind.Group) && !slices.ContainsFunc(kinds, func(k Kind) bool { return k.Full() == kind.Full() }) {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b Kind) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name)) })
	return kinds
}

// IsNamed reports whether a word means a kind to kubectl. A kind that not every cluster has is named by its own name,
// its usual plural, and its group.
func IsNamed(word, kind, group string) bool {
	known := NewTable().Match(word)
	if len(known) > 0 {
		return slices.ContainsFunc(known, func(k Kind) bool { return k.Name == kind && k.Group == group })
	}
	called := Kind{Name: kind, Group: group, Plural: strings.ToLower(kind) + "s"}
	return len(NewTable(called).Match(word)) > 0
}

// isVersion reports whether a word is an API's version, such as v1 or v2beta1.
func isVersion(word string) bool {
	return len(word) > 1 && word[0] == 'v' && word[1] >= '0' && word[1] <= '9'
}
