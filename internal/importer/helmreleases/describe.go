package helmreleases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/internal/importer/argocd"
)

// described is a release as lehr.yaml says it.
type described struct {
	name, render string
	// bodies are its sources, in order, by name.
	bodies []namedBody
	with   map[string]any
	files  map[string][]byte
}

type namedBody struct {
	name string
	body map[string]any
}

func (d *described) add(name string, body map[string]any) {
	d.bodies = append(d.bodies, namedBody{name, body})
}

func (d *described) sources() string {
	var out strings.Builder
	for _, s := range d.bodies {
		fmt.Fprintf(&out, "  %s: %s\n", inJSON(s.name), inJSON(s.body))
	}
	return out.String()
}

func (d *described) generator() string {
	var from []string
	for _, s := range d.bodies {
		from = append(from, s.name)
	}
	return fmt.Sprintf("  %s: {render: %s, from: %s, with: %s}\n", inJSON(d.name), d.render, inJSON(from), inJSON(d.with))
}

var notInName = regexp.MustCompile(`[^a-z0-9_-]+`)

func (l *importing) nameFor(wanted string) string {
	base := strings.Trim(notInName.ReplaceAllString(strings.ToLower(wanted), "-"), "-_")
	base = strings.TrimRight(base[:min(len(base), 45)], "-_")
	if base == "" {
		base = "release"
	}
	name := base
	for i := 2; l.names[name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	l.names[name] = true
	return name
}

// describe finds how a release is rendered to what was applied: by the chart that was named, by
// the chart in the release, or, where these render something else, as the manifests that were applied.
func (l *importing) describe(r *release) (*described, error) {
	name := l.nameFor(r.Name)
	applied := l.applied(r, name)
	source, isNamed := l.charts[r.Name]
	if !isNamed {
		source, isNamed = l.charts[r.Chart.field("name")]
	}
	d, err := l.fromChart(r, name, source)
	switch {
	case err != nil:
		l.leave(r.String(), r.place+": "+err.Error()+": what was applied is written as manifests")
		return applied, nil
	case isNamed && !isFolder(source):
		return d, nil // It is elsewhere, and is not asked.
	}
	if !isNamed {
		l.addHint(fmt.Sprintf("the chart %s %s is written out of %s; where it comes from is not in a release: import again with --chart %s=SOURCE, or change its source", r.Chart.field("name"), r.Chart.field("version"), r, r.Chart.field("name")))
	}
	if l.render == nil || hasRemote(d) {
		return d, nil
	}
	rendered := l.rendered(d)
	live := l.rendered(applied)
	if len(rendered.Problems) > 0 {
		l.leave(r.String(), r.place+": its chart cannot be rendered ("+rendered.Problems[0]+"): what was applied is written as manifests")
		return applied, nil
	}
	if differing := compare(live.Objects[name], rendered.Objects[name]); len(differing) > 0 && len(live.Problems) == 0 {
		l.addHint(fmt.Sprintf("%s: its chart renders %s otherwise than it was applied (%s): lehr plan shows the fields", r, count(len(differing), "object"), strings.Join(differing[:min(3, len(differing))], ", ")))
	}
	l.Read = append(l.Read, fmt.Sprintf("%s: %s", r, count(len(rendered.Objects[name]), "object")))
	return d, nil
}

func isFolder(source string) bool { return source != "" && !strings.Contains(source, "://") }

func hasRemote(d *described) bool {
	return slices.ContainsFunc(d.bodies, func(s namedBody) bool { return s.body["chart"] != nil })
}

// compare lists the ids of objects that differ, or that only one side has.
func compare(was, is []argocd.Object) (ids []string) {
	texts := map[string]string{}
	for _, o := range was {
		texts[o.ID] = inJSON(o.Fields)
	}
	for _, o := range is {
		if text, ok := texts[o.ID]; !ok || text != inJSON(o.Fields) {
			ids = append(ids, o.ID)
		}
		delete(texts, o.ID)
	}
	for id := range texts {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// rendered builds one release by itself.
func (l *importing) rendered(d *described) argocd.Rendered {
	folder, err := os.MkdirTemp("", "lehr-import-")
	if err != nil {
		return argocd.Rendered{Problems: []string{err.Error()}}
	}
	defer os.RemoveAll(folder)
	definition := "lehr: v1\npartition: import\nsources:\n" + d.sources() + "generate:\n" + d.generator() + "models: [lehr.kubernetes.v1.Object]\n"
	all := map[string][]byte{"lehr.yaml": []byte(definition)}
	for name, text := range d.files {
		all[name] = text
	}
	for name, text := range all {
		at := filepath.Join(folder, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(at), 0o700)
		if err == nil {
			err = os.WriteFile(at, text, 0o600)
		}
		if err != nil {
			return argocd.Rendered{Problems: []string{err.Error()}}
		}
	}
	made, err := l.render(l.ctx, filepath.Join(folder, "lehr.yaml"))
	if err != nil {
		made.Problems = append(made.Problems, err.Error())
	}
	return made
}

// fromChart renders the chart: of a source that was named, or out of the release.
func (l *importing) fromChart(r *release, name, source string) (*described, error) {
	version := r.Chart.field("version")
	d := &described{name: name, render: "helm", files: map[string][]byte{}, with: map[string]any{
		"cluster": l.cluster, "namespace": r.Namespace, "release": r.Name, "kube_version": l.kubeVersion, "nulls": "helm3",
	}}
	if len(l.apiVersions) > 0 {
		d.with["api_versions"] = l.apiVersions
	}
	d.with["chart"] = name + "-chart"
	switch {
	case strings.HasPrefix(source, "oci://"):
		d.add(name+"-chart", map[string]any{"chart": source, "version": version})
	case strings.Contains(source, "://"):
		d.add(name+"-chart", map[string]any{"chart": source, "name": r.Chart.field("name"), "version": version})
	case source != "":
		absolute, err := filepath.Abs(source)
		if err == nil {
			_, err = os.Stat(filepath.Join(absolute, "Chart.yaml"))
		}
		if err != nil {
			return nil, fmt.Errorf("--chart names the folder %s, which has no Chart.yaml", source)
		}
		d.add(name+"-chart", map[string]any{"dir": absolute, "files": []string{"**"}})
		d.with["chart"] = filepath.ToSlash(absolute)
	default:
		if err := l.writeChart(r, d); err != nil {
			return nil, err
		}
	}
	if len(r.Config) > 0 {
		file := "values/" + name + ".yaml"
		values := l.withoutSecrets(r, name, "values", r.Config)
		d.files[file] = inYAML("# The values of "+r.String()+", revision "+fmt.Sprint(r.Version)+".\n", values)
		d.add(name+"-values", map[string]any{"dir": ".", "files": []string{file}})
		d.with["values"] = []string{file}
	}
	return d, nil
}

// writeChart writes the chart out of a release. Charts that it depends on are not in a release.
func (l *importing) writeChart(r *release, d *described) error {
	folder := "charts/" + d.name
	d.with["chart"] = folder
	metadata := r.Chart.Metadata
	d.files[folder+"/Chart.yaml"] = inYAML("", metadata)
	d.files[folder+"/values.yaml"] = inYAML("", l.withoutSecrets(r, d.name, "defaults of the chart", r.Chart.Values))
	if len(r.Chart.Schema) > 0 {
		d.files[folder+"/values.schema.json"] = r.Chart.Schema
	}
	for _, file := range slices.Concat(r.Chart.Templates, r.Chart.Files) {
		if !filepath.IsLocal(file.Name) {
			return fmt.Errorf("its chart has a file %q, which leads out of the chart", file.Name)
		}
		if is, ok := secrecy.Text(withoutActions(file.Data)); ok {
			return fmt.Errorf("the file %s of its chart has %s, which is not copied", file.Name, is)
		}
		d.files[path.Join(folder, file.Name)] = file.Data
	}
	d.add(d.name+"-chart", map[string]any{"dir": ".", "files": []string{folder + "/**"}})
	var parts []string
	for _, part := range r.Chart.dependencies() {
		source := l.charts[part.Name]
		if source == "" {
			source = part.Repository
		}
		if !strings.Contains(source, "://") || strings.HasPrefix(source, "file://") {
			return fmt.Errorf("its chart depends on %s of %q, which no release holds: name its source, --chart %s=SOURCE", part.Name, part.Repository, part.Name)
		}
		body := map[string]any{"chart": source, "name": part.Name, "version": part.Version}
		if strings.HasPrefix(source, "oci://") {
			body = map[string]any{"chart": strings.TrimSuffix(source, "/") + "/" + part.Name, "version": part.Version}
		}
		at := l.nameFor(d.name + "-" + part.Name)
		d.add(at, body)
		parts = append(parts, at)
	}
	if len(parts) > 0 {
		d.with["dependencies"] = parts
	}
	return nil
}

// withoutActions is a template without the lines that compute something.
func withoutActions(text []byte) string {
	lines := strings.Split(string(text), "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "{{") }), "\n")
}

// applied is a release as the manifests that Helm applied, without Secrets.
func (l *importing) applied(r *release, name string) *described {
	file := "manifests/" + name + ".yaml"
	var out bytes.Buffer
	for _, text := range documentStart.Split(r.Manifest, -1) {
		var o map[string]any
		if yaml.Unmarshal([]byte(text), &o) != nil || o == nil || o["kind"] == "Secret" || len(secrecy.Find(o)) > 0 {
			continue
		}
		out.WriteString("---\n" + strings.TrimSpace(text) + "\n")
	}
	d := &described{name: name, render: "kubernetes", files: map[string][]byte{file: out.Bytes()}, with: map[string]any{"cluster": l.cluster, "namespace": r.Namespace}}
	d.add(name+"-manifests", map[string]any{"dir": ".", "files": []string{file}})
	return d
}

var documentStart = regexp.MustCompile(`(?m)^---.*$`)

// withoutSecrets puts references in the place of secrets, and tells of each.
func (l *importing) withoutSecrets(r *release, name, where string, values map[string]any) map[string]any {
	made, told := argocd.WithoutSecrets(name, where, values)
	for _, text := range told {
		l.addHint(r.String() + ": " + text)
	}
	if len(told) > 0 {
		l.addHint("what a chart makes of such a value is a Secret, which is left out: let it stay in the cluster, or have what holds secrets make it")
	}
	return made
}

func inYAML(head string, value any) []byte {
	out := bytes.NewBufferString(head)
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	_ = encoder.Encode(value) // Values of JSON can be encoded.
	return out.Bytes()
}

func inJSON(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // Values of JSON can be encoded.
	return strings.TrimSuffix(text.String(), "\n")
}
