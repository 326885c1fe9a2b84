package flux

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"lehr.dev/internal/ground/secrecy"
)

func sortedKeys[V any](values map[string]V) []string { return slices.Sorted(maps.Keys(values)) }

// find looks an object up by its kind, in the namespace of who refers to it or its own.
func (f *fleet) find(kind string, r reference, home string) (object, bool) {
	o, ok := f.index[named{kind, cmpOr(r.Namespace, home), r.Name}]
	return o, ok
}

// filesOf is the checkout of a source, and the folder in it that a path of the source is. The
// reason is empty where there is one.
func (f *fleet) filesOf(r reference, home, inside string) (c *checkout, folder, reason string) {
	inside = strings.TrimPrefix(path.Clean("/"+inside), "/")
	if r.Kind == artifactKind {
		return f.composed(r, home, inside)
	}
	if c, ok := f.others[r.Name]; ok {
		f.rememberURL(c, r, home)
		return c, inside, ""
	}
	if r.Name == cmpOr(f.mainSource, systemFolder) || f.isOnlySource(r) || f.isOfFolder(r, home) {
		f.rememberURL(f.main, r, home)
		return f.main, inside, ""
	}
	return nil, "", fmt.Sprintf("its source is the %s %s, whose files are not here: name where they lie, --checkout %s=FOLDER", r.Kind, r.Name, r.Name)
}

// isOfFolder reports whether a source is of the repository that the folder is called after.
func (f *fleet) isOfFolder(r reference, home string) bool {
	o, ok := f.find(r.Kind, r, home)
	if !ok {
		return false
	}
	spec, ok := decode[sourceSpec](f, o)
	return ok && strings.TrimSuffix(path.Base(strings.TrimSuffix(spec.URL, "/")), ".git") == path.Base(f.main.folder)
}

// isOnlySource reports whether no other source of files is named by any Kustomization.
func (f *fleet) isOnlySource(r reference) bool {
	for _, k := range f.kustomizations {
		if other := k.spec.SourceRef; other.Name != r.Name && other.Kind != artifactKind {
			return false
		}
	}
	return len(f.others) == 0
}

func (f *fleet) rememberURL(c *checkout, r reference, home string) {
	if o, ok := f.find(r.Kind, r, home); ok && c.git == nil && (o.Kind == repositoryKind || o.Kind == ociKind) {
		if spec, ok := decode[sourceSpec](f, o); ok {
			c.git, c.isArtifact, c.repository = &spec, o.Kind == ociKind, o.place()
			if len(spec.Include) > 0 || spec.Ignore != "" {
				f.leave(o.place(), "its ignore and include are not carried over: files of the source in lehr.yaml says what is read", false)
			}
			if f.settings.fromGit && spec.Ref.Semver != "" {
				f.leave(o.place(), "its ref is a range of versions: write one tag in its source", true)
			}
			f.tellLogin(o, spec)
		}
	}
}

// composed follows an artifact that an ArtifactGenerator makes to where its files come from.
// That works where all that it copies keeps its place below one folder.
func (f *fleet) composed(r reference, home, inside string) (c *checkout, folder, reason string) {
	namespace := cmpOr(r.Namespace, home)
	for _, key := range slices.SortedFunc(maps.Keys(f.index), compareNamed) {
		if key.kind != "ArtifactGenerator" || key.namespace != namespace {
			continue
		}
		o := f.index[key]
		spec, ok := decode[composeSpec](f, o)
		if !ok {
			continue
		}
		for _, artifact := range spec.Artifacts {
			if artifact.Name != r.Name {
				continue
			}
			top, alias, ok := "", "", len(artifact.Copy) > 0
			for i, copied := range artifact.Copy {
				from, at := splitCopy(copied.From)
				_, to := splitCopy(copied.To)
				below, isBelow := strings.CutSuffix("/"+at, "/"+to)
				if to == "" {
					below, isBelow = "/"+at, true
				}
				if !isBelow || i > 0 && (below != top || from != alias) {
					ok = false
				}
				top, alias = below, from
			}
			if !ok {
				return nil, "", fmt.Sprintf("%s puts folders together that do not lie so in one repository: lay them out as %s has them, or import with the folder that it makes, --checkout %s=FOLDER", o.place(), r.Name, r.Name)
			}
			for _, source := range spec.Sources {
				if source.Alias == alias {
					return f.filesOf(reference{source.Kind, source.Namespace, source.Name}, namespace, path.Join(top, inside))
				}
			}
		}
	}
	if c, ok := f.others[r.Name]; ok {
		return c, inside, ""
	}
	return nil, "", fmt.Sprintf("its source is the artifact %s, which no ArtifactGenerator here makes: name where its files lie, --checkout %s=FOLDER", r.Name, r.Name)
}

func compareNamed(a, b named) int {
	return strings.Compare(a.kind+"\x00"+a.namespace+"\x00"+a.name, b.kind+"\x00"+b.namespace+"\x00"+b.name)
}

// splitCopy splits @ALIAS/PATH/** of an ArtifactGenerator.
func splitCopy(text string) (alias, folder string) {
	alias, folder, _ = strings.Cut(strings.TrimPrefix(text, "@"), "/")
	folder = strings.TrimSuffix(strings.TrimSuffix(folder, "**"), "*")
	return alias, strings.Trim(folder, "/")
}

// chart is where a release's chart comes from.
type chart struct {
	// source is that of lehr.yaml; nil: a folder of a checkout.
	source map[string]any
	// name of the source, folder of the chart as the renderer finds it, and the top that files
	// of values are named from.
	name, folder, top string
	reason            string
}

