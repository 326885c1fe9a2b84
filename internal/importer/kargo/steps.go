package kargo

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/spell"
)

// renderers are steps that make files of files and tell nobody. They stand in the Stage's asset.
var renderers = []string{
	"copy", "delete", "file-write", "tar", "untar", "helm-template", "kustomize-build", "kcl-run", "yaml-parse", "yaml-merge", "json-parse", "toml-parse",
	"toml-update", "hcl-update", "compose-output", "set-metadata", "set-freight-alias",
}

// outside are steps that ask or tell others, and may fail: until a program says how it went, no
// version comes.
var outside = []string{
	"http", "http-download", "oci-download", "oci-push", "git-tag", "fail", "wait-for-approval", "get-user-input", "send-message", "record-audit-event",
	"tf-plan", "tf-apply", "tf-output", "jira", "snow-create", "snow-update", "snow-delete", "snow-query-for-records", "snow-wait-for-condition",
	"gh-create-issue", "gh-update-issue", "gh-search-issues", "gh-wait-for-issue-state", "gh-issue-add-comment", "gh-issue-update-comment", "gh-issue-delete-comment",
	"gha-dispatch-workflow", "gha-wait-for-workflow", "jfrog-evidence", "argocd-wait",
}

// readers are the steps that a promotion of Lehr's has something for.
var readers = map[string]func(*process, *step){
	"git-clone": (*process).readClone, "git-clear": (*process).readClear, "git-commit": (*process).readCommit, "git-push": (*process).readPush,
	"github-push": (*process).readPush, "git-open-pr": (*process).readOpenRequest, "git-wait-for-pr": (*process).readWaitForRequest,
	"git-merge-pr": (*process).readMergeRequest, "kustomize-set-image": (*process).readSetImage, "yaml-update": (*process).readUpdate,
	"json-update": (*process).readUpdate, "helm-update-chart": (*process).readUpdateChart, "argocd-update": (*process).readSync,
}

// readUses reads one step.
func (p *process) readUses(s *step) {
	if s.config == nil {
		s.config = &yaml.Node{Kind: yaml.MappingNode, Line: s.node.Line}
		p.places[s.config] = p.places[s.node]
	}
	switch read := readers[s.uses]; {
	case read != nil:
		read(p, s)
		p.keepStep(s)
	case slices.Contains(renderers, s.uses), s.uses == "argocd-wait" && p.isPushed && waitsForAll(s.config):
		p.keepStep(s)
	default:
		p.readOutside(s)
	}
}

// waitsForAll reports whether a step waits for what makes an environment good: its production is as it
// should be, and healthy.
func waitsForAll(config *yaml.Node) bool {
	apps := child(config, "apps")
	if apps == nil || apps.Kind != yaml.SequenceNode || len(apps.Content) == 0 {
		return false
	}
	for _, app := range apps.Content {
		list := child(app, "waitFor")
		if list == nil {
			continue
		}
		for _, item := range leaves(list) {
			if !slices.Contains([]string{"health", "sync", "operation"}, item.Value) {
				return false
			}
		}
	}
	return true
}

// keepStep has the Stage's asset say what the step does, unless it comes to be done.
func (p *process) keepStep(s *step) {
	isGit := strings.HasPrefix(s.uses, "git-") && s.uses != "git-clear" && s.uses != "git-merge-pr" || s.uses == "github-push"
	p.stage.kept = append(p.stage.kept, &keptStep{node: s.node, config: s.config, isGit: isGit, content: map[string]any{"uses": s.uses, "config": p.plain(s, s.config, "")}})
}

