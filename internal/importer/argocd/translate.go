package argocd

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// inCluster is the server by which Argo CD names the cluster that it runs in.
const inCluster = "https://kubernetes.default.svc"

// app is an Application on its way.
type app struct {
	application
	place string
	// parent is the Application that gives it, if one does; depth counts how many there are.
	parent *app
	depth  int
	// cluster is its name as lehr.yaml has it.
	cluster string
	// isEmpty: it gives Applications and nothing else.
	isEmpty bool
	// refs are its sources with a ref, by "$" and name.
	refs map[string]*appSource
	// owner is the ApplicationSet that made it.
	owner string
	// made are the generators that it became.
	made []*renderSpec
}

func (a *app) String() string { return "Application " + a.Metadata.Name }

// instance is the name that Argo CD gives to releases and labels.
func (l *importing) instance(a *app) string {
	if a.Metadata.Namespace == "" || a.Metadata.Namespace == l.controlNamespace {
		return a.Metadata.Name
	}
	return a.Metadata.Namespace + "_" + a.Metadata.Name
}

// sourcesOf lists the sources of an Application.
func (a *app) sourcesOf() []appSource {
	switch {
	case len(a.Spec.Sources) > 0:
		return a.Spec.Sources
	case a.Spec.Source != nil:
		return []appSource{*a.Spec.Source}
	case a.Spec.SourceHydrator != nil:
		return []appSource{a.Spec.SourceHydrator.DrySource}
	}
	return nil
}

// translate makes generators of an Application in a partition. What cannot be made is an error
// of that source, and the others stay.
func (l *importing) translate(p *partition, a *app) {
	a.made = nil
	sources := a.sourcesOf()
	if len(sources) == 0 {
		l.leave(a.String(), a.place+": it has no source", true)
		return
	}
	a.refs = map[string]*appSource{}
	for i := range sources {
		if sources[i].Ref != "" {
			a.refs["$"+sources[i].Ref] = &sources[i]
		}
	}
	for i := range sources {
		s := &sources[i]
		if s.Ref != "" && s.Path == "" && s.Chart == "" {
			continue // It only has files for others.
		}
		made, err := l.translateSource(p, a, s)
		if err != nil {
			l.leave(a.String(), a.place+": "+err.Error(), true)
			continue
		}
		a.made = append(a.made, made)
		p.renders = append(p.renders, made)
	}
}

func (l *importing) translateSource(p *partition, a *app, s *appSource) (*renderSpec, error) {
	if s.RepoURL == "" {
		return nil, errors.New("its source has no repoURL, so it points nowhere")
	}
	if len(s.Plugin) > 0 && string(s.Plugin) != "null" {
		return nil, errors.New("its source is made by a plugin of Argo CD, a program that Lehr does not know: write a generator, docs/use/generators.md")
	}
	with := map[string]any{"cluster": a.cluster}
	if a.Spec.Destination.Namespace != "" {
		with["namespace"] = a.Spec.Destination.Namespace
	}
	made := &renderSpec{with: with, name: p.nameFor(a.Metadata.Name), addons: l.addonsOf(a)}
	var err error
	switch {
	case s.Chart != "":
		err = l.fromChart(p, a, s, made)
	case strings.HasPrefix(s.RepoURL, "oci://"):
		err = l.fromArtifact(p, a, s, made)
	default:
		err = l.fromGit(p, a, s, made)
	}
	with["hooks"] = "include" // Argo CD runs them, whatever renders them.
	return made, err
}

// chartSource is a source of a chart in an index or a registry.
func chartSource(repository, name, version string) map[string]any {
	if repository = strings.TrimSuffix(repository, "/"); !strings.Contains(repository, "://") {
		repository = "oci://" + repository
	}
	if version == "" {
		version = "*"
	}
	if strings.HasPrefix(repository, "oci://") {
		return map[string]any{"chart": repository + "/" + name, "version": version}
	}
	return map[string]any{"chart": repository, "name": name, "version": version}
}

func (l *importing) fromChart(p *partition, a *app, s *appSource, made *renderSpec) error {
	chart := p.addSource(made.name+"-chart", &sourceSpec{body: chartSource(s.RepoURL, s.Chart, s.TargetRevision)})
	made.render, made.from = "helm", []string{chart.name}
	made.with["chart"] = chart.name
	return l.helm(p, a, s, made, &place{source: chart, folder: "."})
}

