package kubeobject

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lehr.dev/plugins/kubernetes/workload"
	"lehr.dev/sdk/serve"
)

// hookAnnotations are those by which a Pod was a hook of Helm or Argo CD: it is to end.
var hookAnnotations = []string{"helm.sh/hook", "argocd.argoproj.io/hook"}

// How often a run is looked at that goes on, beside the watch, and one that failed.
const everyRun, everyFailure = 5 * time.Second, time.Minute

// pendingRun says that a Job, or a Pod that was a hook, has not ended well; nil: it has, or it is
// none. What comes after it is to come after its end. A Job that is suspended is as it should be.
func (l *look) pendingRun() *serve.PendingChange {
	run, ok := workload.RunOf(l.live)
	if !ok || !l.isToEnd() || run.Ended && run.Failed == "" {
		return nil
	}
	created := l.live.GetCreationTimestamp().Time
	if run.Ended {
		return &serve.PendingChange{
			Since: created, Reason: l.name() + ": " + l.health.Reason, RetryAfter: everyFailure,
			Ends: "somebody mends what it needs and deletes it, so that it is made anew; or changes it in the sources",
		}
	}
	pending := &serve.PendingChange{Since: created, Reason: l.name() + " has not ended", Ends: "the end of its run", RetryAfter: everyRun}
	if l.health.State == serve.Unhealthy && l.health.Reason != "" {
		pending.Reason += ": " + l.health.Reason
	}
	return pending
}

// isToEnd reports whether intent has the object run once, and end.
func (l *look) isToEnd() bool {
	if l.payload.Kind == "Job" {
		suspended, _, _ := unstructured.NestedBool(l.live.Object, "spec", "suspend")
		return !suspended
	}
	annotations := l.wanted.GetAnnotations()
	for _, name := range hookAnnotations {
		if annotations[name] != "" {
			return true
		}
	}
	return false
}

// hasEndedRun reports whether the object is a Job that has ended: nothing is lost with it.
func (l *look) hasEndedRun() bool {
	run, ok := workload.RunOf(l.live)
	return ok && run.Ended && l.payload.Kind == "Job"
}
