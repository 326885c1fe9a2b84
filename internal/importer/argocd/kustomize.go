package argocd

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var kustomizationNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// kustomization is what is read of one here.
type kustomization struct {
	Resources  []string `yaml:"resources"`
	Bases      []string `yaml:"bases"`
	Components []string `yaml:"components"`
	CRDs       []string `yaml:"crds"`
	Files      []string `yaml:"configurations"`
	Generators []string `yaml:"generators"`
	Transforms []string `yaml:"transformers"`
	Merged     []string `yaml:"patchesStrategicMerge"`
	Patches    []struct {
		Path string `yaml:"path"`
	} `yaml:"patches"`
	JSONPatches []struct {
		Path string `yaml:"path"`
	} `yaml:"patchesJson6902"`
	Replacements []struct {
		Path string `yaml:"path"`
	} `yaml:"replacements"`
	ConfigMaps []generatedMap `yaml:"configMapGenerator"`
	Secrets    []generatedMap `yaml:"secretGenerator"`
	NamePrefix string         `yaml:"namePrefix"`
	NameSuffix string         `yaml:"nameSuffix"`
	Images     []struct {
		Name    string `yaml:"name"`
		NewName string `yaml:"newName"`
	} `yaml:"images"`
}

type generatedMap struct {
	Files []string `yaml:"files"`
	Envs  []string `yaml:"envs"`
	Env   string   `yaml:"env"`
}

func readKustomization(c *checkout, folder string) (k kustomization, ok bool) {
	for _, name := range kustomizationNames {
		if text := c.read(path.Join(folder, name)); text != nil {
			_ = yaml.Unmarshal(text, &k) // What is wrong with it is told when it is built.
			return k, true
		}
	}
	return k, false
}

// remoteBase is a base in another repository.
type remoteBase struct{ repository, folder, revision string }

// kustomizationFiles are the patterns of all files that a kustomization reads in its repository,
// and its bases elsewhere.
func kustomizationFiles(c *checkout, folder string) (patterns []string, remotes []remoteBase) {
	folders, seen := []string{folder}, map[string]bool{}
	for len(folders) > 0 {
		at := folders[0]
		if folders = folders[1:]; seen[at] {
			continue
		}
		seen[at] = true
		if !matchesAny(patterns, at+"/x") {
			patterns = append(patterns, below(at))
		}
		k, ok := readKustomization(c, at)
		if !ok {
			continue
		}
		for _, name := range k.files() {
			inside := path.Join(at, name)
			switch {
			case strings.Contains(name, "\n"), strings.HasPrefix(inside, ".."):
			case len(c.below(inside)) > 0 && !c.known[inside]:
				folders = append(folders, inside)
			case c.known[inside]:
				if !matchesAny(patterns, inside) {
					patterns = append(patterns, inside)
				}
			default:
				if base, ok := parseRemote(name); ok && !slices.Contains(remotes, base) {
					remotes = append(remotes, base)
				}
			}
		}
	}
	return patterns, remotes
}

// files are all paths that a kustomization names.
func (k kustomization) files() []string {
	list := slices.Concat(k.Resources, k.Bases, k.Components, k.CRDs, k.Files, k.Generators, k.Transforms, k.Merged)
	for _, patches := range [][]struct {
		Path string `yaml:"path"`
	}{k.Patches, k.JSONPatches, k.Replacements} {
		for _, patch := range patches {
			if patch.Path != "" {
				list = append(list, patch.Path)
			}
		}
	}
	for _, made := range slices.Concat(k.ConfigMaps, k.Secrets) {
		for _, file := range slices.Concat(made.Files, made.Envs, []string{made.Env}) {
			if _, name, ok := strings.Cut(file, "="); ok {
				file = name
			}
			if file != "" {
				list = append(list, file)
			}
		}
	}
	return list
}

var remoteRef = regexp.MustCompile(`[?&](?:ref|version)=([^&]+)`)