// readOutside has a program say how a step went that nobody runs here.
func (p *process) readOutside(s *step) {
	name := segment(s.title())
	if !named.MatchString(name) {
		p.refuse(s.node, "the step has no name that a constraint can have")
		return
	}
	for count, base := 2, name; p.stage.hasVerdict(name); count++ {
		name = base + "-" + strconv.Itoa(count)
	}
	why, isKnownStep := "Lehr runs no such step", slices.Contains(outside, s.uses)
	if !isKnownStep {
		why = "Kargo has no such step of its own"
		if meant := spell.Nearest(s.uses, slices.Concat(renderers, outside, slices.Collect(namesOf(readers)))); meant != "" {
			why += " (did you mean " + meant + "?)"
		}
	}
	if command := p.readRequest(s); command != nil && !s.goesOn {
		if p.isPushed {
			p.stage.verify = append(p.stage.verify, verification{name: name, command: command})
		} else {
			p.stage.verdicts = append(p.stage.verdicts, verdict{name: name, command: command})
		}
		return
	}
	switch {
	case s.goesOn:
		why += ": its result keeps nothing out, so nothing waits for it; have notifications or a task do it"
	case p.isPushed:
		p.stage.verify = append(p.stage.verify, verification{name: name})
		why += fmt.Sprintf(": it is a verification of the environment; have what runs it call lehr delivery verdict %s %s good|bad --reason REASON, or name a command or an http", segment(p.stage.name), name)
	default:
		p.stage.verdicts = append(p.stage.verdicts, verdict{name: name})
		why += fmt.Sprintf(": no version comes before a program says so; have what runs it call lehr delivery verdict %s %s good|bad --reason REASON, or take the constraint out", segment(p.stage.name), name)
	}
	what := "step " + s.uses + " of " + p.stage.name
	if !isKnownStep || s.goesOn {
		list := p.leave
		if !isKnownStep {
			list = p.wrong
		}
		list(s.node, what, why, s.config)
		return
	}
	// What runs the step finds it in the Stage's asset.
	p.keepStep(s)
	p.stage.kept[len(p.stage.kept)-1].isOutside = true
	p.leave(s.node, what, why+". It stands in the Stage's asset")
}

func namesOf(list map[string]func(*process, *step)) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range list {
			if !yield(name) {
				return
			}
		}
	}
}

func (s *stage) hasVerdict(name string) bool {
	return slices.ContainsFunc(s.verdicts, func(v verdict) bool { return v.name == name }) ||
		slices.ContainsFunc(s.verify, func(v verification) bool { return v.name == name })
}

func (p *process) readClone(s *step) {
	var repository string
	p.eachKey(s.config, "git-clone", map[string]func(*yaml.Node){
		"repoURL": p.take(s, "repoURL", &repository), "author": p.leaveAll("author of commits", "a commit of a promotion says delivery/PARTITION/APPLICATION"),
		"insecureSkipTLSVerify": p.leaveAll("insecureSkipTLSVerify", "Lehr always verifies: give the server the authority's certificate"),
		"checkout": func(list *yaml.Node) {
			p.eachItem(list, "checkout", func(item *yaml.Node) {
				c := &checkout{}
				var folder, commit, tag string
				p.eachKey(item, "checkout", map[string]func(*yaml.Node){
					"path": p.take(s, "path", &folder), "branch": p.take(s, "branch", &c.branch), "commit": p.take(s, "commit", &commit), "tag": p.take(s, "tag", &tag),
					"create": p.keepAll, "fromFreight": p.keepAll, "fromOrigin": p.keepAll, "as": p.keepAll,
					"sparse": p.keepAll,
				})
				c.folder = path.Clean(folder)
				p.checkouts = append(p.checkouts, c)
			})
		},
	})
	for _, c := range p.checkouts {
		if c.repository == "" {
			c.repository = repository
		}
		if c.repository == "" {
			// Without its address nothing can be committed there.
			c.repository = outputMark
		}
	}
}

func (p *process) keepAll(node *yaml.Node) { p.keep(node) }

// folderOf reads the one key path of a step.
func (p *process) folderOf(s *step, more map[string]func(*yaml.Node)) *checkout {
	var folder string
	keys := map[string]func(*yaml.Node){"path": p.take(s, "path", &folder)}
	for key, read := range more {
		keys[key] = read
	}
	p.eachKey(s.config, s.uses, keys)
	return p.checkoutOf(path.Clean(folder))
}

func (p *process) readClear(s *step) {
	if c := p.folderOf(s, nil); c != nil {
		c.isCleared = true
	}
}

func (p *process) readCommit(s *step) {
	p.folderOf(s, map[string]func(*yaml.Node){
		"messageFromSteps": p.keepAll,
		"author":           p.leaveAll("author of commits", "a commit of a promotion says delivery/PARTITION/APPLICATION"),
		"message": func(node *yaml.Node) {
			if text, err := s.resolveAt(node); err == nil && !isKnown(text) {
				p.keep(node)
				return
			}
			p.leave(node, "message of commits", "a commit of a promotion says which environment gets which version, and why", node)
		},
	})
}

