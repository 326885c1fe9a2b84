package flux

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/importer"
)

// plain is a value in YAML's flow style, which JSON is.
func plain(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n")
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// describe writes the definition.
func (f *fleet) describe() (importer.Import, error) {
	maps.Copy(f.Files, f.usedOverlays())
	if !slices.ContainsFunc(f.kustomizations, hasGenerator) && !slices.ContainsFunc(f.releases, (*release).hasGenerator) {
		return importer.Import{}, f.nothing()
	}
	for _, c := range f.checkouts() {
		if f.settings.fromGit && len(c.used) > 0 && c.git == nil {
			return importer.Import{}, fault.New(fault.NotFound, "no GitRepository or OCIRepository says the URL of %s", c.folder).
				WithHint("leave --from-git out, and write git: URL in place of dir afterwards; or give the GitRepository with --objects")
		}
	}
	f.addEdges()
	f.Definition = f.definition(nil)
	kustomizations, releases, edges := 0, 0, 0
	for _, k := range f.kustomizations {
		if k.name != "" {
			kustomizations++
			edges += edgesIn(k.with)
		}
	}
	for _, r := range f.releases {
		if r.name != "" {
			releases++
			edges += edgesIn(r.with)
		}
	}
	f.Read = append(f.Read, count(kustomizations, "Kustomization")+", with objects of their own", count(releases, "HelmRelease"))
	if edges > 0 {
		f.Read = append(f.Read, count(edges, "edge")+" for dependsOn, and from a release to its Namespace")
	}
	for _, reason := range sortedKeys(f.counts) {
		f.addHint(fmt.Sprintf("%s (%s)", reason, few(f.counts[reason])))
	}
	f.addHint("bind lehr-kubernetes under plugins, as docs/use/clusters.md says; keep mode: observe until lehr plan shows what you mean, then suspend Flux (flux suspend kustomization --all) before mode: enforce")
	slices.SortFunc(f.LeftOut, func(a, b importer.LeftOut) int { return strings.Compare(a.What+a.Why, b.What+b.Why) })
	return f.Import, nil
}

func hasGenerator(k *kustomization) bool { return k.name != "" }
func (r *release) hasGenerator() bool    { return r.name != "" }
func (f *fleet) hasNamespaces() bool {
	return slices.ContainsFunc(sortedKeys(f.Files), isNamespaceFile)
}
func isNamespaceFile(name string) bool { return strings.HasPrefix(name, "namespaces/") }
func isReleaseFile(name string) bool   { return strings.HasPrefix(name, "releases/") }
func (f *fleet) hasReleaseFiles() bool {
	return slices.ContainsFunc(sortedKeys(f.Files), isReleaseFile)
}
func few(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// usedOverlays are those of Kustomizations of which something is left.
func (f *fleet) usedOverlays() map[string][]byte {
	used := map[string][]byte{}
	for _, k := range f.kustomizations {
		if k.name != "" && slices.Contains(k.from, "overlays") {
			name := k.with["folder"].(string) + "/kustomization.yaml"
			used[name] = f.overlays[name]
		}
	}
	return used
}

func (f *fleet) nothing() error {
	why := "they have no objects"
	if len(f.LeftOut) > 0 {
		why = f.LeftOut[0].What + ": " + f.LeftOut[0].Why
	}
	return fault.New(fault.Invalid, "nothing of the Kustomizations and HelmReleases can be taken over: %s", why).
		WithHint("mend that, or name what is missing: --path, --checkout NAME=FOLDER, --objects FILE")
}

// definition is what lehr.yaml says after its mode. Only, where it is not nil, leaves all but
// one release out.
func (f *fleet) definition(only *release) string {
	var sources, generators, derived strings.Builder
	if only == nil {
		for _, c := range f.checkouts() {
			if len(c.used) > 0 {
				writeEntry(&sources, c.name, c.definition(f.settings.fromGit))
			}
		}
		if len(f.usedOverlays()) > 0 {
			sources.WriteString("  overlays: {dir: overlays, files: [\"**\"]}\n")
		}
		if f.hasNamespaces() {
			sources.WriteString("  namespaces: {dir: namespaces, files: [\"**\"]}\n")
			fmt.Fprintf(&generators, "  release-namespaces: {render: kubernetes, from: [namespaces], with: {cluster: %s}}\n", f.settings.cluster)
		}
		for _, k := range f.kustomizations {
			if k.name != "" {
				fmt.Fprintf(&generators, "  # Kustomization %s/%s\n", k.Metadata.Namespace, k.Metadata.Name)
				writeEntry(&generators, k.name, map[string]any{"render": "kustomize", "from": k.from, "with": k.with})
			}
		}
	} else if only.chart.source == nil {
		for _, c := range f.checkouts() {
			if c.name == only.chart.name {
				writeEntry(&sources, c.name, c.definition(f.settings.fromGit))
			}
		}
	}
	charts := map[string]bool{}
	for _, r := range f.releases {
		if r.name == "" || only != nil && r != only {
			continue
		}
		if r.chart.source != nil && !charts[r.chart.name] {
			charts[r.chart.name] = true
			writeEntry(&sources, r.chart.name, r.chart.source)
		}
		fmt.Fprintf(&generators, "  # HelmRelease %s/%s\n", r.Metadata.Namespace, r.Metadata.Name)
		writeEntry(&generators, r.name, map[string]any{"render": "helm", "from": r.from, "with": r.with})
		for _, name := range sortedKeys(r.unmanaged) {
			writeEntry(&derived, name, r.unmanaged[name])
		}
	}
	if f.hasReleaseFiles() && (only == nil || slices.Contains(only.from, "releases")) {
		sources.WriteString("  releases: {dir: releases, files: [\"**\"]}\n")
	}
	return "sources:\n" + sources.String() + "\ngenerate:\n" + generators.String() + derived.String() + "\nmodels: [lehr.kubernetes.v1.Object]  # until plugins binds lehr-kubernetes to it\n"
}

// writeEntry writes an entry of a section.
func writeEntry(to *strings.Builder, name string, value any) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(map[string]any{name: value}), encoder.Close()); err != nil {
		text.Reset()
		text.WriteString(name + ": " + plain(value) + "\n") // It is of texts, lists and mappings, which YAML has.
	}
	for line := range strings.Lines(text.String()) {
		to.WriteString("  " + line)
	}
}

// buildIDs has Lehr build what was written, so that edges can name the objects of charts, and
// so that what Lehr refuses is told at once.
func (f *fleet) buildIDs(ctx context.Context, text string) (map[string][]string, error) {
	folder, err := os.MkdirTemp("", "lehr-import-")
	if err != nil {
		return nil, fault.New(fault.Unavailable, "making a folder: %w", err)
	}
	defer os.RemoveAll(folder)
	definition := filepath.Join(folder, "lehr.yaml")
	files := maps.Clone(f.Files)
	files["lehr.yaml"] = []byte("lehr: v1\npartition: import\nmode: observe\n" + text)
	for name, text := range files {
		at := filepath.Join(folder, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, text, 0o600)); err != nil {
			return nil, fault.New(fault.Unavailable, "writing into a folder for a moment: %w", err)
		}
	}
	return f.tools.Build(ctx, definition, f.settings.sources)
}
