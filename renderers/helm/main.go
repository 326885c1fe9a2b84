// Command lehr-helm is the renderer helm: it renders a chart of declared files,
// as helm template does, and gives each object as an asset. What charts take
// from chance, the clock or a cluster is taken from them (vary.go); nothing is
// fetched.
package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"

	"lehr.dev/sdk/generator"
	"lehr.dev/sdk/generator/kubernetes"
)

func main() {
	isolate()
	generator.Main(generate)
}

// isolate leaves no way out, where there is no sandbox either. Whatever asks
// for the local time zone gets UTC.
func isolate() {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		os.Setenv(name, "http://127.0.0.1:1")
	}
	time.Local = time.UTC
}

// options of a release, from with.
type options struct {
	folder, release, kubeVersion string
	values, set, apiVersions     []string
	// dependencies are the folders of charts that it depends on, which are not in it.
	dependencies []string
	// nulls says which Helm's reading of nulls is meant; empty: nobody said.
	nulls string
	// postRender is the file of a kustomization that changes what the chart renders.
	postRender string
	settings   kubernetes.Settings
}

var keys = []string{"chart", "values", "set", "release", "kube_version", "api_versions", "nulls", "dependencies", "post_render"}

func generate(in *generator.Input, out *generator.Output) error {
	o, err := read(in)
	if err != nil {
		return err
	}
	names, err := in.Files()
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[name], err = in.Read(name); err != nil {
			return err
		}
	}
	objects, findings := render(files, o)
	kubernetes.Tell(out, objects, kubernetes.Whole(objects, findings))
	return nil
}

func read(in *generator.Input) (options, error) {
	with, err := in.Options(append(slices.Clone(kubernetes.Keys), keys...)...)
	if err != nil {
		return options{}, err
	}
	o := options{values: with["values"], set: with["set"], apiVersions: with["api_versions"], dependencies: with["dependencies"]}
	o.settings, err = kubernetes.SettingsOf(with)
	for key, to := range map[string]*string{"chart": &o.folder, "release": &o.release, "kube_version": &o.kubeVersion, "nulls": &o.nulls, "post_render": &o.postRender} {
		value, problem := with.One(key, "")
		*to = value
		err = errors.Join(err, problem)
	}
	if o.release == "" {
		o.release = in.Generator()
	}
	o.folder = path.Clean(o.folder)
	switch {
	case err != nil:
		return o, err
	case in.File() != "":
		return o, errors.New("a chart is rendered whole: leave for_each out, and write a generator for each release")
	case len(with["chart"]) == 0:
		return o, errors.New("with does not name the chart: write with: {chart: FOLDER}, from the folder of lehr.yaml")
	case o.kubeVersion == "":
		return o, errors.New("with does not say for which Kubernetes: write with: {kube_version: \"1.34\"}, for templates ask, and a later Helm would answer otherwise")
	case o.nulls != "" && o.nulls != nullsOfHelm3 && o.nulls != nullsOfHelm4:
		return o, fmt.Errorf("with.nulls %q is not known: write helm3, which keeps a null in a chart's own values, or helm4, which leaves it out", o.nulls)
	}
	return o, nil
}

// render gives the objects of a release. Where a template asked for chance or
// the time, it is rendered again with others, to see what depends on them; and where
// it matters whose reading of nulls is meant, and nobody said so, by the other one.
func render(files map[string][]byte, o options) ([]kubernetes.Object, []kubernetes.Finding) {
	first := &vary{}
	r := &release{options: o, files: files}
	objects, findings := r.render(first)
	if failed(findings) {
		return objects, findings
	}
	findings = append(findings, exponents(r.values, objects)...)
	if o.nulls == "" && r.nullsDiffer {
		findings = append(findings, nullsMatter(files, o, objects)...)
	}
	if first.used {
		again, _ := (&release{options: o, files: files}).render(&vary{second: true})
		findings = append(findings, varying(objects, again, first.names())...)
	}
	return objects, findings
}

func failed(findings []kubernetes.Finding) bool {
	return slices.ContainsFunc(findings, kubernetes.Finding.Fails)
}

// render renders the chart once.
func (r *release) render(by *vary) ([]kubernetes.Object, []kubernetes.Finding) {
	chart := r.load()
	if chart == nil {
		return nil, r.findings
	}
	values := r.input(chart)
	if len(r.findings) > 0 {
		return nil, r.findings
	}
	rendered, err := engine.Engine{CustomTemplateFuncs: by.functions()}.Render(chart, values)
	if err != nil {
		r.fail(chart, err)
		return nil, r.findings
	}
	var manifests []kubernetes.Manifest
	for _, crd := range chart.CRDObjects() {
		manifests = append(manifests, kubernetes.Manifest{File: r.path(chart, crd.Filename), Text: crd.File.Data})
	}
	for name, text := range rendered {
		if !strings.HasSuffix(name, "NOTES.txt") && strings.TrimSpace(text) != "" {
			manifests = append(manifests, kubernetes.Manifest{File: r.path(chart, name), Text: []byte(text), Rendered: true})
		}
	}
	slices.SortFunc(manifests, func(a, b kubernetes.Manifest) int {
		return strings.Compare(a.File+string(a.Text), b.File+string(b.Text))
	})
	settings := r.options.settings
	settings.ClusterScoped = slices.Concat(settings.ClusterScoped, kubernetes.ClusterKinds(r.files))
	documents := r.postRender(split(manifests))
	if failed(r.findings) {
		return nil, r.findings
	}
	objects, findings := kubernetes.Read(documents, settings)
	return objects, append(r.findings, findings...)
}