// parseRemote reads a remote base: https://github.com/org/repo//deploy?ref=v1, and its other forms.
func parseRemote(text string) (remoteBase, bool) {
	made := remoteBase{}
	address, query, _ := strings.Cut(text, "?")
	if found := remoteRef.FindStringSubmatch("?" + query); found != nil {
		made.revision = found[1]
	}
	address = strings.TrimPrefix(address, "git::")
	isHosted := regexp.MustCompile(`^(https?://)?(www\.)?(github|gitlab|bitbucket)\.(com|org)/`).MatchString(address)
	switch {
	case strings.HasPrefix(address, "https://raw.githubusercontent.com/"), strings.HasSuffix(address, ".yaml"), strings.HasSuffix(address, ".yml"):
		return made, false // A file.
	case !isHosted && !strings.Contains(address, "://") && !strings.HasPrefix(address, "git@"):
		return made, false
	}
	scheme := ""
	if at := strings.Index(address, "://"); at >= 0 {
		scheme, address = address[:at+3], address[at+3:]
	}
	repository, folder, ok := strings.Cut(address, "//")
	if !ok && strings.Contains(address, ".git/") {
		repository, folder, _ = strings.Cut(address, ".git/")
		repository += ".git"
	} else if parts := strings.Split(address, "/"); !ok && isHosted && len(parts) > 3 {
		repository, folder = strings.Join(parts[:3], "/"), strings.Join(parts[3:], "/")
	}
	if scheme == "" && !strings.HasPrefix(repository, "git@") {
		scheme = "https://"
	}
	made.repository, made.folder = scheme+repository, path.Clean(folder)
	return made, true
}

// addRemoteBases adds a source for each base in another repository.
func (l *importing) addRemoteBases(p *partition, made *renderSpec, remotes []remoteBase) {
	for _, base := range remotes {
		patterns := []string{below(base.folder)}
		var more []remoteBase
		if c, _ := l.checkouts.find(l.ctx, base.repository, base.revision); c != nil {
			patterns, more = kustomizationFiles(c, base.folder)
		}
		body, _, _ := l.gitSource(base.repository, base.revision)
		body["files"] = patterns
		source := p.addSource(made.name+"-base", &sourceSpec{body: body, patterns: patterns})
		if !slices.Contains(made.from, source.name) {
			made.from = append(made.from, source.name)
		}
		if len(more) > 0 && len(more) < 20 {
			l.addRemoteBases(p, made, slices.DeleteFunc(more, func(b remoteBase) bool { return b == base }))
		}
	}
}

// kustomize writes the options of Kustomize as an overlay over what the source has.
func (l *importing) kustomize(p *partition, a *app, s *appSource, made *renderSpec, at *place) error {
	made.render = "kustomize"
	made.with["folder"] = at.at(at.folder)
	if s.Kustomize == nil {
		return nil
	}
	overlay, err := l.overlay(a, s, at)
	if err != nil || len(overlay) == 0 {
		return err
	}
	folder := "overlays/" + made.name
	overlay["apiVersion"], overlay["kind"] = "kustomize.config.k8s.io/v1beta1", "Kustomization"
	overlay["resources"] = []string{"../../" + at.at(at.folder)}
	var components []string
	for _, name := range s.Kustomize.Components {
		inside := path.Join(at.folder, name)
		if at.checkout != nil && len(at.checkout.below(inside)) == 0 {
			if s.Kustomize.IgnoreMissingComponents {
				continue
			}
			return fmt.Errorf("its component %s is not in %s", name, s.RepoURL)
		}
		patterns := []string{below(inside)}
		if at.checkout != nil {
			patterns, _ = kustomizationFiles(at.checkout, inside)
		}
		for _, pattern := range patterns {
			if !slices.Contains(at.source.patterns, pattern) && !matchesAny(at.source.patterns, inside+"/x") {
				extended := l.addGit(p, s.RepoURL, s.TargetRevision, at.folder, slices.Concat(at.source.patterns, patterns))
				made.from[slices.Index(made.from, at.source.name)] = extended.name
				p.dropUnused(at.source)
				at.source = extended
				made.with["folder"] = at.at(at.folder)
				overlay["resources"] = []string{"../../" + at.at(at.folder)}
			}
		}
		components = append(components, "../../"+at.at(inside))
	}
	if len(components) > 0 {
		overlay["components"] = components
	}
	out := bytes.NewBufferString("# The options that " + a.String() + " gives Kustomize.\n")
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := encoder.Encode(overlay); err != nil {
		return err
	}
	made.from = append(made.from, p.addFile(made.name+"-overlay", folder+"/kustomization.yaml", out.Bytes()).name)
	made.with["folder"] = folder
	return nil
}