func (l *importing) fromArtifact(p *partition, a *app, s *appSource, made *renderSpec) error {
	revision, separator := cmp.Or(s.TargetRevision, "latest"), ":"
	if strings.HasPrefix(revision, "sha256:") {
		separator = "@"
	}
	artifact := p.addSource(made.name+"-files", &sourceSpec{body: map[string]any{"artifact": strings.TrimSuffix(s.RepoURL, "/") + separator + revision, "files": []string{"**"}}})
	made.from = []string{artifact.name}
	at := &place{source: artifact, folder: cmp.Or(path.Clean(s.Path), ".")}
	switch {
	case s.Helm != nil:
		// Charts in registries are packed, and the source unpacks them.
		artifact.body = map[string]any{"chart": strings.TrimSuffix(s.RepoURL, "/"), "version": revision}
		made.render, made.with["chart"] = "helm", artifact.name
		return l.helm(p, a, s, made, at)
	case s.Kustomize != nil:
		return l.kustomize(p, a, s, made, at)
	case s.Directory != nil:
		made.render = "kubernetes"
		return nil
	}
	return fmt.Errorf("%s does not say what its artifact holds: add helm, kustomize or directory to its source, and import again", s.RepoURL)
}

// place is where the files of a source lie.
type place struct {
	source *sourceSpec
	// checkout has them; nil: they are not here.
	checkout *checkout
	// folder within the source.
	folder string
}

// at is a path as renderers see it.
func (w *place) at(name string) string { return path.Join(w.source.name, name) }

// gitSource describes a source in git without its files.
func (l *importing) gitSource(repository, revision string) (body map[string]any, c *checkout, why string) {
	c, why = l.checkouts.find(l.ctx, repository, revision)
	body = map[string]any{"git": repository}
	if key, value := gitRef(c, revision); key != "" {
		body[key] = value
	}
	if strings.ContainsAny(revision, "*^~<> ") {
		// Argo CD resolves ranges of tags; a source names one.
		l.leave(repository, fmt.Sprintf("targetRevision %q is a range of tags, and a source in git names one: write tag: TAG", revision), true)
	}
	return body, c, why
}

// addGit adds a source with some files of a repository, whose name is that of the repository and
// of a folder there.
func (l *importing) addGit(p *partition, repository, revision, folder string, patterns []string) *sourceSpec {
	wanted := baseName(strings.TrimSuffix(repository, ".git"))
	if folder != "." {
		wanted += "-" + folder
	}
	body, c, _ := l.gitSource(repository, revision)
	slices.Sort(patterns)
	patterns = slices.Compact(patterns)
	body["files"] = patterns
	made := &sourceSpec{body: body, checkout: c, patterns: patterns}
	return p.addSource(wanted, made)
}

func below(folder string) string {
	if folder = path.Clean(folder); folder == "." {
		return "**"
	}
	return folder + "/**"
}

func (l *importing) fromGit(p *partition, a *app, s *appSource, made *renderSpec) error {
	folder := path.Clean(strings.Trim(s.Path, "/"))
	if strings.HasPrefix(folder, "..") {
		return fmt.Errorf("its path %q leads out of the repository", s.Path)
	}
	c, why := l.checkouts.find(l.ctx, s.RepoURL, s.TargetRevision)
	if c != nil && len(c.below(folder)) == 0 {
		return fmt.Errorf("its path %s is not in %s, so it points nowhere", s.Path, s.RepoURL)
	}
	hasFile := func(names ...string) bool {
		return c != nil && slices.ContainsFunc(names, func(name string) bool { return c.known[path.Join(folder, name)] })
	}
	switch {
	case s.Helm != nil && s.Kustomize == nil && s.Directory == nil, s.Kustomize == nil && s.Directory == nil && hasFile("Chart.yaml"):
		return l.chartInGit(p, a, s, made, c, folder)
	case s.Kustomize != nil && s.Directory == nil, s.Directory == nil && hasFile("kustomization.yaml", "kustomization.yml", "Kustomization"):
		patterns, remotes := []string{below(folder)}, []remoteBase(nil)
		if c != nil {
			patterns, remotes = kustomizationFiles(c, folder)
		}
		files := l.addGit(p, s.RepoURL, s.TargetRevision, folder, patterns)
		made.from = []string{files.name}
		l.addRemoteBases(p, made, remotes)
		return l.kustomize(p, a, s, made, &place{source: files, checkout: c, folder: folder})
	case c == nil && s.Directory == nil:
		return fmt.Errorf("it is not known whether %s of %s is a chart, a kustomization or manifests: %s", s.Path, s.RepoURL, why)
	}
	patterns, err := l.directoryPatterns(a, s, c, folder)
	if err != nil {
		return err
	}
	made.render = "kubernetes"
	made.from = []string{l.addGit(p, s.RepoURL, s.TargetRevision, folder, patterns).name}
	return nil
}

