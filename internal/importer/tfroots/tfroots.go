// Package tfroots reads a folder with root modules of Terraform, as people, Atlantis and
// Terragrunt lay them out, into a partition: an asset of lehr.terraform.v1.Module for each root
// module, made from its own files where they lie, and edges for the states that it reads. It
// reads files only: it asks no backend, no provider and no network, and copies no secret (S13).
// The kind "terraform" of lehr import calls it.
package tfroots

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/importer"
)

// mostFolders are looked into.
const mostFolders = 20_000

// root is a root module that becomes an asset.
type root struct {
	id     string
	folder *folder
	// unit is what Terragrunt says of it; nil: nothing.
	unit *unit
	// workspace and engine are empty for the default ones.
	workspace, engine string
	// backend are settings that the files do not have.
	backend map[string]string
	// variables are values that no file has which is read.
	variables map[string]string
	// edges are ids of assets that it comes after.
	edges []string
}

// layout is all that was read.
type layout struct {
	importer.Import
	top     string
	folders map[string]*folder
	roots   []*root
	// called are folders that a module call names.
	called map[string]bool
	units  map[string]*unit
	// versions of Terraform that the layout asks for, by engine.
	versions map[string]string
}

// Read reads the root modules in a folder and below it.
func Read(top string, program Program) (importer.Import, error) {
	absolute, err := filepath.Abs(top)
	if err == nil {
		absolute, err = filepath.EvalSymlinks(absolute)
	}
	if err != nil {
		return importer.Import{}, fault.New(fault.NotFound, "the folder %q: %w", top, err).WithHint("name the folder in which terraform is run, or one above several")
	}
	l := &layout{
		Import: importer.Import{Files: map[string][]byte{}}, top: absolute,
		folders: map[string]*folder{}, called: map[string]bool{}, units: map[string]*unit{}, versions: map[string]string{},
	}
	if err := l.walk(); err != nil {
		return importer.Import{}, err
	}
	if err := l.findRoots(); err != nil {
		return importer.Import{}, err
	}
	l.connect()
	l.describe(program)
	return l.Import, nil
}

// walk reads each folder with files of Terraform's language, and each file of Terragrunt.
func (l *layout) walk() error {
	count := 0
	return filepath.WalkDir(l.top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fault.New(fault.Invalid, "reading the root modules: %w", err).WithHint("name the folder in which terraform is run, or one above several")
		}
		if !entry.IsDir() {
			return nil
		}
		if base := entry.Name(); name != l.top && (strings.HasPrefix(base, ".") || base == "node_modules") {
			return fs.SkipDir
		}
		if count++; count > mostFolders {
			return fault.New(fault.Invalid, "there are more than %d folders in %s", mostFolders, l.top).WithHint("name a folder further down")
		}
		relative, err := filepath.Rel(l.top, name)
		if err != nil {
			return err
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return fault.New(fault.Invalid, "reading the root modules: %w", err).WithHint("let it be readable")
		}
		at := filepath.ToSlash(relative)
		found, err := readFolder(l.top, at, entries)
		if err != nil {
			return err
		}
		if found != nil {
			l.folders[at] = found
			for _, call := range found.calls {
				if isLocal(call.source) {
					l.called[path.Join(at, call.source)] = true
				}
			}
		}
		return nil
	})
}

func isLocal(source string) bool {
	return strings.HasPrefix(source, "./") || strings.HasPrefix(source, "../")
}

func (l *layout) leave(subject, reason string, isWrong bool) {
	one := importer.LeftOut{What: subject, Why: reason, Wrong: isWrong}
	if !slices.Contains(l.LeftOut, one) {
		l.LeftOut = append(l.LeftOut, one)
	}
}

