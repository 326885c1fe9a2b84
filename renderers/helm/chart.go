package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/ignore"
	"helm.sh/helm/v4/pkg/strvals"

	"lehr.dev/sdk/generator/kubernetes"
)

// release is one rendering of a chart.
type release struct {
	options  options
	files    map[string][]byte
	findings []kubernetes.Finding
	// values that templates see, and whether Helm 3 and Helm 4 differ about them.
	values      common.Values
	nullsDiffer bool
	// parts are the folders of charts that it depends on, by their names.
	parts map[string]string
}

// theDefinition is the file of what is wrong with lehr.yaml, whatever its name:
// Lehr knows that.
const theDefinition = ""

func (r *release) wrong(file string, line int, hint, format string, arguments ...any) {
	r.findings = append(r.findings, kubernetes.Finding{File: file, Line: line, Message: fmt.Sprintf(format, arguments...), Hint: hint})
}

// load reads the chart from the declared files below its folder.
func (r *release) load() *chartv2.Chart {
	main := path.Join(r.options.folder, "Chart.yaml")
	if r.files[main] == nil {
		r.wrong(theDefinition, 0, "name the chart's folder in with: {chart: FOLDER}, from the folder of lehr.yaml, and all its files in a source of from: files: [\"**\"]", "%s is not among the declared files", main)
		return nil
	}
	rules := ignore.Empty()
	if text := r.files[path.Join(r.options.folder, ignore.HelmIgnore)]; text != nil {
		var err error
		if rules, err = ignore.Parse(bytes.NewReader(text)); err != nil {
			r.wrong(path.Join(r.options.folder, ignore.HelmIgnore), 0, "mend its patterns", "cannot be read: %s", shown(err.Error()))
			return nil
		}
	}
	rules.AddDefaults()
	var parts []*archive.BufferedFile
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		inside, is := strings.CutPrefix(name, r.options.folder+"/")
		if r.options.folder == "." {
			inside, is = name, true
		}
		if is && !ignored(rules, inside) {
			parts = append(parts, &archive.BufferedFile{Name: inside, Data: bytes.TrimPrefix(r.files[name], []byte("\xef\xbb\xbf"))})
		}
	}
	if parts = append(parts, r.dependencies(parts)...); len(r.findings) > 0 {
		return nil
	}
	if r.strict(parts); len(r.findings) > 0 {
		return nil
	}
	chart, err := loader.LoadFiles(parts)
	if err != nil {
		r.wrong(main, 0, "mend the chart; helm lint says the same", "the chart cannot be loaded: %s", shown(err.Error()))
		return nil
	}
	if chart.Metadata.Type == "library" {
		r.wrong(main, 0, "name a chart that uses it", "the chart is a library, which renders nothing by itself")
	}
	for _, wanted := range chart.Metadata.Dependencies {
		if !slices.ContainsFunc(chart.Dependencies(), func(c *chartv2.Chart) bool { return c.Name() == wanted.Name }) {
			r.wrong(main, 0, "declare it as a source in lehr.yaml (chart: …, name: "+wanted.Name+"), name the source in from and in with: {dependencies: [SOURCE]}; or run helm dependency build, and have a source declare "+path.Join(r.options.folder, "charts/**"), "the chart depends on %s %s, which is not among the declared files", wanted.Name, wanted.Version)
		}
	}
	r.schemas(chart)
	if len(r.findings) > 0 {
		return nil
	}
	return chart
}

// ignored asks for a file and the folders that it lies in, as Helm does.
func ignored(rules *ignore.Rules, name string) bool {
	segments := strings.Split(name, "/")
	for i := range segments {
		if rules.Ignore(strings.Join(segments[:i+1], "/"), entry{segments[i], i < len(segments)-1}) {
			return true
		}
	}
	return false
}

// entry is what rules ask of a file.
type entry struct {
	name   string
	folder bool
}

func (e entry) Name() string       { return e.name }
func (e entry) Size() int64        { return 0 }
func (e entry) ModTime() time.Time { return time.Time{} }
func (e entry) IsDir() bool        { return e.folder }
func (e entry) Sys() any           { return nil }
func (e entry) Mode() fs.FileMode {
	if e.folder {
		return fs.ModeDir
	}
	return 0
}

// schemas refuses those that would have Helm read something else.
func (r *release) schemas(chart *chartv2.Chart) {
	if len(chart.Schema) > 0 {
		var schema any
		if err := json.Unmarshal(chart.Schema, &schema); err == nil {
			if elsewhere := outward(schema); elsewhere != "" {
				r.wrong(r.path(chart.Root(), path.Join(chart.ChartFullPath(), "values.schema.json")), 0, "copy what it refers to into its $defs, and write #/$defs/NAME", "the schema refers to %.200s, and only declared files are read", elsewhere)
			}
		}
	}
	for _, part := range chart.Dependencies() {
		r.schemas(part)
	}
}

// outward is a reference in a schema that leads out of it.
func outward(schema any) string {
	switch schema := schema.(type) {
	case []any:
		for _, element := range schema {
			if found := outward(element); found != "" {
				return found
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(schema)) {
			text, is := schema[key].(string)
			switch {
			case is && (key == "$ref" || key == "$dynamicRef" || key == "$recursiveRef") && !strings.HasPrefix(text, "#"):
				return text
			case is && key == "$schema" && !strings.Contains(text, "//json-schema.org/"):
				return text
			}
			if found := outward(schema[key]); found != "" {
				return found
			}
		}
	}
	return ""
}

// given are the values of the files, in order, and then of set.
func (r *release) given() map[string]any {
	all := map[string]any{}
	for _, name := range r.options.values {
		text, found := r.files[path.Clean(name)]
		if !found {
			r.wrong(theDefinition, 0, "name it in a source of from; paths are from the folder of lehr.yaml", "with.values %s is not among the declared files", name)
			return nil
		}
		if found := look(path.Clean(name), text); len(found) > 0 {
			r.findings = append(r.findings, found...)
			return nil
		}
		values, err := loader.LoadValues(bytes.NewReader(text))
		if err != nil {
			r.wrong(name, yamlLine(err), "mend it", "the values cannot be read: %s", shown(err.Error()))
			return nil
		}
		all = loader.MergeMaps(all, values)
	}
	for _, assignment := range r.options.set {
		if err := strvals.ParseInto(assignment, all); err != nil {
			r.wrong(theDefinition, 0, "write KEY=VALUE, for example image.tag=v2", "with.set cannot be read: %s", shown(err.Error()))
			return nil
		}
	}
	for _, assignment := range r.options.setString {
		if err := strvals.ParseIntoString(assignment, all); err != nil {
			r.wrong(theDefinition, 0, "write KEY=TEXT, for example image.tag=1.10", "with.set_string cannot be read: %s", shown(err.Error()))
			return nil
		}
	}
	for _, assignment := range r.options.setFile {
		if err := strvals.ParseIntoFile(assignment, all, r.declaredText); err != nil {
			r.wrong(theDefinition, 0, "write KEY=FILE, from the folder of lehr.yaml, and name the file in a source of from", "with.set_file cannot be read: %s", shown(err.Error()))
			return nil
		}
	}
	return all
}

// declaredText is what a declared file holds, as the value of a key.
func (r *release) declaredText(name []rune) (any, error) {
	text, ok := r.files[path.Clean(string(name))]
	if !ok {
		return nil, fmt.Errorf("%s is not among the declared files", string(name))
	}
	return string(text), nil
}
