package argocd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/secrecy"
)

// chartInGit is a chart in a folder of a repository.
func (l *importing) chartInGit(p *partition, a *app, s *appSource, made *renderSpec, c *checkout, folder string) error {
	if c != nil && !c.known[path.Join(folder, "Chart.yaml")] {
		return fmt.Errorf("%s of %s has no Chart.yaml, and its source has options of Helm", cmp.Or(s.Path, "."), s.RepoURL)
	}
	patterns := []string{below(folder)}
	if c != nil && c.known[path.Join(folder, ".helmignore")] {
		patterns = append(patterns, path.Join(folder, ".helmignore"))
	}
	values, err := l.valueFiles(a, s, c, folder)
	if err != nil {
		return err
	}
	for _, v := range values {
		if v.isHere && !matchesAny(patterns, v.path) {
			patterns = append(patterns, v.path)
		}
	}
	var parts []chartPart
	if c != nil {
		parts = chartParts(c, folder)
		for _, part := range parts {
			if part.local != "" && len(c.below(part.local)) > 0 {
				patterns = append(patterns, below(part.local))
			}
		}
	}
	files := l.addGit(p, s.RepoURL, s.TargetRevision, folder, patterns)
	at := &place{source: files, checkout: c, folder: folder}
	made.render, made.from = "helm", []string{files.name}
	made.with["chart"] = at.at(folder)
	if err := l.addParts(p, a, made, at, parts); err != nil {
		return err
	}
	return l.helm(p, a, s, made, at)
}

// chartPart is a chart that another depends on and that does not lie in its folder charts.
type chartPart struct{ name, version, repository, local string }

// chartParts reads what Chart.yaml (or requirements.yaml) and its lock name.
func chartParts(c *checkout, folder string) (parts []chartPart) {
	type dependencies struct {
		Dependencies []struct{ Name, Version, Repository string }
	}
	var wanted, locked dependencies
	for _, name := range []string{"Chart", "requirements"} {
		_ = yaml.Unmarshal(c.read(path.Join(folder, name+".yaml")), &wanted) // What is wrong with it is told when it is rendered.
		_ = yaml.Unmarshal(c.read(path.Join(folder, name+".lock")), &locked)
		if len(wanted.Dependencies) > 0 {
			break
		}
	}
	for _, d := range wanted.Dependencies {
		isThere := slices.ContainsFunc(c.below(path.Join(folder, "charts")), func(name string) bool {
			inside := strings.TrimPrefix(name, path.Join(folder, "charts")+"/")
			return strings.HasPrefix(inside, d.Name+"/") || strings.HasPrefix(inside, d.Name+"-") && strings.HasSuffix(inside, ".tgz")
		})
		if isThere || slices.ContainsFunc(parts, func(p chartPart) bool { return p.name == d.Name }) {
			continue
		}
		part := chartPart{name: d.Name, version: d.Version, repository: d.Repository}
		for _, lock := range locked.Dependencies {
			if lock.Name == d.Name {
				part.version = lock.Version
			}
		}
		if to, ok := strings.CutPrefix(d.Repository, "file://"); ok {
			part.local = path.Join(folder, to)
		}
		parts = append(parts, part)
	}
	return parts
}

func (l *importing) addParts(p *partition, a *app, made *renderSpec, at *place, parts []chartPart) error {
	var folders []string
	for _, part := range parts {
		switch {
		case part.local != "":
			folders = append(folders, at.at(part.local))
		case strings.HasPrefix(part.repository, "@"), strings.HasPrefix(part.repository, "alias:"), part.repository == "":
			return fmt.Errorf("its chart depends on %s of the repository %q, which names no address: write the URL into Chart.yaml", part.name, part.repository)
		default:
			source := p.addSource(made.name+"-"+part.name, &sourceSpec{body: chartSource(part.repository, part.name, part.version)})
			folders = append(folders, source.name)
			made.from = append(made.from, source.name)
		}
	}
	if len(folders) > 0 {
		made.with["dependencies"] = folders
	}
	return nil
}

// valueFile is one of valueFiles.
type valueFile struct {
	// path within the repository; isHere: that of the chart. Else source reads it, or url has it.
	path   string
	isHere bool
	of     *appSource
	url    string
}