// findRoots tells root modules from those that others call.
func (l *layout) findRoots() error {
	atlantis, err := l.readAtlantis()
	if err != nil {
		return err
	}
	if err := l.readUnits(); err != nil {
		return err
	}
	for _, at := range slices.Sorted(maps.Keys(l.folders)) {
		f := l.folders[at]
		_, isUnit := l.units[at]
		isListed := slices.ContainsFunc(atlantis, func(p project) bool { return p.folder() == at })
		isLocked := slices.Contains(f.names, ".terraform.lock.hcl")
		isRoot := f.backend != nil || f.elsewhere != nil || isLocked || at == "." || isListed
		switch {
		case isUnit, l.isSource(at) && f.elsewhere == nil && !isListed:
			// Its unit, or the units that it is the source of, are the root modules.
		case isRoot:
			l.addRoots(f, atlantis)
		case !l.called[at]:
			l.leave(at, "nothing here calls it, and it has no backend: it is not taken for a root module", false)
		}
	}
	l.addUnits()
	if len(l.roots) == 0 {
		what := "has no .tf file"
		if len(l.LeftOut) > 0 {
			what = "has no root module that can be taken over: " + l.LeftOut[0].What + ": " + l.LeftOut[0].Why
		}
		return fault.New(fault.Invalid, "the folder %s %s", l.top, what).WithHint("name the folder in which terraform is run, or one above several")
	}
	slices.SortFunc(l.roots, func(a, b *root) int { return strings.Compare(a.id, b.id) })
	l.addProjects(atlantis)
	return nil
}

// addRoots adds a folder's root module: one for each workspace that Atlantis names.
func (l *layout) addRoots(f *folder, projects []project) {
	workspaces := []string{}
	for _, p := range projects {
		if p.folder() == f.path {
			workspaces = append(workspaces, p.Workspace)
		}
	}
	if len(workspaces) == 0 {
		workspaces = []string{(&folderReader{folder: f, top: l.top}).workspace()}
	}
	slices.Sort(workspaces)
	for _, workspace := range slices.Compact(workspaces) {
		if workspace == "default" {
			workspace = ""
		}
		r := &root{id: l.idOf(f.path), folder: f, workspace: workspace, backend: map[string]string{}, variables: maps.Clone(f.values.variables)}
		if len(slices.Compact(slices.Clone(workspaces))) > 1 {
			r.id += "/" + segment(cmpOr(workspace, "default"))
		}
		if err := l.complete(r); err != nil {
			l.leave(f.path, err.Error(), true)
			continue
		}
		l.tellValues(r)
		l.roots = append(l.roots, r)
	}
}

func cmpOr(first, second string) string {
	if first != "" {
		return first
	}
	return second
}

// idOf is the asset's id, like the folder's path.
func (l *layout) idOf(at string) string {
	if at == "." {
		return "terraform/" + segment(filepath.Base(l.top))
	}
	parts := strings.Split(at, "/")
	for i := range parts {
		parts[i] = segment(parts[i])
	}
	return "terraform/" + strings.Join(parts, "/")
}

// segment of an id.
func segment(text string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return cmpOr(strings.Trim(clean, "._-"), "module")
}

// closure is a folder with all that it calls, of which the files lie here.
func (l *layout) closure(f *folder) []*folder {
	all := []*folder{f}
	for i := 0; i < len(all); i++ {
		for _, call := range all[i].calls {
			if !isLocal(call.source) {
				continue
			}
			other, ok := l.folders[path.Join(all[i].path, call.source)]
			if ok && !slices.Contains(all, other) {
				all = append(all, other)
			}
		}
	}
	return all
}

// checkCalls says which module that is called does not lie here.
func (l *layout) checkCalls(f *folder) error {
	for _, one := range l.closure(f) {
		for _, call := range one.calls {
			at := path.Join(one.path, call.source)
			if _, ok := l.folders[at]; isLocal(call.source) && !ok {
				return fmt.Errorf("%s calls the module %s, which does not lie in %s: name a folder above both", call.place, call.source, l.top)
			}
		}
	}
	return nil
}

// complete checks that Lehr can plan a root module, and adds the settings of its backend that
// init was given.
func (l *layout) complete(r *root) error {
	f := r.folder
	switch {
	case f.elsewhere != nil:
		return fmt.Errorf("%s: the block cloud, or the backend remote, has plans and applies run elsewhere, which Lehr can neither admit nor stop: use a backend that only keeps the state", f.elsewhere)
	case f.backend == nil:
		return errors.New(`it has no backend, so its state lies wherever terraform is run: write backend "local" {} into its block terraform, which keeps it where it is, or move it to another backend; then import again`)
	}
	if err := l.checkCalls(f); err != nil {
		return err
	}
	l.addInitialised(r)
	if f.backend.kind == "local" {
		l.completeLocal(r)
	}
	return nil
}
