package kubernetes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Settings are what lehr.yaml says in with.
type Settings struct {
	// Cluster names the cluster that objects are for; a segment of ids.
	Cluster string
	// Namespace of objects that name none; "default" if empty.
	Namespace string
	// References that objects make, beside those of the built-in table.
	References []Reference
	// Omit lists what is left out, as KIND[.GROUP]/NAME.
	Omit []string
	// ClusterScoped lists kinds, as KIND.GROUP, that have no namespace, beside
	// those of Kubernetes and of CustomResourceDefinitions that are read.
	ClusterScoped []string
}

// Reference is a field by which an object of a kind names one of another kind,
// in its own namespace; which must then be there first. Kinds are KIND[.GROUP].
type Reference struct{ Of, Path, To string }

// Keys are what with may hold for every renderer of Kubernetes objects.
var Keys = []string{"cluster", "cluster_scoped", "namespace", "omit", "reference"}

var (
	segmentPattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)
	kindPattern      = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*(\.[a-z0-9.-]+)?$`)
	referencePattern = regexp.MustCompile(`^([A-Z][A-Za-z0-9]*(?:\.[a-z0-9.-]+)?):([A-Za-z0-9_./\[\]-]+)=([A-Z][A-Za-z0-9]*(?:\.[a-z0-9.-]+)?)$`)
	omitPattern      = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*(\.[a-z0-9.-]+)?/.+$`)
)

// ParseSettings reads arguments of the form --KEY=VALUE, as with becomes. It
// returns what is wrong, if anything is.
func ParseSettings(arguments []string) (Settings, *Finding) {
	var s Settings
	for _, argument := range arguments {
		key, value, found := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		if !found || !s.set(key, value) {
			return s, unknown(key, Keys)
		}
	}
	return s, s.check()
}

// Take reads those arguments that are of every renderer of Kubernetes objects,
// and returns the others, by key. allowed lists the keys of those.
func Take(arguments, allowed []string) (Settings, map[string][]string, *Finding) {
	var s Settings
	others := map[string][]string{}
	for _, argument := range arguments {
		key, value, found := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		switch {
		case found && s.set(key, value):
		case found && slices.Contains(allowed, key):
			others[key] = append(others[key], value)
		default:
			return s, nil, unknown(key, append(slices.Clone(Keys), allowed...))
		}
	}
	return s, others, s.check()
}

func (s *Settings) set(key, value string) bool {
	switch key {
	case "cluster":
		s.Cluster = value
	case "namespace":
		s.Namespace = value
	case "omit":
		s.Omit = append(s.Omit, value)
	case "cluster_scoped":
		s.ClusterScoped = append(s.ClusterScoped, value)
	case "reference":
		parts := referencePattern.FindStringSubmatch(value)
		if parts == nil {
			parts = []string{"", value, "", ""} // check tells.
		}
		s.References = append(s.References, Reference{parts[1], parts[2], parts[3]})
	default:
		return false
	}
	return true
}

func (s *Settings) check() *Finding {
	if s.Namespace == "" {
		s.Namespace = "default"
	}
	wrong := func(hint, format string, arguments ...any) *Finding {
		return &Finding{File: "lehr.yaml", Message: fmt.Sprintf(format, arguments...), Hint: hint}
	}
	switch {
	case s.Cluster == "":
		return wrong("write with: {cluster: NAME}: objects of two clusters are two assets", "with does not name the cluster that the objects are for")
	case !segmentPattern.MatchString(s.Cluster):
		return wrong("a name is of the form [a-z0-9][a-z0-9._-]*", "with.cluster is not the name of a cluster")
	case !segmentPattern.MatchString(s.Namespace):
		return wrong("a name is of the form [a-z0-9]([-a-z0-9]*[a-z0-9])?", "with.namespace is not the name of a namespace")
	}
	for _, reference := range s.References {
		if reference.To == "" {
			return wrong("write KIND.GROUP:PATH=KIND.GROUP, for example Certificate.cert-manager.io:spec.issuerRef.name=Issuer.cert-manager.io", "with.reference %q is none", reference.Of)
		}
	}
	for _, kind := range s.ClusterScoped {
		if !kindPattern.MatchString(kind) {
			return wrong("write KIND.GROUP, for example ClusterIssuer.cert-manager.io", "with.cluster_scoped %q is no kind", kind)
		}
	}
	for _, omit := range s.Omit {
		if !omitPattern.MatchString(omit) {
			return wrong("write KIND.GROUP/NAME, for example Secret/database-password", "with.omit %q names no object", omit)
		}
	}
	return nil
}

func unknown(key string, allowed []string) *Finding {
	allowed = slices.Sorted(slices.Values(allowed))
	return &Finding{
		File: "lehr.yaml", Message: fmt.Sprintf("with.%s is not known", key),
		Hint: "with may hold " + strings.Join(allowed, ", "),
	}
}
