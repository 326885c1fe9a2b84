package keel

import (
	"cmp"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// artifact is a source of versions, and an application of delivery.
type artifact struct {
	node                      *yaml.Node
	kind, name, reference     string
	strategy, capture, branch string
	status                    string
	hasFrom                   bool
}

// named is how applications and environments of Lehr may be called.
var named = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// branchName is what a source of versions takes as one.
var branchName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./-]*$`)

// segment is a name as delivery has it.
func segment(text string) string {
	clean := strings.Trim(strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' {
			return c
		}
		return '-'
	}, strings.ToLower(text)), "-_")
	if len(clean) > 63 {
		clean = clean[:63]
	}
	return clean
}

// patterns are the strategies of tags: what is ordered, and how.
var patterns = map[string][2]string{
	"increasing-tag":              {"number", ""},
	"semver-tag":                  {"semver", ""},
	"branch-job-commit-by-job":    {"number", `master-h(\d+).*`},
	"semver-job-commit-by-job":    {"number", `v.*-h(\d+).*`},
	"semver-job-commit-by-semver": {"semver", `v(.*)-h\d+.*`},
}

func (r *reading) readArtifact(node *yaml.Node) {
	a := &artifact{node: node}
	r.eachKey(node, "the artifact", map[string]func(*yaml.Node){
		"type": r.text(&a.kind), "name": r.text(&a.name), "reference": r.text(&a.reference),
		"tagVersionStrategy": r.text(&a.strategy), "captureGroupRegex": r.text(&a.capture),
		"vmOptions": r.leaveAll("vmOptions", "Lehr bakes no images; have the build bake them"),
		"statuses":  func(value *yaml.Node) { r.readStatuses(a, value) },
		"from":      func(value *yaml.Node) { a.hasFrom = true; r.readFrom(a, value) },
	})
	a.reference = cmp.Or(a.reference, a.name)
	switch name := segment(a.reference); {
	case a.name == "" || !named.MatchString(name):
		r.refuse(node, "the artifact has no name that delivery can have")
		return
	case r.artifactOf(a.reference) != nil || r.hasName(name):
		r.refuse(node, "another artifact has the reference %q, or one that is written alike", a.reference)
		return
	}
	r.checkOrder(a)
	r.artifacts = append(r.artifacts, a)
}

func (r *reading) artifactOf(reference string) *artifact {
	for _, a := range r.artifacts {
		if a.reference == reference {
			return a
		}
	}
	return nil
}

func (r *reading) hasName(name string) bool {
	for _, a := range r.artifacts {
		if segment(a.reference) == name {
			return true
		}
	}
	return false
}

// checkOrder refuses what leaves it open which version is newer.
func (r *reading) checkOrder(a *artifact) {
	if a.kind != "deb" && a.kind != "docker" && a.kind != "npm" {
		r.refuse(a.node, "the artifact %s has the type %q, which is none of deb, docker and npm", a.reference, a.kind)
	}
	if _, ok := patterns[a.strategy]; a.strategy != "" && !ok {
		r.refuse(a.node, "the artifact %s has the tagVersionStrategy %q, which Keel does not have", a.reference, a.strategy)
	}
	if a.kind == "docker" && a.strategy == "" && !a.hasFrom {
		r.refuse(a.node, "the artifact %s has neither tagVersionStrategy nor from", a.reference)
	}
	if a.branch != "" && !branchName.MatchString(a.branch) {
		r.refuse(a.node, "%q is no name of a branch", a.branch)
	}
	if a.capture == "" {
		return
	}
	if pattern, err := regexp.Compile(a.capture); err != nil || pattern.NumSubexp() != 1 {
		r.refuse(a.node, "the captureGroupRegex of %s is no regular expression (RE2) with one group", a.reference)
	}
}

// order is how its versions are ordered.
func (a *artifact) order() map[string]any {
	if a.hasFrom {
		return map[string]any{"by": "created"}
	}
	switch a.kind {
	case "deb":
		return map[string]any{"by": "debian"}
	case "npm":
		return map[string]any{"by": "semver", "prereleases": []string{"*"}}
	}
	pattern := patterns[a.strategy]
	order := map[string]any{"by": pattern[0]}
	if match := cmp.Or(strings.TrimSuffix(strings.TrimPrefix(a.capture, "^"), "$"), pattern[1]); match != "" {
		order["match"] = match
	}
	if pattern[0] == "semver" {
		order["prereleases"] = []string{"*"}
	}
	return order
}

func (r *reading) readStatuses(a *artifact, node *yaml.Node) {
	if node.Kind == yaml.SequenceNode && len(node.Content) == 1 {
		r.text(&a.status)(node.Content[0])
		return
	}
	if node.Kind == yaml.SequenceNode && len(node.Content) > 1 {
		r.refuse(node, "a source of versions takes one status, and %s has several; have the build tell one", a.name)
		return
	}
	r.eachItem(node, "statuses", nil)
}

func (r *reading) readFrom(a *artifact, node *yaml.Node) {
	r.eachKey(node, "from", map[string]func(*yaml.Node){
		"branch": func(value *yaml.Node) {
			if value.Kind == yaml.ScalarNode {
				r.text(&a.branch)(value)
				return
			}
			several := func(node *yaml.Node) {
				r.refuse(node, "a source of versions takes one branch by its name, and no pattern: write name, or one artifact a branch")
			}
			r.eachKey(value, "branch", map[string]func(*yaml.Node){"name": r.text(&a.branch), "startsWith": several, "regex": several})
		},
		"pullRequestOnly": func(value *yaml.Node) {
			if value.Value != "false" {
				r.refuse(value, "a source of versions cannot ask for those of pull requests alone")
				return
			}
			r.keep(value)
		},
	})
}
