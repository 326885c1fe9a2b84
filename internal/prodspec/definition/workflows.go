package definition

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxWorkflows of a partition.
const maxWorkflows = 50

var workflowKeys = []string{"file"}

const workflowExample = "write workflows: {promote: {file: promote.yaml}}"

// Workflow is a file that defines a workflow. What is in it, package workflow reads.
type Workflow struct {
	Name string
	// File is relative to the definition's folder.
	File string
	Line int
}

// workflowSourcePrefix begins the names of the sources that are workflows' files. Names of a
// definition's own sources have no slash.
const workflowSourcePrefix = "workflow/"

// Source of the workflow's file.
func (w Workflow) Source() Source {
	return Source{Name: workflowSourcePrefix + w.Name, Directory: ".", Files: []string{w.File}, Line: w.Line}
}

// WorkflowOf a source's name; false: the source is no workflow's file.
func WorkflowOf(source string) (name string, ok bool) {
	return strings.CutPrefix(source, workflowSourcePrefix)
}

// workflows are names and files.
func (p *parser) workflows(node *yaml.Node) (list []Workflow) {
	p.eachPair(node, "workflows", func(key, value *yaml.Node) {
		at := "workflows." + key.Value
		if !checkName().MatchString(key.Value) {
			p.at(key, at, "%q is not a name", key.Value).hint("use a-z, 0-9, - and _, at most 63")
		}
		findingsBefore := len(p.findings)
		file := p.fields(value, at, workflowKeys)["file"]
		if file == nil {
			if len(p.findings) == findingsBefore { // Else it may be what is misspelt.
				p.at(key, at+".file", "%s.file is missing", at).hint(workflowExample)
			}
			return
		}
		list = append(list, Workflow{Name: key.Value, File: p.workflowFile(file, at+".file"), Line: key.Line})
	})
	if len(list) > maxWorkflows {
		p.at(node, "workflows", "there are %d workflows, at most %d are allowed", len(list), maxWorkflows).hint("remove those that nobody starts, or define several partitions")
		return nil
	}
	slices.SortFunc(list, func(a, b Workflow) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// workflowFile is the path of a YAML file inside the definition's folder.
func (p *parser) workflowFile(node *yaml.Node, at string) string {
	text := p.text(node, at)
	clean := path.Clean(text)
	extension := path.Ext(clean)
	isOutside := path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../")
	isYAML := extension == ".yaml" || extension == ".yml"
	if text != "" && (isOutside || !isYAML || strings.ContainsAny(clean, `*?[\`)) {
		p.at(node, at, "%s: %.300q is not a .yaml file in this folder", at, text).hint("put the workflow beside lehr.yaml or below it, and write its path from there: file: promote.yaml")
	}
	return clean
}

// Documents are those that the sources read: the name of the source by document, of those that
// Lehr stores, and the names of those that are files in git.
func (d Definition) Documents() (stored map[string]string, inGit []string) {
	return documentsOf(d.Sources)
}