// chartOf finds the chart of a release.
func (f *fleet) chartOf(r *release) chart {
	home := r.Metadata.Namespace
	if reference := r.spec.ChartRef; reference != nil {
		switch reference.Kind {
		case ociKind:
			return f.packedChart(*reference, home)
		case artifactKind:
			return f.folderChart(*reference, home, ".", ".")
		}
		o, ok := f.find("HelmChart", *reference, home)
		if !ok {
			return chart{reason: fmt.Sprintf("the %s %s that its chartRef names is not here", reference.Kind, reference.Name)}
		}
		spec, ok := decode[chartSpec](f, o)
		if !ok {
			return chart{reason: "its HelmChart cannot be read"}
		}
		return f.specChart(spec, o.Metadata.Namespace)
	}
	if r.spec.Chart == nil {
		return chart{reason: "it has neither chart nor chartRef"}
	}
	return f.specChart(r.spec.Chart.Spec, home)
}

func (f *fleet) specChart(spec chartSpec, home string) chart {
	if spec.SourceRef.Kind != "HelmRepository" {
		return f.folderChart(spec.SourceRef, home, spec.Chart, ".")
	}
	o, ok := f.find("HelmRepository", spec.SourceRef, home)
	if !ok {
		return chart{reason: fmt.Sprintf("the HelmRepository %s that it names is not here", spec.SourceRef.Name)}
	}
	repository, ok := decode[sourceSpec](f, o)
	if !ok {
		return chart{reason: "its HelmRepository cannot be read"}
	}
	version := cmpOr(spec.Version, "*")
	source := map[string]any{"chart": repository.URL, "name": spec.Chart, "version": version}
	if repository.Type == "oci" || strings.HasPrefix(repository.URL, "oci://") {
		source = map[string]any{"chart": f.registryURL(repository) + "/" + spec.Chart, "version": version}
	}
	f.tellLogin(o, repository)
	return f.sourceChart(source, spec.Chart)
}

// packedChart is one that an OCIRepository names whole.
func (f *fleet) packedChart(r reference, home string) chart {
	o, ok := f.find(ociKind, r, home)
	if !ok {
		return chart{reason: fmt.Sprintf("the OCIRepository %s that its chartRef names is not here", r.Name)}
	}
	spec, ok := decode[sourceSpec](f, o)
	if !ok {
		return chart{reason: "its OCIRepository cannot be read"}
	}
	source := map[string]any{"chart": f.registryURL(spec), "version": cmpOr(spec.Ref.Tag, cmpOr(spec.Ref.Semver, "*"))}
	if spec.Ref.Digest != "" {
		source["digest"] = spec.Ref.Digest
	}
	if spec.Ref.SemverFilter != "" {
		f.leave(o.place(), "its semverFilter is not carried over: write the version in lehr.yaml", true)
	}
	f.tellLogin(o, spec)
	return f.sourceChart(source, path.Base(spec.URL))
}

func (f *fleet) registryURL(spec sourceSpec) string {
	text := strings.TrimSuffix(spec.URL, "/")
	if rest, ok := strings.CutPrefix(text, "oci://"); ok && spec.Insecure {
		return "oci+http://" + rest
	}
	return text
}

// tellLogin says which source needs a login, which is not copied.
func (f *fleet) tellLogin(o object, spec sourceSpec) {
	if spec.SecretRef != nil {
		f.addHint(fmt.Sprintf("%s logs in by the Secret %s: name user and token of its source in lehr.yaml, as {env: VARIABLE}", o.place(), spec.SecretRef.Name))
	}
	if len(spec.Verify) > 0 {
		f.addHint(fmt.Sprintf("%s verifies signatures: name the key in verify of its source, and list it for the operator", o.place()))
	}
}

// sourceChart gives a chart its source; two releases of one chart share it.
func (f *fleet) sourceChart(source map[string]any, name string) chart {
	text := plain(source)
	for _, r := range f.releases {
		if r.chart.source != nil && plain(r.chart.source) == text {
			return chart{source: source, name: r.chart.name, folder: r.chart.name, top: r.chart.name}
		}
	}
	unique := f.unique(segment(name)+"-chart", segment(name)+"-chart-2")
	return chart{source: source, name: unique, folder: unique, top: unique}
}

// folderChart is one that lies in a folder of a source of files.
func (f *fleet) folderChart(r reference, home, inside, top string) chart {
	c, folder, reason := f.filesOf(r, home, inside)
	if reason != "" {
		return chart{reason: reason}
	}
	if c.files[path.Join(folder, "Chart.yaml")] == nil {
		return chart{reason: fmt.Sprintf("%s has no Chart.yaml", path.Join(c.mount, folder))}
	}
	c.used[path.Join(folder, "**")] = true
	return chart{name: c.name, folder: path.Join(c.mount, folder), top: path.Join(c.mount, top)}
}

// definition of a checkout as a source in lehr.yaml.
func (c *checkout) definition(fromGit bool) map[string]any {
	patterns := sortedKeys(c.used)
	if !fromGit || c.git == nil {
		return map[string]any{"dir": c.folder, "files": patterns}
	}
	source := map[string]any{"files": patterns}
	ref := c.git.Ref
	if c.isArtifact {
		text := c.git.URL
		if tag := cmpOr(ref.Tag, ref.Semver); tag != "" || ref.Digest == "" {
			text += ":" + cmpOr(tag, "latest")
		}
		if ref.Digest != "" {
			text += "@" + ref.Digest
		}
		source["artifact"] = text
		return source
	}
	source["git"] = secrecy.Redact(c.git.URL)
	switch {
	case ref.Commit != "":
		source["commit"] = ref.Commit
	case ref.Tag != "":
		source["tag"] = ref.Tag
	case ref.Branch != "":
		source["branch"] = ref.Branch
	}
	return source
}
