package main

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
)

// metadata is what is read of Chart.yaml and Chart.lock before Helm reads them.
type metadata struct {
	Name         string     `yaml:"name"`
	Version      string     `yaml:"version"`
	Dependencies []metadata `yaml:"dependencies"`
}

// dependencies are the files of charts that the definition names and the chart depends
// on, as if they lay in its folder charts. Each must be wanted, by its name and
// version, and be there once.
func (r *release) dependencies(own []*archive.BufferedFile) (parts []*archive.BufferedFile) {
	if len(r.options.dependencies) == 0 {
		return nil
	}
	var wanted, locked metadata
	for _, part := range own {
		for name, to := range map[string]*metadata{"Chart.yaml": &wanted, "Chart.lock": &locked} {
			if part.Name == name {
				_ = yaml.Unmarshal(part.Data, to) // What is wrong with it is said by Helm.
			}
		}
	}
	r.parts = map[string]string{}
	for _, folder := range r.options.dependencies {
		folder = path.Clean(folder)
		var meta metadata
		text := r.files[path.Join(folder, "Chart.yaml")]
		if text == nil || yaml.Unmarshal(text, &meta) != nil || meta.Name == "" {
			r.wrong(theDefinition, 0, "name the folder of a chart, such as a source of chart: that from names", "with.dependencies names %s, which has no Chart.yaml with a name among the declared files", folder)
			continue
		}
		if !r.accepts(folder, meta, wanted, locked, own) {
			continue
		}
		r.parts[meta.Name] = folder
		for _, name := range slices.Sorted(maps.Keys(r.files)) {
			if inside, is := strings.CutPrefix(name, folder+"/"); is {
				parts = append(parts, &archive.BufferedFile{Name: path.Join("charts", meta.Name, inside), Data: bytes.TrimPrefix(r.files[name], []byte("\xef\xbb\xbf"))})
			}
		}
	}
	return parts
}

// accepts says whether a chart is one that was wanted.
func (r *release) accepts(folder string, meta, wanted, locked metadata, own []*archive.BufferedFile) bool {
	file := path.Join(folder, "Chart.yaml")
	isOf := func(m metadata) bool { return m.Name == meta.Name }
	i := slices.IndexFunc(wanted.Dependencies, isOf)
	if i < 0 {
		r.wrong(theDefinition, 0, "remove it from with.dependencies, or add it to dependencies of Chart.yaml", "the chart does not depend on %s, which with.dependencies names", meta.Name)
		return false
	}
	inIt := slices.ContainsFunc(own, func(f *archive.BufferedFile) bool {
		return strings.HasPrefix(f.Name, "charts/"+meta.Name+"/") || strings.HasPrefix(f.Name, "charts/"+meta.Name+"-") && strings.HasSuffix(f.Name, ".tgz")
	})
	if inIt || r.parts[meta.Name] != "" {
		r.wrong(file, 0, "keep one of them", "the chart %s is there twice", meta.Name)
		return false
	}
	if j := slices.IndexFunc(locked.Dependencies, isOf); j >= 0 && strings.TrimPrefix(locked.Dependencies[j].Version, "v") != strings.TrimPrefix(meta.Version, "v") {
		r.wrong(file, 0, "have the source read that version, or run helm dependency update", "the chart %s is %s, and Chart.lock says %s", meta.Name, meta.Version, locked.Dependencies[j].Version)
		return false
	}
	constraint, err := semver.NewConstraint(wanted.Dependencies[i].Version)
	version, err2 := semver.NewVersion(meta.Version)
	if err != nil || err2 != nil || !constraint.Check(version) {
		r.wrong(file, 0, "have the source read a version that the chart wants", "the chart %s is %s, and is wanted as %q", meta.Name, meta.Version, wanted.Dependencies[i].Version)
		return false
	}
	return true
}

// declared is the declared file that is at a path in the chart.
func (r *release) declared(inside string) string {
	if rest, is := strings.CutPrefix(inside, "charts/"); is {
		if name, below, found := strings.Cut(rest, "/"); found && r.parts[name] != "" {
			return path.Join(r.parts[name], below)
		}
	}
	return path.Join(r.options.folder, inside)
}
