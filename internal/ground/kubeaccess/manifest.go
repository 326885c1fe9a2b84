package kubeaccess

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Subject is who is bound to the roles.
type Subject struct {
	Kind      string `json:"kind"`
	Group     string `json:"apiGroup,omitempty"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// accountPrefix is how the API server names a service account among users.
const accountPrefix = "system:serviceaccount:"

// User is a subject by the name that the API server has for it; a service account is one of
// these, too.
func User(name string) Subject {
	if namespace, account, ok := strings.Cut(strings.TrimPrefix(name, accountPrefix), ":"); ok && strings.HasPrefix(name, accountPrefix) {
		return Subject{Kind: "ServiceAccount", Name: account, Namespace: namespace}
	}
	return Subject{Kind: "User", Group: accessGroup, Name: name}
}

// Group is a subject.
func Group(name string) Subject { return Subject{Kind: "Group", Group: accessGroup, Name: name} }

// Impersonating returns what credentials need to ask as others.
func Impersonating(subjects []Subject) Access {
	n := need{rules: map[string]map[string]*Rule{}}
	for _, s := range subjects {
		n.allow(s.Namespace, "", strings.ToLower(s.Kind)+"s", []string{s.Name}, "ask as another, as the list of clusters says", "impersonate")
	}
	return n.access()
}

// Manifest is a Role, a ClusterRole or a binding of one.
type Manifest struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Metadata   Metadata  `json:"metadata"`
	Rules      []Rule    `json:"rules,omitempty"`
	Subjects   []Subject `json:"subjects,omitempty"`
	Role       *RoleRef  `json:"roleRef,omitempty"`
}

// Metadata names a manifest.
type Metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// RoleRef is what a binding binds.
type RoleRef struct {
	Group string `json:"apiGroup"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

// Manifests of an access: a ClusterRole for the cluster, and a Role for each namespace.
func Manifests(access Access, name string) (manifests []Manifest) {
	for _, namespace := range append([]string{""}, access.Namespaces()...) {
		if rules := access[namespace]; len(rules) > 0 {
			manifests = append(manifests, Manifest{APIVersion: accessGroup + "/v1", Kind: kindIn(namespace, "Role"), Metadata: Metadata{name, namespace}, Rules: rules})
		}
	}
	return manifests
}

// Bindings of roles to subjects.
func Bindings(roles []Manifest, subjects []Subject) (bindings []Manifest) {
	for _, role := range roles {
		bindings = append(bindings, Manifest{
			APIVersion: accessGroup + "/v1", Kind: role.Kind + "Binding", Metadata: role.Metadata, Subjects: subjects,
			Role: &RoleRef{accessGroup, role.Kind, role.Metadata.Name},
		})
	}
	return bindings
}

func kindIn(namespace, kind string) string {
	if namespace == "" {
		return "Cluster" + kind
	}
	return kind
}

// YAML of a manifest, with why each rule is there.
func (m Manifest) YAML() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\nmetadata: %s\n", m.APIVersion, m.Kind, writeMap("name", m.Metadata.Name, "namespace", m.Metadata.Namespace))
	if m.Role != nil {
		fmt.Fprintf(&b, "roleRef: %s\nsubjects:\n", writeMap("apiGroup", m.Role.Group, "kind", m.Role.Kind, "name", m.Role.Name))
		for _, s := range m.Subjects {
			fmt.Fprintf(&b, "- %s\n", writeMap("kind", s.Kind, "apiGroup", s.Group, "name", s.Name, "namespace", s.Namespace))
		}
		return b.String()
	}
	b.WriteString("rules:\n")
	reason := ""
	for _, rule := range m.Rules {
		if rule.Why != reason {
			fmt.Fprintf(&b, "# %s\n", rule.Why)
		}
		reason = rule.Why
		lead := "- "
		for _, field := range []struct {
			name   string
			values []string
		}{{"apiGroups", rule.Groups}, {"resources", rule.Resources}, {"resourceNames", rule.Names}, {"nonResourceURLs", rule.URLs}, {"verbs", rule.Verbs}} {
			if len(field.values) > 0 {
				fmt.Fprintf(&b, "%s%s: %s\n", lead, field.name, writeList(field.values))
				lead = "  "
			}
		}
	}
	return b.String()
}

// Commented is YAML that does nothing as it stands.
func Commented(text string) string {
	return "# " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n# ") + "\n"
}

// writeMap returns a map of texts on one line, without those that are empty.
func writeMap(pairs ...string) string {
	var parts []string
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			parts = append(parts, pair[0]+": "+quote(pair[1]))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func writeList(values []string) string {
	parts := make([]string, len(values))
	for i, value := range values {
		parts[i] = quote(value)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// quote returns a text as YAML and JSON both take it.
func quote(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(encoded)
}
