package definition

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
)

// taskFields are those that only a task of an application has: when it runs.
func (r *deliveryParser) taskFields(spec *intentpb.DeliveryEnvironment, fields map[string]*yaml.Node, at string) {
	spec.Task, spec.OnBad = &intentpb.DeliveryTask{}, intentpb.DeliveryEnvironment_ON_BAD_STAY
	if node := fields["after"]; node != nil {
		spec.Task.After = r.texts(node, at+".after")
		r.checkDuplicates(node, at+".after", spec.Task.After, "environment")
	}
	if node := fields["on_failure"]; node != nil {
		spec.Task.OnFailure = r.texts(node, at+".on_failure")
		r.checkDuplicates(node, at+".on_failure", spec.Task.OnFailure, "environment")
	}
}

// parameters is the field that gets the parameters of a task's runs.
func (r *deliveryParser) parameters(node *yaml.Node, spec *intentpb.DeliveryEnvironment, at string) {
	pointer := r.text(node, at)
	if pointer == "" {
		return
	}
	_, err := document.ParsePath(pointer)
	r.check(node, at, err)
	spec.Task.ParametersPointer = pointer
	overlaps := func(other string) bool {
		return other != "" && (strings.HasPrefix(pointer+"/", other+"/") || strings.HasPrefix(other+"/", pointer+"/"))
	}
	switch {
	case slices.ContainsFunc([]string{spec.Pointer, spec.DigestPointer}, overlaps):
		r.parser.at(node, at, "the field %s overlaps with the one that holds the version, or its digest", pointer).
			hint("give the parameters a field of their own beside it, as /%s/parameters", spec.Name)
	case spec.InRepository:
		r.parser.at(node, at, "the document %q is a file of a repository, where a commit brings a version and its digest only", spec.Document).
			hint("take parameters out, or let the task have a document that Lehr stores, as tasks: {document: tasks}")
	}
}

// ownTask has names of environments that a task of one of each follows lead to the same of each.
func ownTask(task *intentpb.DeliveryTask, value string) {
	for _, names := range [][]string{task.After, task.OnFailure} {
		for i := range names {
			names[i] = strings.ReplaceAll(names[i], eachWord, value)
		}
	}
	task.ParametersPointer = strings.ReplaceAll(task.ParametersPointer, eachWord, value)
}

// completed waits for a task.
func (r *deliveryParser) completed(c *intentpb.DeliveryConstraint, fields map[string]*yaml.Node, at string) {
	if c.GetRollbacks() {
		r.parser.at(fields["rollbacks"], at+".rollbacks", "going back waits for no task").hint("take rollbacks out; a task with on_failure: [ENVIRONMENT] runs when a version fails there")
	}
	c.Kind = &intentpb.DeliveryConstraint_Completed{Completed: &intentpb.CompletedTask{Task: r.text(fields["task"], at+".task")}}
}
