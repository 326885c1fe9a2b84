package argocd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// mostGenerated is how many Applications one ApplicationSet may make.
const mostGenerated = 5000

var errTooMany = fmt.Errorf("it makes more than %d Applications: narrow its generators, or import its repository in parts", mostGenerated)

// expansion makes the Applications of one ApplicationSet.
type expansion struct {
	ctx       context.Context
	set       applicationSet
	clusters  []knownCluster
	checkouts *checkouts
}

// parameters are what one Application is made of, and the template that its generator has.
type parameters struct {
	values   map[string]any
	template map[string]any
}

// expandSet gives the Applications, as objects.
func (e *expansion) expandSet() ([]map[string]any, error) {
	var made []map[string]any
	if len(e.set.Spec.Generators) == 0 {
		return nil, errors.New("it has no generators")
	}
	for _, g := range e.set.Spec.Generators {
		list, err := e.generate(g, nil)
		if err != nil {
			return nil, err
		}
		if len(made)+len(list) > mostGenerated {
			return nil, errTooMany
		}
		for _, p := range list {
			one, err := e.application(p)
			if err != nil {
				return nil, err
			}
			made = append(made, one)
		}
	}
	return made, nil
}

func (e *expansion) fill(values map[string]any) func(string) (string, error) {
	if e.set.Spec.GoTemplate {
		return fillGo(values, e.set.Spec.GoTemplateOptions)
	}
	return fillFlat(values)
}

