package kubernetes

import (
	"errors"
	"fmt"
	"path"
	"regexp"

	"lehr.dev/sdk/generator"
)

// Settings are what lehr.yaml says in with.
type Settings struct {
	// Cluster names the cluster that objects are for; a segment of ids.
	Cluster string
	// Namespace of objects that name none; "default" if empty.
	Namespace string
	// References that objects make, beside those of the built-in table.
	References []Reference
	// Omit lists what is left out, as KIND[.GROUP]/NAME, patterns of path.Match.
	Omit []string
	// ClusterScoped lists kinds, as KIND.GROUP, that have no namespace, beside
	// those of Kubernetes and of CustomResourceDefinitions that are read.
	ClusterScoped []string
	// Hooks says what is made of hooks of Helm and Argo CD.
	Hooks Hooks
	// Skip, if there is one, says what else is left out, by its fields.
	Skip func(kind, name string, fields map[string]any) bool
}

// Reference is a field by which an object of a kind names one of another kind,
// in its own namespace; which must then be there first. Kinds are KIND[.GROUP].
type Reference struct{ Of, Path, To string }

// Keys are what with may hold for every renderer of Kubernetes objects.
var Keys = []string{"cluster", "cluster_scoped", "hooks", "namespace", "omit", "reference"}

var (
	segmentPattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)
	kindPattern      = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*(\.[a-z0-9.-]+)?$`)
	referencePattern = regexp.MustCompile(`^([A-Z][A-Za-z0-9]*(?:\.[a-z0-9.-]+)?):([A-Za-z0-9_./\[\]-]+)=([A-Z][A-Za-z0-9]*(?:\.[a-z0-9.-]+)?)$`)
	omitPattern      = regexp.MustCompile(`^[A-Z*][A-Za-z0-9*]*(\.[a-z0-9.*-]+)?/.+$`)
)

// SettingsOf reads options, of which Keys are read. An error says what is wrong
// with one, and what to write.
func SettingsOf(options generator.Options) (Settings, error) {
	s := Settings{Omit: options["omit"], ClusterScoped: options["cluster_scoped"]}
	var err error
	if s.Cluster, err = options.One("cluster", ""); err != nil {
		return s, err
	}
	if s.Namespace, err = options.One("namespace", "default"); err != nil {
		return s, err
	}
	hooks, err := options.One("hooks", "")
	switch {
	case err != nil:
		return s, err
	case hooks == "":
		s.Hooks = HooksLeftOut
	case hooks == "include":
		s.Hooks = HooksIncluded
	case hooks == "generations":
		s.Hooks = HooksByContent
	default:
		return s, fmt.Errorf("with.hooks %q is not known: write include, generations, or nothing", hooks)
	}
	for _, text := range options["reference"] {
		parts := referencePattern.FindStringSubmatch(text)
		if parts == nil {
			return s, fmt.Errorf("with.reference %q is none: write KIND.GROUP:PATH=KIND.GROUP, for example Certificate.cert-manager.io:spec.issuerRef.name=Issuer.cert-manager.io", text)
		}
		s.References = append(s.References, Reference{parts[1], parts[2], parts[3]})
	}
	return s, s.check()
}

func (s *Settings) check() error {
	switch {
	case s.Cluster == "":
		return errors.New("with does not name the cluster that the objects are for: write with: {cluster: NAME}, for objects of two clusters are two assets")
	case !segmentPattern.MatchString(s.Cluster):
		return fmt.Errorf("with.cluster %q is no name: write one of the form [a-z0-9][a-z0-9._-]*", s.Cluster)
	case !segmentPattern.MatchString(s.Namespace):
		return fmt.Errorf("with.namespace %q is no name: write one of the form [a-z0-9]([-a-z0-9]*[a-z0-9])?", s.Namespace)
	}
	for _, kind := range s.ClusterScoped {
		if !kindPattern.MatchString(kind) {
			return fmt.Errorf("with.cluster_scoped %q is no kind: write KIND.GROUP, for example ClusterIssuer.cert-manager.io", kind)
		}
	}
	for _, omit := range s.Omit {
		if !omitPattern.MatchString(omit) {
			return fmt.Errorf("with.omit %q names no object: write KIND.GROUP/NAME, for example Secret/database-password", omit)
		}
		if _, err := path.Match(omit, ""); err != nil {
			return fmt.Errorf("with.omit %q is no pattern: * stands for any text, ? for one character, [ab] for one of them", omit)
		}
	}
	return nil
}
