package keel

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// artifact is a source of versions, and an application of delivery.
type artifact struct {
	node                      *yaml.Node
	kind, name, reference     string
	strategy, capture, branch string
	// branches is a regular expression of their names.
	branches string
	statuses []string
	// isRequested: it must have been built of a pull request.
	isRequested, hasFrom bool
	// vmOptions say how an image is baked of a package; nil: none is.
	vmOptions *yaml.Node
	// project, repository and host are of a repository of git.
	project, repository, host string
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
		"vmOptions": func(value *yaml.Node) { r.readOptions(a, value) },
		"project":   r.text(&a.project), "repoName": r.text(&a.repository), "gitType": r.text(&a.host),
		"secretRef": r.leaveAll("secretRef", "a source names a token of the server's: token: {env: VARIABLE} (docs/operate/secrets.md)"),
		"statuses":  func(value *yaml.Node) { r.readStatuses(a, value) },
		"from":      func(value *yaml.Node) { a.hasFrom = true; r.readFrom(a, value) },
	})
	if a.kind == "git" {
		a.name = a.project + "/" + a.repository
		r.checkRepository(a)
	}
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
	if !slices.Contains([]string{"deb", "docker", "npm", "git"}, a.kind) {
		r.refuse(a.node, "the artifact %s has the type %q, which is none of deb, docker, npm and git: nothing says which version is newer", a.reference, a.kind)
	}
	if _, ok := patterns[a.strategy]; a.strategy != "" && !ok {
		r.refuse(a.node, "the artifact %s has the tagVersionStrategy %q, which Keel does not have", a.reference, a.strategy)
	}
	if (a.kind == "docker" || a.kind == "git") && a.strategy == "" && !a.hasFrom {
		a.strategy = defaultStrategy
		r.Hints = append(r.Hints, fmt.Sprintf("%s:%d: the artifact %s has neither tagVersionStrategy nor from: its tags are ordered by %s, as Keel did; say another order if yours is another",
			r.file, a.node.Line, a.reference, defaultStrategy))
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

// defaultStrategy is what Keel took for an artifact that has none.
const defaultStrategy = "semver-tag"

// readOptions takes how an image is baked: it is an asset, which clusters come after.
func (r *reading) readOptions(a *artifact, node *yaml.Node) {
	if node.Kind != yaml.MappingNode {
		r.refuse(node, "vmOptions is no mapping")
		return
	}
	if r.isJSON(node) {
		r.dropSecrets(node, "")
		a.vmOptions = node
		if len(node.Content) > 0 {
			r.hold(node)
		}
	}
}

// hosts of git that a config names by a word.
var hosts = map[string]string{"github": "https://github.com/", "gitlab": "https://gitlab.com/", "bitbucket": "https://bitbucket.org/"}

// checkRepository refuses a repository whose address nothing says.
func (r *reading) checkRepository(a *artifact) {
	if hosts[a.host] == "" || !repositoryName.MatchString(a.project) || !repositoryName.MatchString(a.repository) {
		r.refuse(a.node, "the artifact %s has no repoName, project and gitType (one of github, gitlab and bitbucket): nothing says where its tags are", a.reference)
		return
	}
	r.Hints = append(r.Hints, fmt.Sprintf("see that %s is the repository of the artifact %s: the config names its host by a word alone", a.address(), a.reference))
}

var repositoryName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (a *artifact) address() string { return hosts[a.host] + a.project + "/" + a.repository + ".git" }

func (r *reading) readStatuses(a *artifact, node *yaml.Node) {
	r.eachItem(node, "statuses", func(item *yaml.Node) {
		var status string
		if r.text(&status)(item); status != "" {
			a.statuses = append(a.statuses, status)
		}
	})
}

func (r *reading) readFrom(a *artifact, node *yaml.Node) {
	r.eachKey(node, "from", map[string]func(*yaml.Node){
		"branch": func(value *yaml.Node) {
			if value.Kind == yaml.ScalarNode {
				r.text(&a.branch)(value)
				return
			}
			var prefix string
			r.eachKey(value, "branch", map[string]func(*yaml.Node){"name": r.text(&a.branch), "startsWith": r.text(&prefix), "regex": r.text(&a.branches)})
			if prefix != "" {
				a.branches = regexp.QuoteMeta(prefix) + ".*"
			}
			if len(value.Content) > 2 {
				r.refuse(value, "a branch is told by one of name, startsWith and regex")
			}
			if _, err := regexp.Compile(a.branches); err != nil {
				r.refuse(value, "%q is no regular expression (RE2)", a.branches)
			}
		},
		"pullRequestOnly": func(value *yaml.Node) {
			if value.Value != "true" && value.Value != "false" {
				r.refuse(value, "pullRequestOnly is true or false")
				return
			}
			a.isRequested = value.Value == "true"
			r.keep(value)
		},
	})
}
