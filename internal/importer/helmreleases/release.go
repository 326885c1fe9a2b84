package helmreleases

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/importer/argocd"
)

// mostUnpacked is how large one release may be.
const mostUnpacked = 64 << 20

// release is one revision, as Helm keeps it.
type release struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Version   int    `json:"version"`
	Info      struct {
		Status string `json:"status"`
	} `json:"info"`
	Config   map[string]any `json:"config"`
	Manifest string         `json:"manifest"`
	Chart    chart          `json:"chart"`
	place    string
}

type chart struct {
	Metadata  map[string]any `json:"metadata"`
	Lock      *lock          `json:"lock"`
	Templates []chartFile    `json:"templates"`
	Values    map[string]any `json:"values"`
	Schema    []byte         `json:"schema"`
	Files     []chartFile    `json:"files"`
}

type lock struct {
	Dependencies []dependency `json:"dependencies"`
}

type chartFile struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

type dependency struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	Repository string `json:"repository"`
}

func (r *release) String() string { return "release " + r.Namespace + "/" + r.Name }

func (c chart) field(name string) string {
	text, _ := c.Metadata[name].(string)
	return text
}

// dependencies are those of the chart, at the versions that it is locked to.
func (c chart) dependencies() (list []dependency) {
	text, err := json.Marshal(c.Metadata["dependencies"])
	if err != nil || json.Unmarshal(text, &list) != nil {
		return nil
	}
	for i := range list {
		if c.Lock == nil {
			break
		}
		for _, locked := range c.Lock.Dependencies {
			if locked.Name == list[i].Name {
				list[i].Version = locked.Version
			}
		}
	}
	return list
}

// stored is a Secret or ConfigMap in which Helm keeps a release.
type stored struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name      string            `yaml:"name"`
		Namespace string            `yaml:"namespace"`
		Labels    map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	Data  map[string]string `yaml:"data"`
	Items []yaml.Node       `yaml:"items"`
}

// parse reads the releases of a text; what is wrong with one is told.
func parse(name string, text []byte, leave func(subject, reason string)) (list []*release) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			leave(name, "it is no YAML: "+err.Error())
			return list
		}
		list = append(list, parseNode(name, &node, leave, 0)...)
	}
}

func parseNode(name string, node *yaml.Node, leave func(subject, reason string), depth int) (list []*release) {
	var s stored
	if node.Decode(&s) != nil || depth > 3 {
		return nil // It is no object, so no release.
	}
	if strings.HasSuffix(s.Kind, "List") {
		for i := range s.Items {
			list = append(list, parseNode(name, &s.Items[i], leave, depth+1)...)
		}
		return list
	}
	if s.Metadata.Labels["owner"] != "helm" && !strings.HasPrefix(s.Metadata.Name, "sh.helm.release.v1.") {
		return nil
	}
	place := fmt.Sprintf("%s:%d", name, node.Line)
	made, err := unpack(s)
	if err != nil {
		leave(s.Kind+" "+s.Metadata.Name, place+": "+err.Error())
		return nil
	}
	made.place = place
	return []*release{made}
}

// unpack reads a release: base64, twice in a Secret, of JSON that gzip has packed.
func unpack(s stored) (*release, error) {
	text, ok := s.Data["release"]
	if !ok {
		return nil, errors.New("it has no data.release: was it exported with -o yaml or -o json?")
	}
	raw := []byte(text)
	if s.Kind == "Secret" {
		var err error
		if raw, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, errors.New("its data.release is no base64")
		}
	}
	packed, err := base64.StdEncoding.DecodeString(string(raw))
	if err != nil {
		return nil, errors.New("its data.release holds no release of Helm 3: it is no base64 within")
	}
	if bytes.HasPrefix(packed, []byte{0x1f, 0x8b}) {
		reader, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, fmt.Errorf("its release cannot be unpacked: %w", err)
		}
		if packed, err = io.ReadAll(io.LimitReader(reader, mostUnpacked+1)); err != nil {
			return nil, fmt.Errorf("its release cannot be unpacked: %w", err)
		}
		if len(packed) > mostUnpacked {
			return nil, fmt.Errorf("its release has more than %d MiB", mostUnpacked>>20)
		}
	}
	made := &release{}
	if err := json.Unmarshal(packed, made); err != nil {
		return nil, fmt.Errorf("its release is no JSON of Helm: %w", err)
	}
	if made.Name == "" || made.Chart.field("name") == "" {
		return nil, errors.New("its release has no name, or no chart")
	}
	for _, values := range []map[string]any{made.Config, made.Chart.Values, made.Chart.Metadata} {
		argocd.WholeNumbers(values)
	}
	if made.Namespace == "" {
		made.Namespace = s.Metadata.Namespace
	}
	return made, nil
}
