package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// completePlain gives a folder without a kustomization one that has every manifest in it and
// below it, as Flux does: a folder below with a kustomization of its own counts as a whole.
func completePlain(files map[string][]byte, folder string) {
	if len(kustomizationIn(files, folder)) > 0 {
		return
	}
	var resources []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		inside, ok := insideOf(folder, name)
		if !ok || !isManifest(inside) || slices.Contains(names, path.Base(inside)) {
			continue
		}
		if owner := owningFolder(files, folder, inside); owner != "" {
			inside = owner
		}
		if !slices.Contains(resources, inside) {
			resources = append(resources, inside)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		inside, ok := insideOf(folder, name)
		if !ok || !slices.Contains(names, path.Base(inside)) {
			continue
		}
		if owner := owningFolder(files, folder, inside); owner != "" && !slices.Contains(resources, owner) {
			resources = append(resources, owner)
		}
	}
	if len(resources) == 0 {
		return // Kustomize says what is missing.
	}
	slices.Sort(resources)
	text, err := yaml.Marshal(map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources})
	if err != nil {
		panic(fmt.Sprintf("a list of texts is no YAML: %v", err)) // It always is.
	}
	files[path.Join(folder, names[0])] = text
}

// insideOf is the path of a file below a folder.
func insideOf(folder, name string) (inside string, ok bool) {
	if folder == "." {
		return name, true
	}
	return strings.CutPrefix(name, folder+"/")
}

func isManifest(name string) bool {
	extension := path.Ext(name)
	return (extension == ".yaml" || extension == ".yml") && !strings.HasPrefix(path.Base(name), ".")
}

// owningFolder is the uppermost folder below the given one that has a kustomization and holds a
// file; empty: there is none.
func owningFolder(files map[string][]byte, folder, inside string) string {
	parts := strings.Split(path.Dir(inside), "/")
	for i := range parts {
		if below := path.Join(parts[:i+1]...); below != "." && len(kustomizationIn(files, path.Join(folder, below))) > 0 {
			return below
		}
	}
	return ""
}

// plainFolders are the folders that a kustomization names, directly or by others, and that have
// none of their own.
func plainFolders(files map[string][]byte, folder string) {
	seen := map[string]bool{}
	var visit func(folder string)
	visit = func(folder string) {
		if seen[folder] {
			return
		}
		seen[folder] = true
		completePlain(files, folder)
		for _, name := range kustomizationIn(files, folder) {
			var kustomization struct{ Resources, Bases, Components []string }
			if yaml.Unmarshal(files[name], &kustomization) != nil {
				continue // Kustomize says what is wrong.
			}
			for _, to := range slices.Concat(kustomization.Resources, kustomization.Bases, kustomization.Components) {
				if at := path.Join(folder, to); !strings.HasPrefix(at, "../") && files[at] == nil && !remote.MatchString(to) {
					visit(at)
				}
			}
		}
	}
	visit(path.Clean(folder))
}
