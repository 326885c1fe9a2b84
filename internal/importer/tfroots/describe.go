package tfroots

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/importer"
)

// describe writes the definition and the operator's list.
func (l *layout) describe(program Program) {
	var sources, generators strings.Builder
	used := map[string]bool{}
	for _, r := range l.roots {
		l.readPinnedVersion(r)
		if r.engine != "" && l.versions[r.engine] == program.Version {
			delete(l.versions, r.engine)
			r.engine = ""
		}
		name := strings.ReplaceAll(strings.TrimPrefix(r.id, "terraform/"), "/", "-")
		for used[name] || used[name+"-files"] {
			name += "-2"
		}
		used[name], used[name+"-files"] = true, true
		fmt.Fprintf(&sources, "  %s: %s\n", plain(name+"-files"), plain(map[string]any{"dir": l.top, "files": l.patterns(r)}))
		fmt.Fprintf(&generators, "  %s: {render: terraform, from: [%s], with: %s}\n", plain(name), plain(name+"-files"), plain(l.with(r)))
	}
	l.Definition = "sources:\n" + sources.String() + "generate:\n" + generators.String() + `plugins:
  # engines.yaml is the operator's: put it where only they can write, and name it by its path.
  lehr.terraform.v1.Module: {run: [lehr-terraform, --engines, engines.yaml]}
`
	l.Files["engines.yaml"] = l.engines(program)
	l.Read = append([]string{count(len(l.roots), "root module") + " in " + l.top}, l.Read...)
	edges := 0
	for _, r := range l.roots {
		edges += len(r.edges)
	}
	if edges > 0 {
		l.Read = append(l.Read, count(edges, "edge")+" between them")
	}
	l.addHint("say in engines.yaml which partition may use the engine, and which variables and secrets its providers need")
	if _, err := os.Stat(filepath.Join(l.top, ".git")); err == nil {
		l.addHint("the files are read where they lie; to read them from git, write git: URL in place of each dir, and leave out of with.module what leads to that folder")
	}
	slices.SortFunc(l.LeftOut, func(a, b importer.LeftOut) int { return strings.Compare(a.What, b.What) })
}

// readPinnedVersion heeds the file by which tfenv and others choose a version.
func (l *layout) readPinnedVersion(r *root) {
	if r.engine != "" {
		return
	}
	for at := r.at(); ; at = path.Dir(at) {
		text, err := files.ReadForeign(filepath.Join(l.top, filepath.FromSlash(at), ".terraform-version"), 1000)
		if version := strings.TrimSpace(string(text)); err == nil && len(version) < 40 && version != "" && version[0] >= '0' && version[0] <= '9' {
			r.engine = l.engineOf("", version)
			return
		}
		if at == "." {
			return
		}
	}
}

// patterns are the files of a root module and of the modules that it calls.
func (l *layout) patterns(r *root) []string {
	all := map[string]bool{}
	for _, f := range l.closure(r.folder) {
		for _, name := range f.names {
			switch {
			case strings.HasSuffix(name, ".tf.json"):
				all[path.Join(f.path, "*.tf.json")] = true
			case strings.HasSuffix(name, ".tf"), strings.HasSuffix(name, ".tftpl"):
				all[path.Join(f.path, "*"+path.Ext(name))] = true
			case name == ".terraform.lock.hcl" && f == r.folder:
				all[path.Join(f.path, name)] = true
			}
		}
		for _, name := range f.mentioned {
			all[name] = true
		}
	}
	for _, name := range r.folder.values.files {
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// with are the renderer's options.
func (l *layout) with(r *root) map[string]any {
	with := map[string]any{"id": r.id, "module": path.Join(filepath.ToSlash(l.top), r.folder.path)}
	pairs := func(key string, values map[string]string) {
		var list []string
		for _, name := range slices.Sorted(maps.Keys(values)) {
			list = append(list, name+"="+values[name])
		}
		if len(list) > 0 {
			with[key] = list
		}
	}
	pairs("variables", r.variables)
	pairs("backend", r.backend)
	if r.workspace != "" {
		with["workspace"] = r.workspace
	}
	if r.engine != "" {
		with["engine"] = r.engine
	}
	if len(r.edges) > 0 {
		var edges []map[string]any
		for _, id := range r.edges {
			edges = append(edges, map[string]any{"on": id, "rule": "RULE_ORDER"})
		}
		with["addons"] = map[string]any{"Dependencies": map[string]any{"dependencies": edges}}
	}
	return with
}

// engines is the operator's list, for them to complete.
func (l *layout) engines(program Program) []byte {
	isLocked := !slices.ContainsFunc(l.roots, func(r *root) bool { return !r.locksState() })
	var text strings.Builder
	text.WriteString("# What lehr-terraform may run. Whoever runs it completes this, and keeps it where only they can write.\nterraform-engines: v1\nengines:\n")
	add := func(name, binary, version string) {
		fmt.Fprintf(&text, "  - name: %s\n    partitions: [\"*\"]\n    binary: %s\n    version: %s\n", plain(name), plain(binary), plain(version))
		if isLocked {
			text.WriteString("    locked_backends: true\n")
		}
	}
	usesDefault := slices.ContainsFunc(l.roots, func(r *root) bool { return r.engine == "" })
	switch {
	case program.Path != "":
		add("default", program.Path, program.Version)
	case usesDefault:
		add("default", "/usr/local/bin/terraform", "0.0.0")
		l.addHint("no terraform was found in PATH: write its path and its version into engines.yaml")
	}
	for _, name := range slices.Sorted(maps.Keys(l.versions)) {
		add(name, "/usr/local/bin/"+name, l.versions[name])
		l.addHint("install " + name + ", or correct its path in engines.yaml")
	}
	if !isLocked {
		l.addHint("not all backends lock their states: see to that, then write locked_backends: true")
	}
	return []byte(text.String())
}

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