// application fills a template.
func (e *expansion) application(p parameters) (map[string]any, error) {
	fill := e.fill(p.values)
	fields, err := fillValue(merged(copied(e.set.Spec.Template), p.template), fill)
	if err != nil {
		return nil, err
	}
	if patch := e.set.Spec.TemplatePatch; patch != nil {
		text, err := fill(*patch)
		if err != nil {
			return nil, err
		}
		value, err := parseYAML([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("templatePatch is no YAML once it is filled: %w", err)
		}
		if over, ok := value.(map[string]any); ok {
			fields = merged(fields, over)
		}
	}
	fields["apiVersion"], fields["kind"] = "argoproj.io/v1alpha1", "Application"
	head, _ := fields["metadata"].(map[string]any)
	if head == nil {
		return nil, errors.New("its template has no metadata")
	}
	if head["namespace"] == nil {
		head["namespace"] = e.set.Metadata.Namespace
	}
	return fields, nil
}

// generate gives the parameters of a generator. outer are those of the first one of a matrix.
func (e *expansion) generate(g generator, outer map[string]any) ([]parameters, error) {
	if outer != nil {
		var filled generator
		var raw map[string]any
		err := convert(g, &raw)
		if err == nil {
			raw, err = fillValue(raw, e.fill(outer))
		}
		if err == nil {
			err = convert(raw, &filled)
		}
		if err != nil {
			return nil, err
		}
		g = filled
	}
	list, err := e.generateOne(g)
	if err != nil {
		return nil, err
	}
	if g.Selector != nil && !g.Selector.isEmpty() {
		list = slices.DeleteFunc(list, func(p parameters) bool {
			flat := map[string]string{}
			flatten(flat, "", p.values)
			return !g.Selector.matches(flat)
		})
	}
	if len(list) > mostGenerated {
		return nil, errTooMany
	}
	return list, nil
}

func (e *expansion) generateOne(g generator) ([]parameters, error) {
	switch {
	case g.List != nil:
		return e.fromList(g.List)
	case g.Git != nil:
		return e.fromGit(g.Git)
	case g.Clusters != nil:
		return e.fromClusters(g.Clusters)
	case g.Matrix != nil:
		return e.fromMatrix(g.Matrix)
	case g.Merge != nil:
		return e.fromMerge(g.Merge)
	case g.SCMProvider != nil, g.PullRequest != nil, g.ClusterDecisionResource != nil, g.Plugin != nil:
		return nil, errors.New("its generator (scmProvider, pullRequest, clusterDecisionResource or plugin) asks a service, which this import does not: give the Applications that it made, kubectl get applications -A -o yaml")
	}
	return nil, errors.New("it has a generator of no known kind")
}

func (e *expansion) fromList(g *listGenerator) (list []parameters, err error) {
	elements := slices.Clone(g.Elements)
	if g.ElementsYAML != "" {
		value, err := parseYAML([]byte(g.ElementsYAML))
		more, ok := value.([]any)
		if err != nil || !ok {
			return nil, errors.New("elementsYaml is no list of YAML")
		}
		for _, element := range more {
			fields, ok := element.(map[string]any)
			if !ok {
				return nil, errors.New("elementsYaml has an element that is no mapping")
			}
			elements = append(elements, fields)
		}
	}
	for _, element := range elements {
		list = append(list, parameters{e.shape(element), g.Template})
	}
	return list, nil
}

// shape makes parameters flat for the older language.
func (e *expansion) shape(values map[string]any) map[string]any {
	if e.set.Spec.GoTemplate {
		return copied(values)
	}
	flat := map[string]string{}
	flatten(flat, "", values)
	made := map[string]any{}
	for key, value := range flat {
		made[key] = value
	}
	return made
}

// addValues adds a generator's own values, which may name its parameters.
func (e *expansion) addValues(to map[string]any, values map[string]string) error {
	if len(values) == 0 {
		return nil
	}
	fill, made := e.fill(to), map[string]any{}
	for key, value := range values {
		text, err := fill(value)
		if err != nil {
			return err
		}
		made[key] = text
	}
	if e.set.Spec.GoTemplate {
		to["values"] = made
		return nil
	}
	for key, value := range made {
		to["values."+key] = value
	}
	return nil
}

func (e *expansion) fromGit(g *gitGenerator) (list []parameters, err error) {
	repository, why := e.checkouts.find(e.ctx, g.RepoURL, g.Revision)
	if repository == nil {
		return nil, fmt.Errorf("its generator git reads %s: %s", g.RepoURL, why)
	}
	add := func(values map[string]any) error {
		if err := e.addValues(values, g.Values); err != nil {
			return err
		}
		if list = append(list, parameters{values, g.Template}); len(list) > mostGenerated {
			return errTooMany
		}
		return nil
	}
	if len(g.Directories) > 0 {
		for _, folder := range repository.folders() {
			included, excluded := false, false
			for _, d := range g.Directories {
				ok, err := path.Match(strings.Trim(d.Path, "/"), folder)
				if err != nil {
					return nil, fmt.Errorf("its generator git has the path %q, which is no pattern", d.Path)
				}
				included, excluded = included || ok && !d.Exclude, excluded || ok && d.Exclude
			}
			hidden := slices.ContainsFunc(strings.Split(folder, "/"), func(s string) bool { return strings.HasPrefix(s, ".") })
			if !included || excluded || hidden {
				continue
			}
			if err := add(e.pathParameters(map[string]any{}, folder, "", g.PathParamPrefix)); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	for _, name := range repository.names {
		included, excluded := false, false
		for _, f := range g.Files {
			ok := globPattern(strings.TrimPrefix(f.Path, "/")).MatchString(name)
			included, excluded = included || ok && !f.Exclude, excluded || ok && f.Exclude
		}
		if !included || excluded {
			continue
		}
		contents, err := contentsOf(repository, name)
		if err != nil {
			return nil, err
		}
		for _, content := range contents {
			if err := add(e.pathParameters(e.shape(content), path.Dir(name), path.Base(name), g.PathParamPrefix)); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// contentsOf reads a file of parameters: one mapping, or a list of them.
func contentsOf(repository *checkout, name string) ([]map[string]any, error) {
	value, err := parseYAML(repository.read(name))
	if err != nil {
		return nil, fmt.Errorf("its generator git reads %s, which is no YAML: %w", name, err)
	}
	switch value := value.(type) {
	case nil:
		return []map[string]any{{}}, nil
	case map[string]any:
		return []map[string]any{value}, nil
	case []any:
		var list []map[string]any
		for _, element := range value {
			if fields, ok := element.(map[string]any); ok {
				list = append(list, fields)
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("its generator git reads %s, which is neither a mapping nor a list", name)
}

// pathParameters adds what is told of a path; file is empty for a folder.
func (e *expansion) pathParameters(to map[string]any, folder, file, prefix string) map[string]any {
	segments := strings.Split(folder, "/")
	if e.set.Spec.GoTemplate {
		told := map[string]any{"path": folder, "basename": path.Base(folder), "basenameNormalized": normalizeName(path.Base(folder)), "segments": anyList(segments)}
		if file != "" {
			told["filename"], told["filenameNormalized"] = file, normalizeName(file)
		}
		if prefix == "" {
			to["path"] = told
			return to
		}
		within, _ := to[prefix].(map[string]any)
		to[prefix] = merged(within, map[string]any{"path": told})
		return to
	}
	key := "path"
	if prefix != "" {
		key = prefix + ".path"
	}
	to[key], to[key+".basename"], to[key+".basenameNormalized"] = folder, path.Base(folder), normalizeName(path.Base(folder))
	for i, segment := range segments {
		to[fmt.Sprintf("%s[%d]", key, i)] = segment
	}
	if file != "" {
		to[key+".filename"], to[key+".filenameNormalized"] = file, normalizeName(file)
	}
	return to
}

func anyList(texts []string) (list []any) {
	for _, text := range texts {
		list = append(list, text)
	}
	return list
}

// globPattern reads a pattern in which * stands for text within a folder, ** for any.
func globPattern(text string) *regexp.Regexp {
	var out strings.Builder
	out.WriteString("^")
	depth := 0
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "**/"):
			out.WriteString("(?:.*/)?")
			i += 2
		case strings.HasPrefix(text[i:], "**"):
			out.WriteString(".*")
			i++
		case text[i] == '*':
			out.WriteString("[^/]*")
		case text[i] == '?':
			out.WriteString("[^/]")
		case text[i] == '{':
			depth++
			out.WriteString("(?:")
		case text[i] == '}' && depth > 0:
			depth--
			out.WriteString(")")
		case text[i] == ',' && depth > 0:
			out.WriteString("|")
		default:
			out.WriteString(regexp.QuoteMeta(text[i : i+1]))
		}
	}
	out.WriteString(strings.Repeat(")", depth) + "$")
	made, err := regexp.Compile(out.String())
	if err != nil {
		return regexp.MustCompile("^" + regexp.QuoteMeta(text) + "$")
	}
	return made
}

func (e *expansion) fromClusters(g *clusterGenerator) (list []parameters, err error) {
	clusters := e.clusters
	if !slices.ContainsFunc(clusters, func(c knownCluster) bool { return c.server == inCluster }) {
		clusters = append([]knownCluster{{name: "in-cluster", server: inCluster}}, clusters...)
	}
	var flat []any
	for _, c := range clusters {
		if !g.Selector.isEmpty() && (c.labels == nil || !g.Selector.matches(c.labels)) {
			continue
		}
		values := map[string]any{"name": c.name, "nameNormalized": normalizeName(c.name), "server": c.server, "project": c.project}
		if e.set.Spec.GoTemplate {
			values["metadata"] = map[string]any{"labels": anyMap(c.labels), "annotations": anyMap(c.annotations)}
		} else {
			for key, value := range c.labels {
				values["metadata.labels."+key] = value
			}
			for key, value := range c.annotations {
				values["metadata.annotations."+key] = value
			}
		}
		if err := e.addValues(values, g.Values); err != nil {
			return nil, err
		}
		flat = append(flat, values)
		list = append(list, parameters{values, g.Template})
	}
	if g.FlatList {
		return []parameters{{map[string]any{"clusters": flat}, g.Template}}, nil
	}
	return list, nil
}

func anyMap(texts map[string]string) map[string]any {
	made := map[string]any{}
	for key, value := range texts {
		made[key] = value
	}
	return made
}

func (e *expansion) fromMatrix(g *combination) (list []parameters, err error) {
	if len(g.Generators) != 2 {
		return nil, fmt.Errorf("its matrix has %d generators, and Argo CD takes two", len(g.Generators))
	}
	first, err := e.generate(g.Generators[0], nil)
	if err != nil {
		return nil, err
	}
	for _, a := range first {
		second, err := e.generate(g.Generators[1], a.values)
		if err != nil {
			return nil, err
		}
		for _, b := range second {
			template := merged(merged(a.template, b.template), g.Template)
			if list = append(list, parameters{merged(a.values, b.values), template}); len(list) > mostGenerated {
				return nil, errTooMany
			}
		}
	}
	return list, nil
}

func (e *expansion) fromMerge(g *combination) ([]parameters, error) {
	if len(g.Generators) < 2 || len(g.MergeKeys) == 0 {
		return nil, errors.New("its merge has fewer than two generators, or no mergeKeys")
	}
	keyOf := func(p parameters) string {
		flat := map[string]string{}
		flatten(flat, "", p.values)
		var parts []string
		for _, key := range g.MergeKeys {
			parts = append(parts, fmt.Sprintf("%q", flat[key]))
		}
		return strings.Join(parts, " ")
	}
	base, err := e.generate(g.Generators[0], nil)
	if err != nil {
		return nil, err
	}
	for _, other := range g.Generators[1:] {
		over, err := e.generate(other, nil)
		if err != nil {
			return nil, err
		}
		byKey := map[string]parameters{}
		for _, p := range over {
			byKey[keyOf(p)] = p
		}
		for i := range base {
			if p, ok := byKey[keyOf(base[i])]; ok {
				base[i].values = merged(base[i].values, p.values)
			}
		}
	}
	for i := range base {
		base[i].template = merged(base[i].template, g.Template)
	}
	return base, nil
}

// sortedKeys are the keys of a mapping in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
