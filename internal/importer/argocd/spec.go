package argocd

import "encoding/json"

// What is read of the resources of argoproj.io/v1alpha1. Fields that say nothing about what is
// applied (status, information for people, history limits) are named in passedOver.

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Owners      []struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"ownerReferences"`
}

type application struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Project           string          `json:"project"`
		Destination       destination     `json:"destination"`
		Source            *appSource      `json:"source"`
		Sources           []appSource     `json:"sources"`
		SourceHydrator    *hydrator       `json:"sourceHydrator"`
		SyncPolicy        *syncPolicy     `json:"syncPolicy"`
		IgnoreDifferences []ignored       `json:"ignoreDifferences"`
		Info              json.RawMessage `json:"info"`
		RevisionHistory   json.RawMessage `json:"revisionHistoryLimit"`
	} `json:"spec"`
}

type destination struct {
	Server    string `json:"server"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

type hydrator struct {
	DrySource  appSource       `json:"drySource"`
	SyncSource json.RawMessage `json:"syncSource"`
	HydrateTo  json.RawMessage `json:"hydrateTo"`
}

type appSource struct {
	RepoURL        string            `json:"repoURL"`
	Path           string            `json:"path"`
	TargetRevision string            `json:"targetRevision"`
	Chart          string            `json:"chart"`
	Ref            string            `json:"ref"`
	Name           string            `json:"name"`
	Helm           *helmOptions      `json:"helm"`
	Kustomize      *kustomizeOptions `json:"kustomize"`
	Directory      *directoryOptions `json:"directory"`
	Plugin         json.RawMessage   `json:"plugin"`
}

type helmOptions struct {
	ValueFiles              []string        `json:"valueFiles"`
	Parameters              []helmParameter `json:"parameters"`
	FileParameters          []fileParameter `json:"fileParameters"`
	ReleaseName             string          `json:"releaseName"`
	Values                  string          `json:"values"`
	ValuesObject            map[string]any  `json:"valuesObject"`
	IgnoreMissingValueFiles bool            `json:"ignoreMissingValueFiles"`
	SkipCrds                bool            `json:"skipCrds"`
	SkipTests               bool            `json:"skipTests"`
	SkipSchemaValidation    bool            `json:"skipSchemaValidation"`
	PassCredentials         bool            `json:"passCredentials"`
	Version                 string          `json:"version"`
	Namespace               string          `json:"namespace"`
	KubeVersion             string          `json:"kubeVersion"`
	APIVersions             []string        `json:"apiVersions"`
}

type helmParameter struct {
	Name        string `json:"name"`
	Value       string `json:"value"`
	ForceString bool   `json:"forceString"`
}

type fileParameter struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

type kustomizeOptions struct {
	NamePrefix                string             `json:"namePrefix"`
	NameSuffix                string             `json:"nameSuffix"`
	Namespace                 string             `json:"namespace"`
	Images                    []string           `json:"images"`
	Replicas                  []kustomizeReplica `json:"replicas"`
	CommonLabels              map[string]string  `json:"commonLabels"`
	CommonAnnotations         map[string]string  `json:"commonAnnotations"`
	CommonAnnotationsEnvsubst bool               `json:"commonAnnotationsEnvsubst"`
	ForceCommonLabels         bool               `json:"forceCommonLabels"`
	ForceCommonAnnotations    bool               `json:"forceCommonAnnotations"`
	LabelWithoutSelector      bool               `json:"labelWithoutSelector"`
	LabelIncludeTemplates     bool               `json:"labelIncludeTemplates"`
	Patches                   []map[string]any   `json:"patches"`
	Components                []string           `json:"components"`
	IgnoreMissingComponents   bool               `json:"ignoreMissingComponents"`
	Version                   string             `json:"version"`
	KubeVersion               string             `json:"kubeVersion"`
	APIVersions               []string           `json:"apiVersions"`
}

type kustomizeReplica struct {
	Name  string `json:"name"`
	Count any    `json:"count"`
}

type directoryOptions struct {
	Recurse bool            `json:"recurse"`
	Include string          `json:"include"`
	Exclude string          `json:"exclude"`
	Jsonnet json.RawMessage `json:"jsonnet"`
}

type syncPolicy struct {
	Automated *struct {
		Prune      bool  `json:"prune"`
		SelfHeal   bool  `json:"selfHeal"`
		AllowEmpty bool  `json:"allowEmpty"`
		Enabled    *bool `json:"enabled"`
	} `json:"automated"`
	SyncOptions              []string        `json:"syncOptions"`
	Retry                    json.RawMessage `json:"retry"`
	ManagedNamespaceMetadata *metadata       `json:"managedNamespaceMetadata"`
}

