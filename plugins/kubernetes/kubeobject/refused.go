package kubeobject

import (
	"context"

	"lehr.dev/plugins/kubernetes/kubeapi"
	"lehr.dev/plugins/kubernetes/objectdiff"
	"lehr.dev/sdk/serve"
)

// planRefused is the plan of a change that the server would refuse: what intent says otherwise,
// with the server's words. The asset differs, so that a rollout sees a push that fails, and does
// not wait for an answer that never comes. Such a plan is never written: what the server would
// make of it is not known.
func (l *look) planRefused(ctx context.Context, refusal error) error {
	l.refusal = refusal
	if err := l.planAlone(ctx); err != nil {
		return err
	}
	if len(l.plan.Changes) == 0 { // The server would refuse the object as it is, too.
		l.plan.Changes = []serve.FieldChange{{Path: "metadata.name", Current: objectdiff.Show(l.payload.Name, true), Target: objectdiff.Show(l.payload.Name, true)}}
		l.plan.Action = serve.ActionUpdate
	}
	causes := kubeapi.Causes(refusal)
	for i := range l.plan.Changes {
		change := &l.plan.Changes[i]
		if words, ok := causes[change.Path]; ok {
			change.Reason = "the cluster refuses it: " + words
		}
	}
	first := &l.plan.Changes[0]
	if _, ok := causes[first.Path]; !ok {
		first.Reason = "the cluster refuses the change: " + refusal.Error()
	}
	return nil
}
