package renderers_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/envsubst"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"lehr.dev/renderers/kubectl"
)

// fluxChart stands in for the charts of others, which cannot be fetched where tests run: it
// renders all its values, so that a value that is lost or changed shows.
var fluxChart = map[string]string{
	"Chart.yaml":             "apiVersion: v2\nname: %s\nversion: 1.9.0\n",
	"values.yaml":            "replicas: 1\nimage: web:1\nredis: {enabled: false, tag: none}\n",
	"templates/all.yaml":     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-values, namespace: {{ .Release.Namespace }}}\ndata:\n  values: {{ .Values | toJson | quote }}\n",
	"templates/web.yaml":     "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}\nspec:\n  replicas: {{ .Values.replicas }}\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: {{ .Values.image | quote }}}]}\n",
	"templates/service.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: {{ .Release.Name }}}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n",
}

func chartFiles(name string) map[string][]byte {
	files := map[string][]byte{}
	for file, text := range fluxChart {
		if strings.Contains(text, "%s") {
			text = fmt.Sprintf(text, name)
		}
		files[file] = []byte(text)
	}
	return files
}

func chartArchive(t *testing.T, name string) []byte {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	files := chartFiles(name)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if err := archive.WriteHeader(&tar.Header{Name: name + "/" + file, Mode: 0o644, Size: int64(len(files[file]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(files[file]); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// serveCharts is an index of charts and a registry of them, of whatever name is asked for.
func serveCharts(t *testing.T) (host string) {
	t.Helper()
	config := []byte(`{"name":"chart","version":"1.9.0"}`)
	manifest := func(name string) []byte {
		packed := chartArchive(t, name)
		text, err := json.Marshal(map[string]any{
			"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
			"config": map[string]any{"mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": digest(config), "size": len(config)},
			"layers": []any{map[string]any{"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "digest": digest(packed), "size": len(packed)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	inRegistry := regexp.MustCompile(`^/v2/(.+)/(tags/list|manifests/[^/]+|blobs/[^/]+)$`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if parts := inRegistry.FindStringSubmatch(r.URL.Path); parts != nil {
			name := path.Base(parts[1])
			switch {
			case parts[2] == "tags/list":
				_ = json.NewEncoder(w).Encode(map[string]any{"name": parts[1], "tags": []string{"1.9.0"}})
			case strings.HasPrefix(parts[2], "manifests/"):
				w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
				w.Header().Set("Docker-Content-Digest", digest(manifest(name)))
				_, _ = w.Write(manifest(name))
			case strings.HasSuffix(parts[2], digest(config)):
				_, _ = w.Write(config)
			default:
				_, _ = w.Write(chartArchive(t, name))
			}
			return
		}
		switch folder, file := path.Split(r.URL.Path); {
		case file == "index.yaml":
			name := path.Base(folder)
			fmt.Fprintf(w, "apiVersion: v1\nentries:\n  %s: [{name: %s, version: 1.9.0, digest: %q, urls: [%s-1.9.0.tgz]}]\n", name, name, strings.TrimPrefix(digest(chartArchive(t, name)), "sha256:"), name)
		case strings.HasSuffix(file, "-1.9.0.tgz"):
			_, _ = w.Write(chartArchive(t, strings.TrimSuffix(file, "-1.9.0.tgz")))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// applied is what Flux would apply, by feature, and then by kind, namespace and name.
type applied map[string]map[string]map[string]any

func (a applied) add(t *testing.T, feature string, text []byte) {
	t.Helper()
	objects, err := kubectl.Read(text)
	if err != nil {
		t.Fatalf("%s: %v\n%s", feature, err, text)
	}
	for _, o := range objects {
		version, _ := o["apiVersion"].(string)
		if group, _, _ := strings.Cut(version, "/"); strings.HasSuffix(group, ".fluxcd.io") || o["kind"] == "Secret" {
			continue
		}
		if a[feature] == nil {
			a[feature] = map[string]map[string]any{}
		}
		a[feature][keyOf(o)] = o
	}
}

func keyOf(o map[string]any) string {
	metadata, _ := o["metadata"].(map[string]any)
	return fmt.Sprintf("%v %v/%v", o["kind"], metadata["namespace"], metadata["name"])
}

// kustomized is what Flux's controller makes of a folder: it writes what the object says into
// the folder's own kustomization, builds that, and substitutes in each object.
func kustomized(t *testing.T, files map[string][]byte, folder string, adds map[string]any, variables map[string]string) []byte {
	t.Helper()
	system := filesys.MakeFsInMemory()
	for name, text := range files {
		if err := system.WriteFile("/"+name, text); err != nil {
			t.Fatal(err)
		}
	}
	main := "/" + path.Join(folder, "kustomization.yaml")
	kustomization := map[string]any{}
	if text, err := system.ReadFile(main); err == nil {
		if err := yaml.Unmarshal(text, &kustomization); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range adds {
		if list, ok := value.([]any); ok {
			existing, _ := kustomization[key].([]any)
			value = append(existing, list...)
		}
		kustomization[key] = value
	}
	text, err := yaml.Marshal(kustomization)
	if err == nil {
		err = system.WriteFile(main, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(system, "/"+folder)
	if err != nil {
		t.Fatalf("%s: %v", folder, err)
	}
	var all [][]byte
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		if variables != nil && r.GetAnnotations()["kustomize.toolkit.fluxcd.io/substitute"] != "disabled" {
			replaced, err := envsubst.Eval(string(text), func(name string) (string, bool) { return variables[name], true })
			if err != nil {
				t.Fatal(err)
			}
			text = []byte(replaced)
		}
		all = append(all, text)
	}
	return bytes.Join(all, []byte("\n---\n"))
}

// helmed is what helm-controller's Helm makes of a chart, by its version 3.
func helmed(t *testing.T, files map[string][]byte, release, namespace string, values map[string]any) []byte {
	t.Helper()
	var parts []*loader.BufferedFile
	for _, name := range slices.Sorted(maps.Keys(files)) {
		parts = append(parts, &loader.BufferedFile{Name: name, Data: files[name]})
	}
	loaded, err := loader.LoadFiles(parts)
	if err != nil {
		t.Fatal(err)
	}
	return rendered(t, loaded, release, namespace, values)
}

func rendered(t *testing.T, c *chart.Chart, release, namespace string, values map[string]any) []byte {
	t.Helper()
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	var documents [][]byte
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(texts[name]), &object); err != nil {
			t.Fatal(err)
		}
		metadata := object["metadata"].(map[string]any)
		if metadata["namespace"] == nil {
			metadata["namespace"] = namespace // Helm's client sends it there.
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, text)
	}
	return bytes.Join(documents, []byte("\n---\n"))
}
