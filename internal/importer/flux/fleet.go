package flux

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/importer"
)

// Bounds of what is read.
const (
	mostBytes = 64 << 20
	mostFiles = 50_000
)

// systemFolder has Flux itself, as flux bootstrap puts it into the folder of a cluster.
const systemFolder = "flux-system"

// checkout is a source of files that lies in a folder.
type checkout struct {
	// name of the source in lehr.yaml, and of the GitRepository that it is.
	name, repository string
	// mount is where the renderer finds its files.
	mount  string
	folder string
	// files by their paths in the folder, with their content.
	files map[string][]byte
	// used are patterns of files that generators read.
	used map[string]bool
	git  *sourceSpec
	// isArtifact: it is an OCIRepository, and not a GitRepository.
	isArtifact bool
}

// fleet is all that was read.
type fleet struct {
	importer.Import
	ctx      context.Context
	settings settings
	tools    Tools
	program  string
	// path is the folder of the cluster.
	path string
	main *checkout
	// mainSource is the name of the source that the folder is.
	mainSource string
	others     map[string]*checkout
	index      map[named]object
	overlays   map[string][]byte

	kustomizations []*kustomization
	releases       []*release
	names          map[string]bool
	// counts of what is told in one line, by why.
	counts map[string][]string
}

func (f *fleet) leave(subject, reason string, isWrong bool) {
	one := importer.LeftOut{What: subject, Why: reason, Wrong: isWrong}
	if !slices.Contains(f.LeftOut, one) {
		f.LeftOut = append(f.LeftOut, one)
	}
}

func (f *fleet) addHint(text string) {
	if !slices.Contains(f.Hints, text) {
		f.Hints = append(f.Hints, text)
	}
}

// countFor gathers who is told of together.
func (f *fleet) countFor(reason, who string) { f.counts[reason] = append(f.counts[reason], who) }

// unique is a name that no other generator or source has.
func (f *fleet) unique(wanted, otherwise string) string {
	name := wanted
	if f.names[name] {
		name = otherwise
	}
	for f.names[name] {
		name += "-2"
	}
	f.names[name] = true
	return name
}