// dropUnused takes a source away that no generator reads.
func (p *partition) dropUnused(s *sourceSpec) {
	if !slices.ContainsFunc(p.renders, func(r *renderSpec) bool { return slices.Contains(r.from, s.name) }) {
		p.sources = slices.DeleteFunc(p.sources, func(other *sourceSpec) bool { return other == s })
	}
}

// overlay are the fields of a kustomization that say what the options do. Argo CD edits the
// kustomization itself, so what that says of the same thing gives way.
func (l *importing) overlay(a *app, s *appSource, at *place) (map[string]any, error) {
	o, own := s.Kustomize, kustomization{}
	if at.checkout != nil {
		own, _ = readKustomization(at.checkout, at.folder)
	}
	made := map[string]any{}
	for _, name := range []struct{ key, given, own string }{{"namePrefix", o.NamePrefix, own.NamePrefix}, {"nameSuffix", o.NameSuffix, own.NameSuffix}} {
		switch {
		case name.given == "" || name.given == name.own:
		case name.own != "":
			l.leave(a.String(), fmt.Sprintf("%s: its %s %q takes the place of %q in the kustomization, and an overlay only adds: change it there", a.place, name.key, name.given, name.own), true)
		default:
			made[name.key] = name.given
		}
	}
	if o.Namespace != "" {
		made["namespace"] = o.Namespace
	}
	var images []map[string]any
	for _, text := range o.Images {
		image := parseImage(text)
		for _, renamed := range own.Images {
			if renamed.Name == image["name"] && renamed.NewName != "" {
				// The kustomization has renamed it by then.
				if image["newName"] == nil && image["name"] != renamed.NewName {
					image["newName"] = image["name"]
				}
				image["name"] = renamed.NewName
			}
		}
		images = append(images, image)
	}
	if len(images) > 0 {
		made["images"] = images
	}
	var replicas []map[string]any
	for _, r := range o.Replicas {
		number, err := strconv.Atoi(fmt.Sprint(r.Count))
		if err != nil {
			return nil, fmt.Errorf("its replicas of %s are %v, which is no number", r.Name, r.Count)
		}
		replicas = append(replicas, map[string]any{"name": r.Name, "count": number})
	}
	if len(replicas) > 0 {
		made["replicas"] = replicas
	}
	fill := l.buildEnvironment(a, s)
	if len(o.CommonLabels) > 0 {
		labels := map[string]any{"pairs": o.CommonLabels, "includeSelectors": !o.LabelWithoutSelector}
		if o.LabelWithoutSelector && o.LabelIncludeTemplates {
			labels["includeTemplates"] = true
		}
		made["labels"] = []any{labels}
	}
	if len(o.CommonAnnotations) > 0 {
		annotations := map[string]string{}
		for key, value := range o.CommonAnnotations {
			if o.CommonAnnotationsEnvsubst {
				value = fill(value)
			}
			annotations[key] = value
		}
		made["commonAnnotations"] = annotations
	}
	if len(o.Patches) > 0 {
		for _, patch := range o.Patches {
			if name, ok := patch["path"].(string); ok && name != "" {
				patch["path"] = "../../" + at.at(path.Join(at.folder, name))
			}
		}
		made["patches"] = o.Patches
	}
	if len(made) == 0 && len(o.Components) > 0 {
		made["resources"] = nil
	}
	return made, nil
}

// parseImage reads an image as kustomize edit set image does: OLD=NEW:TAG, OLD=NEW@DIGEST, and
// each without OLD=.
func parseImage(text string) map[string]any {
	image := map[string]any{}
	old, rest, isRenamed := strings.Cut(text, "=")
	if !isRenamed {
		rest = text
	}
	name := rest
	if at := strings.Index(rest, "@"); at >= 0 {
		name = rest[:at]
		image["digest"] = rest[at+1:]
	}
	if at := strings.LastIndex(name, ":"); at > strings.LastIndex(name, "/") {
		image["newTag"] = name[at+1:]
		name = name[:at]
	}
	image["name"] = name
	if isRenamed {
		image["name"] = old
		if name != "" && name != "*" {
			image["newName"] = name
		}
		if image["newTag"] == "*" {
			delete(image, "newTag")
		}
	}
	return image
}
