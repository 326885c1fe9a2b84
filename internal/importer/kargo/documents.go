package kargo

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/secrecy"
)

// document is a file of a repository that promotions write.
type document struct {
	name, repository, branch, file string
}

type documents struct{ list []*document }

// find is the document of a file; one that is new gets a name later, when all are known.
func (d *documents) find(repository, branch, file string) *document {
	if branch == "" {
		branch = "main"
	}
	for _, have := range d.list {
		if repositoryKey(have.repository) == repositoryKey(repository) && have.branch == branch && have.file == file {
			return have
		}
	}
	made := &document{repository: repository, branch: branch, file: file}
	d.list = append(d.list, made)
	return made
}

// name gives each document a name of its own.
func (d *documents) name() {
	taken := map[string]bool{knobs: true, "assets": true, "stages": true, "outputs": true, "turndown": true}
	for _, have := range d.list {
		base := segment(strings.TrimSuffix(have.file, path.Ext(have.file)))
		if len(base) > 55 {
			base = strings.Trim(base[len(base)-55:], "-_")
		}
		base = cmp.Or(base, "file")
		have.name = base
		for count := 2; taken[have.name] || !named.MatchString(have.name); count++ {
			have.name = base + "-" + strconv.Itoa(count)
		}
		taken[have.name] = true
	}
}

// findEntry finds which entry of a list a step means: in a checkout by its name, else by the step.
func (p *process) findEntry(w *write) {
	if w.list == "" {
		return
	}
	folder, ok := p.reading.checkouts[repositoryKey(w.document.repository)]
	if !ok {
		p.Hints = append(p.Hints, fmt.Sprintf("see that %s of %s is %s, or import again with --checkout %s=FOLDER", path.Dir(w.pointer), w.document.file, w.name, w.document.repository))
		return
	}
	name := filepath.Join(folder, filepath.FromSlash(w.document.file))
	text, err := files.ReadForeign(name, MaxBytes)
	if err != nil {
		p.refuse(w.step, "the step writes %s, which the checkout does not have: %v", w.document.file, err)
		return
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil || len(root.Content) != 1 {
		p.refuse(w.step, "the step writes %s, which is not YAML in the checkout", w.document.file)
		return
	}
	if list := child(root.Content[0], w.list); list != nil && list.Kind == yaml.SequenceNode {
		for i, entry := range list.Content {
			if attribute(entry, "name") == w.name {
				place := "/" + w.list + "/" + strconv.Itoa(i)
				w.pointer = place + "/" + path.Base(w.pointer)
				if w.digest != "" {
					w.digest = place + "/digest"
				}
				return
			}
		}
	}
	p.refuse(w.step, "%s has no entry %s under %s: a promotion sets a field that is there; write it into the file first", w.document.file, w.name, w.list)
}

// plain is a step's configuration with what is known filled in, and without what looks like a
// secret. What a promotion alone knows stays an expression.
func (p *process) plain(s *step, node *yaml.Node, name string) any {
	switch node.Kind {
	case yaml.MappingNode:
		made := map[string]any{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			made[node.Content[i].Value] = p.plain(s, node.Content[i+1], node.Content[i].Value)
		}
		return made
	case yaml.SequenceNode:
		made := []any{}
		for _, item := range node.Content {
			made = append(made, p.plain(s, item, name))
		}
		return made
	}
	text, err := s.resolveAt(node)
	if err != nil || !isKnown(text) {
		text = node.Value
	}
	if kind, ok := secrecy.Field(name, text); ok {
		p.leave(node, "a value of the step "+s.title(), "it looks like a secret: "+kind, node)
		return nil
	}
	return text
}
