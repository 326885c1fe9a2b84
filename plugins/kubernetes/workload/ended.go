package workload

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Run is how far a Job or a Pod is that runs once.
type Run struct {
	Ended bool
	// Failed says why it did not end well; empty: it did, or it has not ended.
	Failed string
}

// RunOf an object; false: it is none that runs once.
func RunOf(object *unstructured.Unstructured) (run Run, ok bool) {
	switch object.GetKind() {
	case "Job":
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, one := range conditions {
			fields, _ := one.(map[string]any)
			if fields["status"] != "True" {
				continue
			}
			switch fields["type"] {
			case "Complete":
				return Run{Ended: true}, true
			case "Failed":
				return Run{Ended: true, Failed: failure(fields)}, true
			}
		}
		return Run{}, true
	case "Pod":
		status, _, _ := unstructured.NestedMap(object.Object, "status")
		switch status["phase"] {
		case "Succeeded":
			return Run{Ended: true}, true
		case "Failed":
			return Run{Ended: true, Failed: failure(status)}, true
		}
		return Run{}, true
	}
	return Run{}, false
}

// failure is a reason with its message, as far as they are there.
func failure(fields map[string]any) string {
	reason, _ := fields["reason"].(string)
	message, _ := fields["message"].(string)
	switch {
	case reason == "" && message == "":
		return "it does not say why"
	case message == "":
		return reason
	case reason == "":
		return message
	}
	return reason + ": " + message
}

// KeptBy is what a namespace or a definition of a kind that is being deleted waits for, as the
// cluster says it: which objects are left, and which finalizers these wait for.
func KeptBy(object *unstructured.Unstructured) string {
	var kept []string
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range conditions {
		fields, _ := one.(map[string]any)
		kind, _ := fields["type"].(string)
		isOfDeletion := object.GetKind() == "Namespace" && strings.HasPrefix(kind, "Namespace") || object.GetKind() == "CustomResourceDefinition" && kind == "Terminating"
		if message, _ := fields["message"].(string); isOfDeletion && fields["status"] == "True" && message != "" {
			kept = append(kept, message)
		}
	}
	return strings.Join(kept, "; ")
}
