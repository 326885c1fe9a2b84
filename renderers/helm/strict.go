package main

import (
	"bytes"
	"fmt"
	"math/big"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/loader/archive"

	"lehr.dev/sdk/generator/kubernetes"
)

// settingsFile is a file of a chart, or of a chart in it, that Helm reads as YAML or
// JSON, and that is no template.
var settingsFile = regexp.MustCompile(`^(charts/[^/]+/)*(Chart\.yaml|Chart\.lock|values\.yaml|values\.schema\.json|requirements\.yaml|requirements\.lock)$`)

// strict looks through the files of a chart for what Helm would lose without a word.
func (r *release) strict(parts []*archive.BufferedFile) {
	for _, part := range parts {
		switch file := r.declared(part.Name); {
		case settingsFile.MatchString(part.Name):
			r.findings = append(r.findings, look(file, part.Data)...)
		case path.Ext(part.Name) == ".tgz" && path.Base(path.Dir(part.Name)) == "charts":
			r.packed(file, "", part.Data)
		}
	}
}

// packed looks through a chart that is an archive, and those that it holds.
func (r *release) packed(file, inside string, text []byte) {
	parts, err := archive.LoadArchiveFiles(bytes.NewReader(text))
	if err != nil {
		return // Helm says what is wrong with it.
	}
	for _, part := range parts {
		name := path.Join(inside, part.Name)
		switch {
		case settingsFile.MatchString(part.Name):
			for _, f := range look(file, part.Data) {
				f.Message = fmt.Sprintf("%s in it, line %d: %s", name, f.Line, f.Message)
				f.Line, f.Hint = 0, "unpack the archive into charts/, and mend the file: "+f.Hint
				r.findings = append(r.findings, f)
			}
		case path.Ext(part.Name) == ".tgz" && path.Base(path.Dir(part.Name)) == "charts":
			r.packed(file, name, part.Data)
		}
	}
}

// look looks through one file. Numbers count in values alone: all else has types.
func look(file string, text []byte) []kubernetes.Finding {
	findings := kubernetes.Check(file, text)
	if base := path.Base(file); strings.HasPrefix(base, "Chart.") || strings.HasPrefix(base, "requirements.") || base == "values.schema.json" {
		return findings
	}
	decoder := yaml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	for {
		var document yaml.Node
		if decoder.Decode(&document) != nil {
			return findings
		}
		rounded(&document, "", func(node *yaml.Node, at string) {
			findings = append(findings, kubernetes.Finding{
				File: file, Line: node.Line,
				Message: fmt.Sprintf("%.200s is an integer that Helm rounds, for numbers in values are floats of 64 bits", at),
				Hint:    "quote it: templates then write all its digits",
			})
		})
	}
}

// rounded finds the integers in a node that are none of those that a float holds.
func rounded(node *yaml.Node, at string, find func(*yaml.Node, string)) {
	switch node.Kind {
	case yaml.DocumentNode:
		for _, below := range node.Content {
			rounded(below, at, find)
		}
	case yaml.SequenceNode:
		for i, below := range node.Content {
			rounded(below, fmt.Sprintf("%s[%d]", at, i), find)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			rounded(node.Content[i+1], strings.TrimPrefix(at+"."+node.Content[i].Value, "."), find)
		}
	case yaml.ScalarNode:
		if plain := node.Style == 0 || node.Tag == "!!int" || node.Tag == "!!float"; !plain || len(node.Value) > 400 {
			return
		}
		whole, ok := new(big.Int).SetString(strings.TrimPrefix(strings.ReplaceAll(node.Value, "_", ""), "+"), 0)
		if !ok {
			return
		}
		near, _ := new(big.Float).SetInt(whole).Float64()
		if back, _ := big.NewFloat(near).Int(nil); back == nil || back.Cmp(whole) != 0 {
			find(node, at)
		}
	}
}
