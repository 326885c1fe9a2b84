package argocd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// sourceSpec is a source of lehr.yaml.
type sourceSpec struct {
	name string
	// body is what lehr.yaml says of it.
	body map[string]any
	// checkout has the files of a source in git; nil: they are not here.
	checkout *checkout
	// patterns of the files in git.
	patterns []string
}

// renderSpec is a generator of lehr.yaml.
type renderSpec struct {
	name, render string
	from         []string
	with         map[string]any
	addons       []map[string]any
}

// partition is what one lehr.yaml says.
type partition struct {
	name    string
	apps    []*app
	sources []*sourceSpec
	renders []*renderSpec
	// derived are derivations, by name, and checks by name.
	derived, checks map[string]any
	access          map[string][]string
	// files beside lehr.yaml.
	files map[string][]byte
	used  map[string]bool
}

func newPartition(name string) *partition {
	return &partition{name: name, derived: map[string]any{}, checks: map[string]any{}, access: map[string][]string{}, files: map[string][]byte{}, used: map[string]bool{}}
}

var notInSpecName = regexp.MustCompile(`[^a-z0-9_-]+`)

// reserved are names that definitions do not take.
var reserved = []string{"definition", "programs", "types", "lehr-helm", "lehr-kustomize", "kustomize", "helm"}

// nameFor finds a free name for a source or generator.
func (p *partition) nameFor(wanted string) string {
	base := strings.Trim(notInSpecName.ReplaceAllString(strings.ToLower(wanted), "-"), "-_")
	if base == "" {
		base = "app"
	}
	base = strings.TrimRight(base[:min(len(base), 55)], "-_")
	name := base
	for i := 2; p.used[name] || slices.Contains(reserved, name); i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	p.used[name] = true
	return name
}

// addSource adds a source, or finds one that is the same.
func (p *partition) addSource(wanted string, made *sourceSpec) *sourceSpec {
	for _, s := range p.sources {
		if slices.Equal(s.patterns, made.patterns) && s.checkout == made.checkout && inJSON(s.body) == inJSON(made.body) {
			return s
		}
	}
	made.name = p.nameFor(wanted)
	p.sources = append(p.sources, made)
	return made
}

// addFile adds a file beside lehr.yaml and a source that reads it.
func (p *partition) addFile(wanted, name string, text []byte) *sourceSpec {
	p.files[name] = text
	return p.addSource(wanted, &sourceSpec{body: map[string]any{"dir": ".", "files": []string{name}}})
}

// definition writes what follows partition and mode. Where the files are copies of this
// machine, sources in git are folders beside lehr.yaml.
func (p *partition) definition(copies bool) string {
	var out strings.Builder
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			out.WriteString(title + ":\n")
			for _, line := range lines {
				out.WriteString("  " + line + "\n")
			}
		}
	}
	var sources, renders []string
	for _, s := range p.sources {
		body := s.body
		if copies && s.checkout != nil {
			body = map[string]any{"dir": s.name, "files": s.patterns}
		}
		sources = append(sources, inJSON(s.name)+": "+inJSON(body))
	}
	for _, r := range p.renders {
		with := maps.Clone(r.with)
		if len(r.addons) > 0 {
			with["addons"] = r.addons
		}
		renders = append(renders, fmt.Sprintf("%s: {render: %s, from: %s, with: %s}", inJSON(r.name), r.render, inJSON(r.from), inJSON(with)))
	}
	for _, name := range sortedKeys(p.derived) {
		renders = append(renders, inJSON(name)+": "+inJSON(p.derived[name]))
	}
	section("sources", sources)
	section("generate", renders)
	var checks, access []string
	for _, name := range sortedKeys(p.checks) {
		checks = append(checks, inJSON(name)+": "+inJSON(p.checks[name]))
	}
	for _, role := range sortedKeys(p.access) {
		access = append(access, role+": "+inJSON(p.access[role]))
	}
	section("checks", checks)
	section("access", access)
	out.WriteString(`plugins:
  # clusters.yaml is the operator's: put it where only they can write, and name it by its path.
  lehr.kubernetes.v1.Object: {run: [lehr-kubernetes, --clusters, clusters.yaml]}
`)
	return out.String()
}

// copies are the files that the sources in git read, by where they lie below lehr.yaml.
func (p *partition) copies() map[string][]byte {
	made := map[string][]byte{}
	for _, s := range p.sources {
		if s.checkout == nil {
			continue
		}
		for _, name := range s.checkout.names {
			if matchesAny(s.patterns, name) {
				if text := s.checkout.read(name); text != nil {
					made[path.Join(s.name, name)] = text
				}
			}
		}
	}
	return made
}

// matchesAny says whether a pattern of a source has a file.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if folder, ok := strings.CutSuffix(pattern, "**"); ok && folder == strings.TrimRight(folder, "*?[") {
			return strings.HasPrefix(name, folder)
		}
		return pattern == name || globPattern(pattern).MatchString(name)
	})
}

// inJSON is a value in YAML's flow style, which JSON is.
func inJSON(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // Values of JSON can be encoded.
	return strings.TrimSuffix(text.String(), "\n")
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