func (p *process) readPush(s *step) {
	var branch, generated string
	c := p.folderOf(s, map[string]func(*yaml.Node){
		"targetBranch": p.take(s, "targetBranch", &branch), "generateTargetBranch": p.take(s, "generateTargetBranch", &generated),
		"branch": p.take(s, "branch", &branch), "provider": p.keepAll, "maxAttempts": p.keepAll,
		"tag":                   p.leaveAll("tag of a push", "who runs the step git-tag pushes its tag too"),
		"force":                 p.leaveAll("force of a push", "Lehr commits upon what it has seen, and never over it"),
		"pullIntegration":       p.keepAll,
		"insecureSkipTLSVerify": p.leaveAll("insecureSkipTLSVerify", "Lehr always verifies: give the server the authority's certificate"),
	})
	p.isPushed = true
	if c == nil {
		p.wrong(s.node, "step "+s.title()+" of "+p.stage.name, "no git-clone before it has its path: nothing says where it is pushed", s.config)
		return
	}
	if c.isPushed = true; branch != "" && generated != "true" && isKnown(branch) {
		c.branch = branch
	}
}

func (p *process) readOpenRequest(s *step) {
	p.opensRequest = true
	var repository, source string
	why := "a pull request of Lehr's says which environment gets which version, and why"
	p.eachKey(s.config, "git-open-pr", map[string]func(*yaml.Node){
		"repoURL": p.take(s, "repoURL", &repository), "targetBranch": p.take(s, "targetBranch", &p.target), "sourceBranch": p.take(s, "sourceBranch", &source),
		"createTargetBranch": p.keepAll, "sourceBranchFromStep": p.keepAll, "provider": p.keepAll,
		"title": p.leaveAll("title of pull requests", why), "description": p.leaveAll("description of pull requests", why), "labels": p.leaveAll("labels of pull requests", why),
		"insecureSkipTLSVerify": p.leaveAll("insecureSkipTLSVerify", "Lehr always verifies: give the server the authority's certificate"),
	})
}

func (p *process) readWaitForRequest(s *step) {
	var repository, number string
	p.eachKey(s.config, "git-wait-for-pr", map[string]func(*yaml.Node){
		"repoURL": p.take(s, "repoURL", &repository), "prNumber": p.take(s, "prNumber", &number), "prNumberFromStep": p.keepAll, "provider": p.keepAll,
		"insecureSkipTLSVerify": p.leaveAll("insecureSkipTLSVerify", "Lehr always verifies: give the server the authority's certificate"),
	})
}

func (p *process) readMergeRequest(s *step) {
	p.leave(s.node, "step "+s.title()+" of "+p.stage.name, "Lehr merges nothing that people are to look at: have the git host merge by itself, or take pull_request out of the environment and have it commit", s.config)
}

func (p *process) readSync(s *step) {
	if apps := child(s.config, "apps"); apps != nil && apps.Kind == yaml.SequenceNode {
		for _, app := range apps.Content {
			if name, err := s.resolveAt(child(app, "name")); err == nil && isKnown(name) {
				p.stage.apps = append(p.stage.apps, name)
			}
		}
	}
	p.isPushed = true
}

// addWrite notes a field that a step sets to what a text says.
func (p *process) addWrite(s *step, w write, text string, node *yaml.Node) {
	found, ok := s.reference(text)
	switch {
	case ok:
		w.step, w.reference = s.node, found
		p.writes = append(p.writes, &w)
	case isKnown(text):
		p.leave(node, "step "+s.title()+" of "+p.stage.name, "the value is the same at each promotion: write it into the file once", node)
	default:
		p.wrong(node, "step "+s.title()+" of "+p.stage.name, "the value is more than the version, and a promotion sets a field to the version alone: have the file take image and tag apart, so that it is committed", node)
	}
}