type ignored struct {
	Group                 string   `json:"group"`
	Kind                  string   `json:"kind"`
	Name                  string   `json:"name"`
	Namespace             string   `json:"namespace"`
	JSONPointers          []string `json:"jsonPointers"`
	JQPathExpressions     []string `json:"jqPathExpressions"`
	ManagedFieldsManagers []string `json:"managedFieldsManagers"`
}

type project struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		SyncWindows []syncWindow `json:"syncWindows"`
		Roles       []struct {
			Name     string   `json:"name"`
			Policies []string `json:"policies"`
			Groups   []string `json:"groups"`
		} `json:"roles"`
	} `json:"spec"`
}

type syncWindow struct {
	Kind           string   `json:"kind"`
	Schedule       string   `json:"schedule"`
	Duration       string   `json:"duration"`
	Applications   []string `json:"applications"`
	Namespaces     []string `json:"namespaces"`
	Clusters       []string `json:"clusters"`
	ManualSync     bool     `json:"manualSync"`
	TimeZone       string   `json:"timeZone"`
	UseAndOperator bool     `json:"andOperator"`
}

type applicationSet struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		GoTemplate        bool              `json:"goTemplate"`
		GoTemplateOptions []string          `json:"goTemplateOptions"`
		Generators        []generator       `json:"generators"`
		Template          map[string]any    `json:"template"`
		TemplatePatch     *string           `json:"templatePatch"`
		Strategy          *rollingStrategy  `json:"strategy"`
		SyncPolicy        json.RawMessage   `json:"syncPolicy"`
		PreservedFields   json.RawMessage   `json:"preservedFields"`
		IgnoreDifferences []json.RawMessage `json:"ignoreApplicationDifferences"`
	} `json:"spec"`
}

type rollingStrategy struct {
	Type string `json:"type"`
}

// generator is one of an ApplicationSet, at the top or in a matrix or merge.
type generator struct {
	List     *listGenerator    `json:"list"`
	Git      *gitGenerator     `json:"git"`
	Clusters *clusterGenerator `json:"clusters"`
	Matrix   *combination      `json:"matrix"`
	Merge    *combination      `json:"merge"`
	Selector *selector         `json:"selector"`

	SCMProvider             json.RawMessage `json:"scmProvider"`
	PullRequest             json.RawMessage `json:"pullRequest"`
	ClusterDecisionResource json.RawMessage `json:"clusterDecisionResource"`
	Plugin                  json.RawMessage `json:"plugin"`
}

type listGenerator struct {
	Elements     []map[string]any `json:"elements"`
	ElementsYAML string           `json:"elementsYaml"`
	Template     map[string]any   `json:"template"`
}

type gitGenerator struct {
	RepoURL     string `json:"repoURL"`
	Revision    string `json:"revision"`
	Directories []struct {
		Path    string `json:"path"`
		Exclude bool   `json:"exclude"`
	} `json:"directories"`
	Files []struct {
		Path    string `json:"path"`
		Exclude bool   `json:"exclude"`
	} `json:"files"`
	PathParamPrefix string            `json:"pathParamPrefix"`
	Values          map[string]string `json:"values"`
	Template        map[string]any    `json:"template"`
}

type clusterGenerator struct {
	Selector selector          `json:"selector"`
	Values   map[string]string `json:"values"`
	FlatList bool              `json:"flatList"`
	Template map[string]any    `json:"template"`
}

type combination struct {
	Generators []generator    `json:"generators"`
	MergeKeys  []string       `json:"mergeKeys"`
	Template   map[string]any `json:"template"`
}

type selector struct {
	MatchLabels      map[string]string `json:"matchLabels"`
	MatchExpressions []struct {
		Key      string   `json:"key"`
		Operator string   `json:"operator"`
		Values   []string `json:"values"`
	} `json:"matchExpressions"`
}

func (s selector) isEmpty() bool { return len(s.MatchLabels)+len(s.MatchExpressions) == 0 }

func (s selector) matches(labels map[string]string) bool {
	for key, want := range s.MatchLabels {
		if got, ok := labels[key]; !ok || got != want {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		got, ok := labels[e.Key]
		isIn := false
		for _, value := range e.Values {
			isIn = isIn || ok && value == got
		}
		switch e.Operator {
		case "In":
			if !isIn {
				return false
			}
		case "NotIn":
			if isIn {
				return false
			}
		case "Exists":
			if !ok {
				return false
			}
		case "DoesNotExist":
			if ok {
				return false
			}
		}
	}
	return true
}
