package artifact

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
)

// Metadata is what Chart.yaml says.
type Metadata struct {
	Name         string       `yaml:"name"`
	Version      string       `yaml:"version"`
	Dependencies []Dependency `yaml:"dependencies"`
}

// Dependency of a chart, as Chart.yaml wants it or Chart.lock has resolved it.
type Dependency struct {
	Name       string `yaml:"name"`
	Version    string `yaml:"version"`
	Repository string `yaml:"repository"`
}

// Chart reads the files of a packed chart, by their paths in the chart, and holds it
// to the name and the version that were asked for.
func Chart(subject string, archive []byte, name, version string, limits Limits) (map[string][]byte, Metadata, error) {
	var meta Metadata
	packed, err := Unpack(subject, archive, limits)
	if err != nil {
		return nil, meta, err
	}
	files, ok := Below(packed, top(packed))
	text := files["Chart.yaml"]
	if !ok || text == nil {
		return nil, meta, fault.New(fault.Invalid, "%s is no chart: its files do not lie in one folder with a Chart.yaml", subject).WithHint("pack it with helm package")
	}
	if err := yaml.Unmarshal(text, &meta); err != nil {
		return nil, meta, fault.New(fault.Invalid, "%s has a Chart.yaml that cannot be read: %w", subject, err).WithHint("mend the chart; helm lint says the same")
	}
	if meta.Name != name || strings.TrimPrefix(meta.Version, "v") != strings.TrimPrefix(version, "v") {
		return nil, meta, fault.New(fault.Invalid, "%s is the chart %.100q %.100q by its Chart.yaml, and not %s %s", subject, meta.Name, meta.Version, name, version).
			WithHint("find out who put it there; what was read last stays in use")
	}
	return files, meta, nil
}

// Missing are the dependencies that Chart.lock has resolved and that are not packed in
// charts/. Without a Chart.lock there is none: which version was meant cannot be
// known, and the renderer says what it lacks.
func Missing(subject string, files map[string][]byte, meta Metadata) ([]Dependency, error) {
	text := files["Chart.lock"]
	if len(meta.Dependencies) == 0 || text == nil {
		return nil, nil
	}
	var lock struct {
		Dependencies []Dependency `yaml:"dependencies"`
	}
	if err := yaml.Unmarshal(text, &lock); err != nil {
		return nil, fault.New(fault.Invalid, "%s has a Chart.lock that cannot be read: %w", subject, err).WithHint("run helm dependency update, and pack it again")
	}
	var missing []Dependency
	for _, d := range lock.Dependencies {
		if strings.Contains(d.Repository, "://") && !strings.HasPrefix(d.Repository, "file://") && !hasPart(files, d.Name) {
			missing = append(missing, d)
		}
	}
	return missing, nil
}

// hasPart reports whether a chart has another in it.
func hasPart(files map[string][]byte, name string) bool {
	for file := range files {
		if strings.HasPrefix(file, "charts/"+name+"/") || strings.HasPrefix(file, "charts/"+name+"-") && strings.HasSuffix(file, ".tgz") {
			return true
		}
	}
	return false
}