// valueFiles resolves the paths, and leaves out those that are missing and may be.
func (l *importing) valueFiles(a *app, s *appSource, c *checkout, folder string) (list []valueFile, err error) {
	if s.Helm == nil {
		return nil, nil
	}
	fill := l.buildEnvironment(a, s)
	for _, text := range s.Helm.ValueFiles {
		name := fill(text)
		v := valueFile{isHere: true}
		in := c
		switch {
		case strings.HasPrefix(name, "$"):
			ref, rest, _ := strings.Cut(name, "/")
			if v.of = a.refs[ref]; v.of == nil {
				return nil, fmt.Errorf("its values are in %s, and no source has ref: %s", text, strings.TrimPrefix(ref, "$"))
			}
			v.path, v.isHere = path.Clean(rest), false
			in, _ = l.checkouts.find(l.ctx, v.of.RepoURL, v.of.TargetRevision)
		case strings.Contains(name, "://"):
			v.url, v.isHere = name, false
			list = append(list, v)
			continue
		case strings.HasPrefix(name, "/"):
			v.path = path.Clean(name[1:])
		default:
			v.path = path.Join(folder, name)
		}
		if strings.HasPrefix(v.path, "..") {
			return nil, fmt.Errorf("its values are in %s, which leads out of the repository", text)
		}
		if in == nil {
			list = append(list, v)
			continue
		}
		found := []string{}
		for _, candidate := range in.names {
			if candidate == v.path || strings.ContainsAny(v.path, "*?[") && globPattern(v.path).MatchString(candidate) {
				found = append(found, candidate)
			}
		}
		if len(found) == 0 && !s.Helm.IgnoreMissingValueFiles {
			return nil, fmt.Errorf("its values are in %s, which is not there", text)
		}
		for _, candidate := range found {
			one := v
			one.path = candidate
			list = append(list, one)
		}
	}
	return list, nil
}

// helm writes the options of Helm: files of values, then values, then parameters.
func (l *importing) helm(p *partition, a *app, s *appSource, made *renderSpec, at *place) error {
	o := helmOptions{}
	if s.Helm != nil {
		o = *s.Helm
	}
	release := cmp.Or(o.ReleaseName, l.instance(a))
	made.with["release"], made.with["nulls"] = release, "helm3"
	made.with["kube_version"] = cmp.Or(strings.TrimPrefix(o.KubeVersion, "v"), l.kubeVersion)
	if versions := append(slices.Clone(l.apiVersions), o.APIVersions...); len(versions) > 0 {
		made.with["api_versions"] = versions
	}
	if o.Namespace != "" {
		made.with["namespace"] = o.Namespace
	}
	files, err := l.valueFiles(a, s, at.checkout, at.folder)
	if err != nil {
		return err
	}
	var values []string
	for _, v := range files {
		values = append(values, l.addValueFile(p, made, at, v))
	}
	if text, err := l.inlineValues(a, made, o); err != nil {
		return err
	} else if text != nil {
		name := "values/" + made.name + ".yaml"
		made.from = append(made.from, p.addFile(made.name+"-values", name, text).name)
		values = append(values, name)
	}
	if len(values) > 0 {
		made.with["values"] = values
	}
	l.parameters(p, a, s, made, at, o)
	if o.SkipCrds {
		l.skipCRDs(a, made, at)
	}
	return nil
}

func (l *importing) addValueFile(p *partition, made *renderSpec, at *place, v valueFile) string {
	addFrom := func(s *sourceSpec) {
		if !slices.Contains(made.from, s.name) {
			made.from = append(made.from, s.name)
		}
	}
	switch {
	case v.url != "":
		name := path.Base(v.url)
		if at := strings.IndexAny(name, "?#"); at >= 0 {
			name = name[:at]
		}
		source := p.addSource(made.name+"-values", &sourceSpec{body: map[string]any{"http": v.url, "file": name}})
		addFrom(source)
		return source.name + "/" + name
	case v.isHere:
		return at.at(v.path)
	}
	source := l.addGit(p, v.of.RepoURL, v.of.TargetRevision, path.Dir(v.path), []string{v.path})
	addFrom(source)
	return source.name + "/" + v.path
}

