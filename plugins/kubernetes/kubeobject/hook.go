package kubeobject

import (
	"time"

	"lehr.dev/plugins/kubernetes/workload"
	"lehr.dev/sdk/serve"
)

// hookAnnotations are those by which a Job or a Pod was a hook of Helm or Argo CD. What comes
// after it is to come after its end, so until then it is pending. Other Jobs are in sync when
// they are there.
var hookAnnotations = []string{"helm.sh/hook", "argocd.argoproj.io/hook"}

// How often a run is looked at that goes on, beside the watch, and one that failed.
const everyRun, everyFailure = 5 * time.Second, time.Minute

// hookRun says that a hook has not ended well; nil: it has, or it is none.
func (l *look) hookRun() *serve.PendingChange {
	annotations, isHook := l.wanted.GetAnnotations(), false
	for _, name := range hookAnnotations {
		isHook = isHook || annotations[name] != ""
	}
	run, ok := workload.RunOf(l.live)
	if !isHook || !ok || run.Ended && run.Failed == "" {
		return nil
	}
	pending := &serve.PendingChange{Since: l.live.GetCreationTimestamp().Time, Reason: l.name() + " is a hook, and has not ended", Ends: "the end of its run", RetryAfter: everyRun}
	if run.Failed != "" {
		pending.Reason = l.name() + " is a hook, and failed: " + run.Failed
		pending.Ends, pending.RetryAfter = "somebody mends what it needs and deletes it, so that it is made anew; or changes it in the sources", everyFailure
	}
	return pending
}
