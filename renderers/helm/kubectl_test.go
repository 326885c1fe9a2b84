package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"

	"lehr.dev/renderers/kubectl"
	"lehr.dev/sdk/generator/kubernetes"
)

// TestAsHelmTemplate: what is read of a chart is what kubectl reads of what helm
// template writes, or it is refused.
func TestAsHelmTemplate(t *testing.T) {
	log.SetOutput(io.Discard) // Helm tells of values that it skips.
	defer log.SetOutput(os.Stderr)
	read, refused := 0, map[string]int{}
	for seed := range uint64(3_000) {
		sample := kubectl.NewSample(seed)
		// One of them may hold anything, so that not nearly all are refused.
		values, given, template := "a: {b: 1}\n", "a: {c: null}\n", sample.Manifest("n0")
		switch seed % 3 {
		case 0:
			values, template = sample.Values(), ""
		case 1:
			given, template = sample.Values(), ""
		case 2:
			template = sample.File()
		}
		files := chart(map[string]string{
			"chart/values.yaml":         values,
			"prod.yaml":                 given,
			"chart/templates/web.yaml":  template,
			"chart/templates/more.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: values}\nspec: {{ toYaml .Values | nindent 2 }}\n---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: plain}\nspec:\n{{- range $k, $v := .Values }}\n- {{ $v }}\n{{- end }}\n",
		})
		objects, findings := render(files, prod)
		// What is left out cannot be compared.
		if slices.ContainsFunc(findings, func(f kubernetes.Finding) bool { return !f.Warning }) {
			refused[findings[0].Message]++
			continue
		}
		want, err := helmTemplate(files)
		if err != nil || len(want) != len(objects) {
			t.Errorf("seed %d: Helm and kubectl read %d objects (%v), and Lehr %d, of\n%q", seed, len(want), err, len(objects), files)
			continue
		}
		for _, o := range objects {
			got, err := kubectl.Value(o.Payload.Json)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if differ := kubectl.Same(got["spec"], want[o.Payload.Name]); differ != "" {
				t.Errorf("seed %d: Lehr and Helm read\n%s\nwith\n%s\n%s\n%s", seed, files["chart/templates/web.yaml"], files["chart/values.yaml"], files["prod.yaml"], differ)
			}
		}
		read++
	}
	t.Logf("%d charts read alike", read)
	if read < 200 {
		t.Errorf("only %d were read: %v", read, refused)
	}
}

// helmTemplate has Helm alone render a chart, and kubectl read it: specs by names.
func helmTemplate(files map[string][]byte) (map[string]any, error) {
	var parts []*archive.BufferedFile
	for name, text := range files {
		if inside, is := strings.CutPrefix(name, "chart/"); is {
			parts = append(parts, &archive.BufferedFile{Name: inside, Data: text})
		}
	}
	chart, err := loader.LoadFiles(parts)
	if err != nil {
		return nil, err
	}
	given, err := loader.LoadValues(strings.NewReader(string(files["prod.yaml"])))
	if err != nil {
		return nil, err
	}
	values, err := util.ToRenderValues(chart, given, common.ReleaseOptions{Name: "eu", Namespace: "shop", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Engine{}.Render(chart, values)
	if err != nil {
		return nil, err
	}
	_, manifests, err := releaseutil.SortManifests(rendered, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	specs := map[string]any{}
	for _, m := range manifests {
		objects, err := kubectl.Read([]byte(fmt.Sprintf("---\n# Source: %s\n%s\n", m.Name, m.Content)))
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			specs[object["metadata"].(map[string]any)["name"].(string)] = object["spec"]
		}
	}
	return specs, nil
}
