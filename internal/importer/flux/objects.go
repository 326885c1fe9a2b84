package flux

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Groups of Flux, without their versions: v1, v1beta2, v2 and v2beta1 say the same.
const (
	fluxSuffix     = ".fluxcd.io"
	kustomizeGroup = "kustomize.toolkit.fluxcd.io"
	helmGroup      = "helm.toolkit.fluxcd.io"
	sourceGroup    = "source.toolkit.fluxcd.io"
	operatorGroup  = "fluxcd.controlplane.io"
	repositoryKind = "GitRepository"
	ociKind        = "OCIRepository"
	artifactKind   = "ExternalArtifact"
)

// object is one that Flux applies, or that says what it applies.
type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name, Namespace     string
		Labels, Annotations map[string]string
	} `json:"metadata"`
	Spec       json.RawMessage   `json:"spec"`
	Data       map[string]string `json:"data"`
	BinaryData map[string]string `json:"binaryData"`
	// Sops is there in a Secret that SOPS encrypted.
	Sops json.RawMessage `json:"sops"`
	// keys of a Secret's content, and never the content.
	keys []string
	// file and owner: where it was found.
	file string
	// owner is the Kustomization that applies it; nil: it was found beside them.
	owner *kustomization
}

func (o object) group() string {
	group, _, ok := strings.Cut(o.APIVersion, "/")
	if !ok {
		return ""
	}
	return group
}

func (o object) place() string {
	text := o.Kind + " " + strings.TrimPrefix(o.Metadata.Namespace+"/"+o.Metadata.Name, "/")
	if o.file != "" {
		text += " (" + o.file + ")"
	}
	return text
}

// isOfFlux reports whether it is one that only Flux reads.
func (o object) isOfFlux() bool {
	return strings.HasSuffix(o.group(), fluxSuffix) || o.group() == operatorGroup
}

// notCarried says why objects of some kinds become nothing here, and what does their work.
var notCarried = map[string]struct {
	why     string
	isWrong bool
}{
	"Bucket":                {"nothing reads a bucket: copy it into a repository, an artifact, or a folder that --checkout names", true},
	"ResourceSet":           {"Flux Operator makes objects of its templates: import what it made, by --live, or write them out", true},
	"FluxInstance":          {"it installs Flux itself", false},
	"ImageUpdateAutomation": {"lehr delivers versions: docs/use/delivery.md", false},
	"ImagePolicy":           {"lehr delivers versions: docs/use/delivery.md", false},
	"ImageRepository":       {"a source with registry lists versions: docs/use/sources.md", false},
	"Alert":                 {"notifications are the operator's: docs/operate/notifications.md", false},
	"Provider":              {"notifications are the operator's: docs/operate/notifications.md", false},
	"Receiver":              {"each partition has a webhook for its sources: docs/use/sources.md", false},
}

// named is the key by which others name it.
type named struct{ kind, namespace, name string }

func (o object) key() named { return named{o.Kind, o.Metadata.Namespace, o.Metadata.Name} }

// readObjects reads documents of YAML or JSON, and the lists among them. What is no object
// is passed over: whoever builds it says so.
func readObjects(text []byte, file string) (list []object, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var value any
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return list, err
		}
		list = append(list, objectsOf(value, file)...)
	}
}

func objectsOf(value any, file string) (list []object) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	if kind, _ := fields["kind"].(string); strings.HasSuffix(kind, "List") {
		items, _ := fields["items"].([]any)
		for _, item := range items {
			list = append(list, objectsOf(item, file)...)
		}
		return list
	}
	var keys []string
	if fields["kind"] == "Secret" {
		for _, content := range []string{"data", "stringData"} {
			values, _ := fields[content].(map[string]any)
			for key := range values {
				keys = append(keys, key)
			}
			delete(fields, content) // No secret is kept (S13).
		}
	}
	text, err := json.Marshal(fields)
	var o object
	if err != nil || json.Unmarshal(text, &o) != nil || o.Kind == "" || o.Metadata.Name == "" {
		return nil
	}
	o.keys, o.file = keys, file
	return []object{o}
}

// decode reads a spec. What does not fit is told by its place.
func decode[T any](f *fleet, o object) (spec T, ok bool) {
	if err := json.Unmarshal(o.Spec, &spec); len(o.Spec) > 0 && err != nil {
		f.leave(o.place(), "its spec cannot be read: "+err.Error(), true)
		return spec, false
	}
	return spec, true
}

// reference names an object; Namespace empty: that of who refers to it.
type reference struct{ Kind, Namespace, Name string }

// kustomizationSpec is what is read of a Kustomization.
type kustomizationSpec struct {
	Path            string
	SourceRef       reference
	DependsOn       []dependency
	TargetNamespace string
	NamePrefix      string
	NameSuffix      string
	CommonMetadata  struct{ Labels, Annotations map[string]string }
	Patches         []json.RawMessage
	Images          []json.RawMessage
	Components      []string
	PostBuild       *struct {
		Substitute     map[string]any
		SubstituteFrom []valuesReference
	}
	// PatchesStrategicMerge and PatchesJson6902 are of v1beta1.
	PatchesStrategicMerge []json.RawMessage
	PatchesJson6902       []json.RawMessage
	Decryption            *struct{ Provider string }
	KubeConfig            *struct{ SecretRef reference }
	HealthChecks          []json.RawMessage
	HealthCheckExprs      []json.RawMessage
	ServiceAccountName    string
	Prune, Wait, Force    bool
	Suspend               bool
}

type dependency struct{ Namespace, Name, ReadyExpr string }

// valuesReference names where values or variables come from.
type valuesReference struct {
	Kind, Name, ValuesKey, TargetPath string
	Optional                          bool
}

// releaseSpec is what is read of a HelmRelease.
type releaseSpec struct {
	Chart *struct {
		Spec     chartSpec
		Metadata json.RawMessage
	}
	ChartRef         *reference
	ReleaseName      string
	TargetNamespace  string
	StorageNamespace string
	DependsOn        []dependency
	Values           json.RawMessage
	ValuesFrom       []valuesReference
	PostRenderers    []struct{ Kustomize json.RawMessage }
	CommonMetadata   *struct{ Labels, Annotations map[string]string }
	DriftDetection   *struct {
		Mode   string
		Ignore []driftRule
	}
	Install            struct{ CreateNamespace bool }
	KubeConfig         *struct{ SecretRef reference }
	ServiceAccountName string
	Suspend            bool
}

// driftRule are fields that others set.
type driftRule struct {
	Paths  []string
	Target *struct{ Group, Kind, Name, Namespace, LabelSelector, AnnotationSelector string }
}

// chartSpec is that of a HelmRelease or a HelmChart.
type chartSpec struct {
	Chart, Version string
	SourceRef      reference
	ValuesFiles    []string
	ValuesFile     string
	Verify         json.RawMessage
}

// sourceSpec is what is read of a GitRepository, OCIRepository, HelmRepository or Bucket.
type sourceSpec struct {
	URL, Type string
	Ref       struct{ Branch, Tag, Semver, Commit, Name, Digest, SemverFilter string }
	SecretRef *reference
	Insecure  bool
	Ignore    string
	Include   []json.RawMessage
	Verify    json.RawMessage
	Provider  string
}

// composeSpec is that of an ArtifactGenerator.
type composeSpec struct {
	Sources   []struct{ Alias, Kind, Name, Namespace string }
	Artifacts []struct {
		Name string
		Copy []struct{ From, To string }
	}
}