// inlineValues are values and valuesObject, of which the latter counts, without secrets.
func (l *importing) inlineValues(a *app, made *renderSpec, o helmOptions) ([]byte, error) {
	values := o.ValuesObject
	text := []byte(o.Values)
	if values == nil {
		if strings.TrimSpace(o.Values) == "" {
			return nil, nil
		}
		value, err := parseYAML(text)
		if err != nil {
			return nil, fmt.Errorf("its values are no YAML: %w", err)
		}
		var ok bool
		if values, ok = value.(map[string]any); !ok && value != nil {
			return nil, errors.New("its values are no mapping of YAML")
		}
		if len(secrecy.Find(values)) == 0 {
			return append(bytes.TrimRight(text, "\n"), '\n'), nil // As they are written, with their comments.
		}
	}
	values, told := WithoutSecrets(made.name, "values", values)
	for _, text := range told {
		l.secrets = append(l.secrets, a.String()+": "+text)
	}
	out := bytes.NewBufferString("# The values of " + a.String() + ".\n")
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := encoder.Encode(values); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// WithoutSecrets is a copy of values with references in the place of secrets, and what to tell of
// each: never its value.
func WithoutSecrets(name, where string, values map[string]any) (made map[string]any, told []string) {
	made = copied(values)
	for _, hit := range secrecy.Find(made) {
		reference := referenceTo(name, where+"."+hit.Path)
		told = append(told, tellSecret(where+"."+hit.Path, hit.Is, reference))
		replaceAt(made, pathStep.FindAllStringSubmatch(hit.Path, -1), reference)
	}
	return made, told
}

func tellSecret(where, is, reference string) string {
	return fmt.Sprintf("%s has %s, which is not copied; %s is in its place", where, is, reference)
}

var notInVariable = regexp.MustCompile(`[^A-Z0-9]+`)

// referenceTo names the variable in which an operator would keep a secret.
func referenceTo(name, where string) string {
	return "env:LEHR_" + strings.Trim(notInVariable.ReplaceAllString(strings.ToUpper(name+"_"+where), "_"), "_")
}

var pathStep = regexp.MustCompile(`\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|([^.\[\]]+)`)

// replaceAt sets what a path leads to, where it leads anywhere.
func replaceAt(value any, steps [][]string, text string) {
	for i, step := range steps {
		isLast := i == len(steps)-1
		switch container := value.(type) {
		case map[string]any:
			key := cmp.Or(step[1], step[2], step[3])
			if _, ok := container[key]; !ok {
				// A key with dots: the rest of the path is one key.
				rest := joinSteps(steps[i:])
				if _, ok := container[rest]; ok {
					container[rest] = text
				}
				return
			}
			if isLast {
				container[key] = text
				return
			}
			value = container[key]
		case []any:
			index := 0
			if _, err := fmt.Sscan(step[2], &index); err != nil || index >= len(container) {
				return
			}
			if isLast {
				container[index] = text
				return
			}
			value = container[index]
		default:
			return
		}
	}
}

func joinSteps(steps [][]string) string {
	var parts []string
	for _, step := range steps {
		parts = append(parts, cmp.Or(step[1], step[2], step[3]))
	}
	return strings.Join(parts, ".")
}

var looseComma = regexp.MustCompile(`(^|[^\\]),`)

// parameters become assignments, in the order in which Argo CD hands them to Helm.
func (l *importing) parameters(p *partition, a *app, s *appSource, made *renderSpec, at *place, o helmOptions) {
	fill := l.buildEnvironment(a, s)
	var plainOnes, texts, fromFiles []string
	for _, parameter := range o.Parameters {
		value := fill(parameter.Value)
		if is, ok := secrecy.Field(parameter.Name, value); ok {
			where := "parameter " + parameter.Name
			value = referenceTo(made.name, where)
			l.secrets = append(l.secrets, a.String()+": "+tellSecret(where, is, value))
		}
		if !strings.HasPrefix(value, "{") || !strings.HasSuffix(value, "}") {
			for looseComma.MatchString(value) {
				value = looseComma.ReplaceAllString(value, `$1\,`)
			}
		}
		if parameter.ForceString {
			texts = append(texts, parameter.Name+"="+value)
		} else {
			plainOnes = append(plainOnes, parameter.Name+"="+value)
		}
	}
	for _, f := range o.FileParameters {
		name := path.Join(at.folder, fill(f.Path))
		if strings.HasPrefix(f.Path, "/") {
			name = path.Clean(fill(f.Path)[1:])
		}
		fromFiles = append(fromFiles, f.Name+"="+at.at(name))
		if at.source.patterns != nil && !matchesAny(at.source.patterns, name) {
			extra := l.addGit(p, s.RepoURL, s.TargetRevision, path.Dir(name), []string{name})
			made.from = append(made.from, extra.name)
			fromFiles[len(fromFiles)-1] = f.Name + "=" + extra.name + "/" + name
		}
	}
	for key, list := range map[string][]string{"set": plainOnes, "set_string": texts, "set_file": fromFiles} {
		if len(list) > 0 {
			made.with[key] = list
		}
	}
}

// skipCRDs leaves out the definitions in the chart's folder crds.
func (l *importing) skipCRDs(a *app, made *renderSpec, at *place) {
	if at.checkout == nil {
		made.with["omit"] = []string{"CustomResourceDefinition.apiextensions.k8s.io/*"}
		l.addHint(fmt.Sprintf("%s skips the definitions in its chart's crds/: all of its definitions are omitted, also any that a template makes", a))
		return
	}
	var omit []string
	for _, name := range at.checkout.below(path.Join(at.folder, "crds")) {
		decoder := yaml.NewDecoder(bytes.NewReader(at.checkout.read(name)))
		for {
			var crd struct {
				Kind     string
				Metadata struct{ Name string }
			}
			if decoder.Decode(&crd) != nil {
				break
			}
			if crd.Kind == "CustomResourceDefinition" {
				omit = append(omit, "CustomResourceDefinition.apiextensions.k8s.io/"+crd.Metadata.Name)
			}
		}
	}
	if len(omit) > 0 {
		made.with["omit"] = omit
	}
}