// split splits what templates gave as Helm does: wherever a line begins with ---,
// whatever follows on it. Each document has its lines where the text has them, and a
// newline at its end, as Helm writes them.
func split(manifests []kubernetes.Manifest) (documents []kubernetes.Manifest) {
	for _, m := range manifests {
		if !m.Rendered {
			documents = append(documents, m)
			continue
		}
		text, at := string(m.Text), 0
		parts := releaseutil.SplitManifests(text)
		for i := range len(parts) {
			part := parts[fmt.Sprintf("manifest-%d", i)]
			at += max(strings.Index(text[at:], part), 0)
			m.Text = []byte(strings.Repeat("\n", strings.Count(text[:at], "\n")) + part + "\n")
			documents = append(documents, m)
			at += len(part)
		}
	}
	return documents
}

// input are the values and all else that templates see.
func (r *release) input(chart *chartv2.Chart) common.Values {
	version, err := common.ParseKubeVersion(r.options.kubeVersion)
	if err != nil {
		r.wrong(theDefinition, 0, "write for example 1.34", "with.kube_version %q is no version", r.options.kubeVersion)
		return nil
	}
	if wants := chart.Metadata.KubeVersion; wants != "" && !chartutil.IsCompatibleRange(wants, version.String()) {
		r.wrong(path.Join(r.options.folder, "Chart.yaml"), 0, "use a version of the chart for this Kubernetes, or another with.kube_version", "the chart is for Kubernetes %s, and not %s", wants, version.Version)
		return nil
	}
	values := r.given()
	if len(r.findings) > 0 {
		return nil
	}
	if err := chartutil.ProcessDependencies(chart, values); err != nil {
		r.fail(chart, err)
		return nil
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	capabilities.APIVersions = slices.Concat(capabilities.APIVersions, common.VersionSet(r.options.apiVersions))
	all, err := util.ToRenderValuesWithSchemaValidation(chart, values, common.ReleaseOptions{Name: r.options.release, Namespace: r.options.settings.Namespace, Revision: 1, IsInstall: true}, capabilities, true)
	if err == nil {
		r.nullsDiffer = readings(chart, values)
		r.values, err = coalesce(chart, values, r.options.nulls)
	}
	if err == nil {
		all["Values"] = r.values
		if err = util.ValidateAgainstSchema(chart, r.values); err != nil {
			err = fmt.Errorf("values don't meet the specifications of the schema(s) in the following chart(s):\n%w", err)
		}
	}
	if err != nil {
		r.wrong(r.lastValues(), 0, "change with.values or with.set; values.schema.json of the chart says what is allowed", "%s", shown(strings.ReplaceAll(err.Error(), "file:///values.schema.json", "values.schema.json")))
	}
	return all
}

func (r *release) lastValues() string {
	if n := len(r.options.values); n > 0 {
		return r.options.values[n-1]
	}
	return path.Join(r.options.folder, "values.yaml")
}

// path is the declared file that a name in the chart is: CHART/templates/x.yaml,
// CHART/charts/PART/templates/x.yaml. Of a part that is an archive, the archive.
func (r *release) path(chart *chartv2.Chart, name string) string {
	inside := strings.TrimPrefix(name, chart.Name()+"/")
	file := r.declared(inside)
	if r.files[file] != nil {
		return file
	}
	if _, part, found := strings.Cut(inside, "charts/"); found {
		part, _, _ = strings.Cut(part, "/")
		for archive := range r.files {
			if strings.HasPrefix(archive, path.Join(r.options.folder, "charts", part)+"-") && strings.HasSuffix(archive, ".tgz") {
				return archive
			}
		}
	}
	return path.Join(r.options.folder, "Chart.yaml")
}

var templateLine = regexp.MustCompile(`([A-Za-z0-9_./-]+/(?:templates|crds)/[A-Za-z0-9_./-]+):(\d+)`)

// fail is what a person is told of Helm's errors: the last template that they
// name, where the error is, or the first that asked for it.
func (r *release) fail(chart *chartv2.Chart, err error) {
	file, line := path.Join(r.options.folder, "Chart.yaml"), 0
	if found := templateLine.FindAllStringSubmatch(err.Error(), -1); found != nil {
		last := found[len(found)-1]
		file = r.path(chart, last[1])
		line, _ = strconv.Atoi(last[2])
	}
	r.wrong(file, line, "mend the template or the values; helm template says the same", "Helm cannot render it: %s", shown(err.Error()))
}

func shown(message string) string {
	// Where it began, and what it came to.
	message = strings.Join(strings.Fields(message), " ")
	if n := len(message); n > 600 {
		message = strings.ToValidUTF8(message[:300], "") + " … " + strings.ToValidUTF8(message[n-300:], "")
	}
	return message
}