func (p *process) readSetImage(s *step) {
	var folder string
	p.eachKey(s.config, "kustomize-set-image", map[string]func(*yaml.Node){
		"path": p.take(s, "path", &folder),
		"images": func(list *yaml.Node) {
			index := 0
			p.eachItem(list, "images", func(item *yaml.Node) { p.readImage(s, item, index); index++ })
		},
	})
	for _, w := range p.writes {
		if w.step == s.node && w.file == "" {
			w.file = path.Join(path.Clean(folder), "kustomization.yaml")
		}
	}
}

func (p *process) readImage(s *step, item *yaml.Node, index int) {
	var image, tag, digest, origin, useDigest, newName string
	var hasTag bool
	p.eachKey(item, "images", map[string]func(*yaml.Node){
		"image": p.take(s, "image", &image), "useDigest": p.take(s, "useDigest", &useDigest), "newName": p.take(s, "newName", &newName),
		"tag": func(node *yaml.Node) { tag, hasTag = p.value(s, node, "tag") }, "digest": p.take(s, "digest", &digest), "fromOrigin": func(node *yaml.Node) {
			origin = attribute(node, "name")
			p.keep(node)
		},
	})
	if !isKnown(image) {
		return
	}
	entry := "/images/" + strconv.Itoa(index)
	w := write{pointer: entry + "/newTag", list: "images", name: image}
	if !hasTag {
		more := []string{}
		if origin != "" {
			more = append(more, origin)
		}
		a := p.stage.artifact("image", image, more...)
		if a == nil {
			p.refuse(item, "the Stage %s sets the image %s, which no Warehouse that it requests freight of has", p.stage.name, image)
			return
		}
		tag = s.mark(a, "version")
	}
	if digest != "" || useDigest == "true" {
		w.digest = entry + "/digest"
	}
	if newName != "" {
		p.Hints = append(p.Hints, "write newName: "+newName+" of the image "+image+" into the kustomization that is promoted: a promotion sets its tag alone")
	}
	p.addWrite(s, w, tag, item)
}

func (p *process) readUpdate(s *step) {
	var file string
	p.eachKey(s.config, s.uses, map[string]func(*yaml.Node){
		"path": p.take(s, "path", &file),
		"updates": func(list *yaml.Node) {
			p.eachItem(list, "updates", func(item *yaml.Node) {
				var key, text string
				var node *yaml.Node
				p.eachKey(item, "updates", map[string]func(*yaml.Node){
					"key":   p.take(s, "key", &key),
					"value": func(n *yaml.Node) { node = n; text, _ = p.value(s, n, "value") },
				})
				if node != nil && !p.left[node] {
					p.addWrite(s, write{pointer: pointerOf(key)}, text, node)
				}
			})
		},
	})
	for _, w := range p.writes {
		if w.step == s.node && w.file == "" {
			w.file = path.Clean(file)
		}
	}
}

// pointerOf is a key with dots, as Kargo writes it, as a path of fields.
func pointerOf(key string) string {
	var made strings.Builder
	for _, part := range strings.Split(strings.ReplaceAll(key, `\.`, "\x01"), ".") {
		part = strings.ReplaceAll(part, "\x01", ".")
		made.WriteString("/" + strings.ReplaceAll(strings.ReplaceAll(part, "~", "~0"), "/", "~1"))
	}
	return made.String()
}

func (p *process) readUpdateChart(s *step) {
	var folder string
	p.eachKey(s.config, "helm-update-chart", map[string]func(*yaml.Node){
		"path": p.take(s, "path", &folder),
		"charts": func(list *yaml.Node) {
			index := 0
			p.eachItem(list, "charts", func(item *yaml.Node) {
				var repository, name, version string
				p.eachKey(item, "charts", map[string]func(*yaml.Node){
					"repository": p.take(s, "repository", &repository), "name": p.take(s, "name", &name), "version": p.take(s, "version", &version), "fromOrigin": p.keepAll,
				})
				w := write{pointer: "/dependencies/" + strconv.Itoa(index) + "/version", list: "dependencies", name: name}
				if version == "" {
					if a := p.stage.artifact("chart", repository); a != nil {
						version = s.mark(a, "version")
					}
				}
				p.addWrite(s, w, version, item)
				index++
			})
		},
	})
	for _, w := range p.writes {
		if w.step == s.node && w.file == "" {
			w.file = path.Join(path.Clean(folder), "Chart.yaml")
		}
	}
}