func openFleet(ctx context.Context, s settings, tools Tools) (*fleet, error) {
	f := &fleet{
		Import: importer.Import{Files: map[string][]byte{}}, ctx: ctx, settings: s, tools: tools, others: map[string]*checkout{},
		index: map[named]object{}, overlays: map[string][]byte{}, names: map[string]bool{"overlays": true, "releases": true, "namespaces": true, "release-namespaces": true}, counts: map[string][]string{},
	}
	var err error
	if f.program, err = tools.Program(); err != nil {
		return nil, err
	}
	if f.main, err = f.openCheckout("fleet", "", s.folder); err != nil {
		return nil, err
	}
	for _, text := range s.checkouts {
		name, folder, ok := strings.Cut(text, "=")
		if !ok || name == "" || folder == "" {
			return nil, fault.New(fault.Invalid, "--checkout %q names no folder of a source", text).WithHint("write --checkout NAME=FOLDER, with the name of the GitRepository")
		}
		if f.others[name], err = f.openCheckout(segment(name), name, folder); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// openCheckout reads the files of a folder, but for hidden ones.
func (f *fleet) openCheckout(name, repository, folder string) (*checkout, error) {
	const hint = "name the folder of the repository that Flux reads"
	top, err := filepath.Abs(folder)
	if err == nil {
		top, err = filepath.EvalSymlinks(top)
	}
	if err != nil {
		return nil, fault.New(fault.NotFound, "the folder %q: %w", folder, err).WithHint(hint)
	}
	c := &checkout{name: f.unique(name, name+"-files"), repository: repository, folder: top, files: map[string][]byte{}, used: map[string]bool{}}
	c.mount = strings.TrimPrefix(filepath.ToSlash(top), "/")
	if f.settings.fromGit {
		c.mount = c.name
	}
	left := int64(mostBytes)
	err = filepath.WalkDir(top, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case at != top && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular():
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Size() > 1<<20 && !isYAML(at) {
			return nil // No kustomization and no manifest.
		}
		if left -= info.Size(); left < 0 || len(c.files) >= mostFiles {
			return fault.New(fault.Invalid, "%s has more than %d MiB or %d files", top, mostBytes>>20, mostFiles).WithHint("name a checkout with what Flux reads, and nothing else")
		}
		text, err := files.ReadForeign(at, mostBytes)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(top, at)
		c.files[filepath.ToSlash(relative)] = text
		return err
	})
	if err != nil {
		return nil, fault.New(fault.Invalid, "reading the repository: %w", err).WithHint(hint)
	}
	if _, err := os.Stat(filepath.Join(top, ".git")); err == nil && !f.settings.fromGit {
		f.addHint("files are read where they lie; with --from-git they are read from the URLs of the GitRepositories")
	}
	return c, nil
}

func isYAML(name string) bool {
	extension := path.Ext(name)
	return extension == ".yaml" || extension == ".yml"
}

// discover finds the objects to begin with: those of --objects, or of the cluster's folder.
func (f *fleet) discover() error {
	for _, name := range f.settings.objects {
		text, err := files.Read(name, mostBytes)
		if err != nil {
			return fault.New(fault.NotFound, "reading the objects: %w", err).WithHint("kubectl get kustomizations.kustomize.toolkit.fluxcd.io,helmreleases -A -o yaml > objects.yaml writes them")
		}
		list, err := readObjects(text, "")
		if err != nil {
			return fault.New(fault.Invalid, "%s is no YAML: %w", name, err).WithHint("have kubectl write it anew, with -o yaml")
		}
		for _, o := range list {
			f.add(o, nil)
		}
	}
	if f.settings.live {
		if err := f.addLive(); err != nil {
			return err
		}
	}
	if f.hasObjects() {
		f.nameCluster(f.settings.context)
		return nil
	}
	if err := f.findPath(); err != nil {
		return err
	}
	f.nameCluster(path.Base(f.path))
	f.addRoot()
	return nil
}

// hasObjects reports whether the objects come from elsewhere than the folder.
func (f *fleet) hasObjects() bool { return f.settings.live || len(f.settings.objects) > 0 }

// addLive adds what the cluster has of Flux, and the ConfigMaps that it may take values from.
func (f *fleet) addLive() error {
	isWanted := func(group, kind string) bool {
		return strings.HasSuffix(group, fluxSuffix) || group == "" && kind == "ConfigMap"
	}
	items, err := f.tools.Objects(f.ctx, f.settings.kubeconfig, f.settings.context, isWanted)
	if err != nil {
		return err
	}
	for _, item := range items {
		for _, o := range objectsOf(item, "") {
			f.add(o, nil)
		}
	}
	return nil
}

func (f *fleet) nameCluster(usual string) {
	if f.settings.cluster == "" {
		f.settings.cluster = segment(cmpOr(strings.Trim(usual, "./"), "cluster"))
	}
}

func cmpOr(first, second string) string {
	if first != "" {
		return first
	}
	return second
}

// findPath finds the folder of the cluster: that of the flag, or the only one that has a
// folder flux-system, or Kustomizations of Flux directly in it.
func (f *fleet) findPath() error {
	if f.path = strings.Trim(path.Clean("/"+f.settings.path), "/"); f.settings.path != "" {
		for name := range f.main.files {
			if f.path == "" || strings.HasPrefix(name, f.path+"/") {
				return nil
			}
		}
		return fault.New(fault.NotFound, "the repository has no folder %s", f.path).WithHint("name it as flux bootstrap was given it: --path clusters/NAME")
	}
	candidates := map[string]bool{}
	for name := range f.main.files {
		if folder := path.Dir(name); path.Base(folder) == systemFolder {
			candidates[path.Dir(folder)] = true
		}
	}
	if len(candidates) == 0 {
		for name, text := range f.main.files {
			if isYAML(name) && strings.Contains(string(text), kustomizeGroup+"/") {
				candidates[path.Dir(name)] = true
			}
		}
	}
	list := slices.Sorted(maps.Keys(candidates))
	switch len(list) {
	case 0:
		return fault.New(fault.NotFound, "no folder of %s has a Kustomization of Flux", f.main.folder).WithHint("name it: --path clusters/NAME; or give objects that kubectl printed: --objects FILE, or --live")
	case 1:
		f.path = strings.Trim(list[0], ".")
		return nil
	}
	return fault.New(fault.Invalid, "the repository is of several clusters: %s", strings.Join(list, ", ")).WithHint("name one: --path %s", list[0])
}

// addRoot adds the Kustomization that flux bootstrap makes, for the folder of the cluster. What
// is in flux-system is Flux itself, but for its own source.
func (f *fleet) addRoot() {
	sync, kind := path.Join(f.path, systemFolder), repositoryKind
	for _, name := range slices.Sorted(maps.Keys(f.main.files)) {
		if path.Dir(name) != sync || !isYAML(name) || strings.Contains(path.Base(name), "gotk-components") {
			continue
		}
		list, err := readObjects(f.main.files[name], name)
		if err != nil {
			f.leave(name, "it is no YAML: "+err.Error(), true)
		}
		for _, o := range list {
			switch spec, ok := decode[kustomizationSpec](f, o); {
			case o.group() == sourceGroup:
				f.add(o, nil)
				kind = o.Kind
			case o.group() == kustomizeGroup && ok && spec.SourceRef.Name != "" && f.mainSource == "":
				f.mainSource = spec.SourceRef.Name
			}
		}
	}
	root := &kustomization{isRoot: true}
	root.Kind, root.Metadata.Name, root.Metadata.Namespace = "Kustomization", systemFolder, systemFolder
	root.spec.Path, root.spec.SourceRef = f.path, reference{Kind: kind, Name: cmpOr(f.mainSource, systemFolder)}
	root.spec.Prune = true
	f.kustomizations = append(f.kustomizations, root)
}

// add takes an object that was found, once.
func (f *fleet) add(o object, owner *kustomization) {
	o.owner = owner
	if _, ok := f.index[o.key()]; ok && o.isOfFlux() {
		f.setOwner(o, owner)
		return
	}
	f.index[o.key()] = o
	if told, ok := notCarried[o.Kind]; ok && o.isOfFlux() {
		f.leave(o.place(), told.why, told.isWrong)
	}
	switch {
	case o.group() == kustomizeGroup && o.Kind == "Kustomization":
		isSystem := o.Metadata.Name == systemFolder && o.Metadata.Namespace == systemFolder
		if spec, ok := decode[kustomizationSpec](f, o); ok && (f.hasObjects() || !isSystem) {
			k := &kustomization{object: o, spec: spec, isRoot: isSystem}
			if isSystem {
				f.path, f.mainSource = strings.Trim(path.Clean("/"+spec.Path), "/"), spec.SourceRef.Name
			}
			f.kustomizations = append(f.kustomizations, k)
		}
	case o.group() == helmGroup && o.Kind == "HelmRelease":
		if spec, ok := decode[releaseSpec](f, o); ok {
			f.releases = append(f.releases, &release{object: o, spec: spec})
		}
	}
}

// setOwner says which Kustomization applies an object that was found before, in a cluster.
func (f *fleet) setOwner(o object, owner *kustomization) {
	for _, k := range f.kustomizations {
		if k.key() == o.key() && k.group() == o.group() && k.owner == nil && k != owner {
			k.owner, k.file = owner, o.file
		}
	}
	for _, r := range f.releases {
		if r.key() == o.key() && r.owner == nil {
			r.owner, r.file = owner, o.file
		}
	}
}
