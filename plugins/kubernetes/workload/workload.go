// Package workload says how an object fares by what the cluster has written into it and
// into its pods: healthy or not and why, how many replicas it has, and which version runs.
// It is pure. Only package kubeobject calls it.
package workload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lehr.dev/sdk/serve"
)

// Evidence is what was found about an object beside it.
type Evidence struct {
	// Container is the worst of a workload, or the last of a Job that has ended; Wrote are its
	// last lines.
	Container Container
	Wrote     string
	// Warning is the newest that the cluster noted of it.
	Warning string
}

// Health judges an object by the rules of kstatus, and says why by the evidence.
func Health(object *unstructured.Unstructured, found Evidence) serve.Health {
	if run, ok := RunOf(object); ok && run.Ended && object.GetKind() == "Job" {
		return runHealth(object, run, found)
	}
	result, err := status.Compute(object)
	if err != nil {
		return serve.Health{State: serve.HealthUnknown, Reason: "its status cannot be read: " + err.Error()}
	}
	switch result.Status {
	case status.CurrentStatus:
		return serve.Health{State: serve.Healthy, ObservedVersion: version(object)}
	case status.UnknownStatus:
		return serve.Health{State: serve.HealthUnknown, Reason: result.Message}
	}
	reason := result.Message
	refused := condition(object, "ReplicaFailure", "")
	switch {
	case found.Container.Pod != "":
		reason = found.Container.text(found.Wrote)
	case refused != "": // A quota, a policy: a ReplicaSet's pods cannot be made.
		reason = refused
	case found.Warning != "":
		reason += "; " + found.Warning
	}
	if deadline := condition(object, "Progressing", "ProgressDeadlineExceeded"); deadline != "" {
		reason += "; its progress deadline is exceeded"
	}
	return serve.Health{State: serve.Unhealthy, Reason: reason}
}

// runHealth is that of a Job that has ended: how, and what it wrote.
func runHealth(object *unstructured.Unstructured, run Run, found Evidence) serve.Health {
	health := serve.Health{State: serve.Healthy, Reason: "it ended well", ObservedVersion: version(object)}
	if run.Failed != "" {
		health = serve.Health{State: serve.Unhealthy, Reason: "it failed: " + run.Failed}
	}
	if found.Container.Pod != "" {
		health.Reason += "; " + found.Container.text(found.Wrote)
	}
	return health
}

// NeedsPods reports whether the pods of a workload say more of it than it does itself, and the
// labels that select them: why it is not healthy, or what a Job did.
func NeedsPods(object *unstructured.Unstructured) (selector string, ok bool) {
	switch object.GetKind() {
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job":
	default:
		return "", false
	}
	if result, err := status.Compute(object); object.GetKind() != "Job" && (err != nil || result.Status == status.CurrentStatus) {
		return "", false
	}
	labels, _, _ := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels")
	var parts []string
	for name, value := range labels {
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, ","), len(parts) > 0
}

// Replicas of a workload that has a number of them: those that are ready, and those of a
// target object.
func Replicas(live, target *unstructured.Unstructured) []serve.Impact {
	if !hasReplicas(live) && !hasReplicas(target) {
		return nil
	}
	impact := serve.Impact{Dimension: "replicas"}
	if live != nil {
		ready, _, _ := unstructured.NestedInt64(live.Object, "status", "readyReplicas")
		impact.Current = float64(max(ready, 0))
	}
	if target != nil {
		impact.Target = 1 // The API server's default.
		if wanted, ok, _ := unstructured.NestedInt64(target.Object, "spec", "replicas"); ok {
			impact.Target = float64(max(wanted, 0))
		}
	}
	return []serve.Impact{impact}
}

func hasReplicas(object *unstructured.Unstructured) bool {
	return object != nil && slices.Contains([]string{"Deployment", "StatefulSet", "ReplicaSet"}, object.GetKind())
}

// version of a workload all of whose pods are as it says: that of its first container's
// image.
func version(object *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	if object.GetKind() == "Pod" {
		containers, _, _ = unstructured.NestedSlice(object.Object, "spec", "containers")
	}
	if len(containers) == 0 {
		return ""
	}
	first, _ := containers[0].(map[string]any)
	image, _ := first["image"].(string)
	return imageVersion(image)
}

// imageVersion is an image's tag, or else its digest.
func imageVersion(image string) string {
	name, digest, _ := strings.Cut(image, "@")
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		return name[colon+1:]
	}
	return digest
}

// condition returns the message of a condition that has a reason.
func condition(object *unstructured.Unstructured, kind, reason string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range conditions {
		fields, _ := one.(map[string]any)
		if fields["type"] == kind && (reason == "" || fields["reason"] == reason) {
			return fmt.Sprint(fields["message"])
		}
	}
	return ""
}