var manifestName = regexp.MustCompile(`\.(yaml|yml|json)$`)

// directoryPatterns are the manifests that Argo CD reads of a folder.
func (l *importing) directoryPatterns(a *app, s *appSource, c *checkout, folder string) (patterns []string, err error) {
	o := directoryOptions{}
	if s.Directory != nil {
		o = *s.Directory
	}
	in := func(pattern string) string { return path.Join(folder, pattern) }
	if c == nil {
		if o.Include != "" || o.Exclude != "" {
			return nil, errors.New("its directory has include or exclude, which are read against its files, and these are not here: name a checkout, --checkout " + s.RepoURL + "=FOLDER")
		}
		if o.Recurse {
			return []string{in("**/*.yaml")}, nil
		}
		return []string{in("*.yaml")}, nil
	}
	includes, excludes := argoGlob(o.Include), argoGlob(o.Exclude)
	var chosen []string
	isNarrowed, hasJsonnet := false, false
	extensions := map[string]bool{}
	for _, name := range c.below(folder) {
		inside := strings.TrimPrefix(name, folder+"/")
		if strings.Contains(inside, "/") && !o.Recurse {
			continue
		}
		isJsonnet := strings.HasSuffix(name, ".jsonnet")
		if !isJsonnet && !manifestName.MatchString(name) {
			continue
		}
		isLeftOut := includes != nil && !includes.MatchString(inside) || excludes != nil && excludes.MatchString(inside)
		switch {
		case isLeftOut:
			isNarrowed = true
		case isJsonnet:
			hasJsonnet = true
		default:
			chosen = append(chosen, name)
			extensions[path.Ext(name)] = true
		}
	}
	if hasJsonnet {
		l.leave(a.String(), a.place+": "+cmp.Or(s.Path, ".")+" has .jsonnet, which Lehr does not evaluate: have a program write the manifests, docs/use/generators.md", true)
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%s of %s has no manifest that it reads", cmp.Or(s.Path, "."), s.RepoURL)
	}
	if isNarrowed {
		// Sources have no pattern for what they leave out, so the files are named.
		l.addHint(fmt.Sprintf("%s leaves files out by include or exclude: those that it reads now are named in its source, and a new one has to be added", a))
		return chosen, nil
	}
	for extension := range extensions {
		if o.Recurse {
			patterns = append(patterns, in("**/*"+extension))
		} else {
			patterns = append(patterns, in("*"+extension))
		}
	}
	return patterns, nil
}

// argoGlob is a pattern of include and exclude: * stands for any text, also across folders;
// {a,b} for one of several. nil: there is none.
func argoGlob(text string) *regexp.Regexp {
	if text == "" {
		return nil
	}
	return globPattern(strings.ReplaceAll(strings.ReplaceAll(text, "**", "*"), "*", "**"))
}

// buildEnvironment is what Argo CD puts in for $ARGOCD_… of parameters and paths.
func (l *importing) buildEnvironment(a *app, s *appSource) func(string) string {
	values := map[string]string{
		"ARGOCD_APP_NAME": l.instance(a), "ARGOCD_APP_NAMESPACE": a.Spec.Destination.Namespace, "ARGOCD_APP_PROJECT_NAME": cmp.Or(a.Spec.Project, "default"),
		"ARGOCD_APP_SOURCE_PATH": s.Path, "ARGOCD_APP_SOURCE_REPO_URL": s.RepoURL, "ARGOCD_APP_SOURCE_TARGET_REVISION": s.TargetRevision, "KUBE_VERSION": l.kubeVersion,
	}
	return func(text string) string {
		return variablePattern.ReplaceAllStringFunc(text, func(found string) string {
			name := strings.Trim(found, "${}")
			if strings.HasPrefix(name, "ARGOCD_APP_REVISION") {
				l.leave(a.String(), a.place+": "+found+" is the commit that is applied, which is not known before", true)
				return found
			}
			if value, ok := values[name]; ok {
				return value
			}
			return found
		})
	}
}

var variablePattern = regexp.MustCompile(`\$\{?(ARGOCD_[A-Z_]+|KUBE_VERSION)\}?`)
