package kubeobject

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lehr.dev/plugins/kubernetes/kubeapi"
	"lehr.dev/plugins/kubernetes/objectdiff"
	"lehr.dev/sdk/serve"
)

// planChange asks the server what it would make of the object, and lists what would change
// of the fields that intent names or that are ours.
func (l *look) planChange(ctx context.Context) (err error) {
	if l.sending, l.unmanaged, err = l.sent(l.live, l.managers()); err != nil {
		return err
	}
	l.predicted, err = l.predict(ctx)
	switch {
	case apierrors.IsInvalid(err) && l.place.WouldAccept(ctx, l.wanted) && l.planReplacement(ctx, err):
		return nil
	case l.connection.server.RefusesChange(ctx, l.place, l.sending, err):
		return l.planRefused(ctx, err)
	case err != nil:
		return err
	}
	compared, err := objectdiff.Compare(l.live, l.predicted, l.managers())
	if err != nil || len(compared.Changes) == 0 {
		return err
	}
	if err := l.confirm(ctx, compared.Changes); err != nil {
		return err
	}
	l.plan.Action = serve.ActionUpdate
	for _, change := range compared.Changes {
		field := l.shown(change)
		field.Reason = l.autoscalerNote(ctx, field.Path)
		l.plan.Changes = append(l.plan.Changes, field)
	}
	for _, change := range compared.Others {
		field := l.shown(change)
		field.Reason = "not of intent: the cluster would change it with this"
		l.unmanaged = append(l.unmanaged, field)
	}
	l.plan = serve.Bound(l.plan)
	return nil
}

// autoscalerNote says of a number of replicas that is to change which autoscaler sets it. One that
// intent has makes the number production's own (Unmanaged), so this one is somebody else's.
func (l *look) autoscalerNote(ctx context.Context, path string) string {
	if path != "spec.replicas" {
		return ""
	}
	name := l.connection.server.Autoscaler(ctx, l.live)
	if name == "" {
		return ""
	}
	return fmt.Sprintf("the HorizontalPodAutoscaler %s in the cluster sets it, too: leave the field to it by lehr.dev/unmanaged: spec.replicas, or take the autoscaler away", name)
}

// predict asks what the server would make of the object, and, where managers that count as us
// own what intent no longer names, what becomes of it without that: the server may put a
// default there.
func (l *look) predict(ctx context.Context) (*unstructured.Unstructured, error) {
	predicted, err := l.place.Predict(ctx, l.sending, l.live)
	if err != nil || !objectdiff.HasAdopted(l.live, l.managers()) {
		return predicted, err
	}
	without, removes, err := objectdiff.WithoutDropped(l.live, predicted, l.managers())
	if err != nil || !removes {
		return predicted, err
	}
	final, err := l.place.PredictMerge(ctx, l.live, objectdiff.MergePatch(l.live.Object, without.Object))
	if err != nil {
		return nil, fmt.Errorf("asking what becomes of it without the fields that intent no longer names: %w", err)
	}
	final.SetManagedFields(predicted.GetManagedFields()) // Which fields intent names.
	return final, nil
}

// confirm asks again: what the server answers otherwise each time is no prediction.
func (l *look) confirm(ctx context.Context, changes []objectdiff.Change) error {
	again, err := l.predict(ctx)
	if err != nil {
		return err
	}
	compared, err := objectdiff.Compare(l.live, again, l.managers())
	if err != nil {
		return err
	}
	shown := func(change objectdiff.Change) string {
		return objectdiff.Text(change.Path) + ": " + objectdiff.Show(change.Target, change.HasTarget)
	}
	for _, pair := range [][2][]objectdiff.Change{{changes, compared.Changes}, {compared.Changes, changes}} {
		for _, change := range pair[0] {
			if !slices.ContainsFunc(pair[1], func(other objectdiff.Change) bool { return shown(other) == shown(change) }) {
				return fmt.Errorf("two dry runs predict different values of the field %s: something that admits objects, such as a webhook, gives another one each time", objectdiff.Text(change.Path))
			}
		}
	}
	return nil
}

// planReplacement is made where the server refuses the change and would accept the object
// anew: a field cannot be changed in place. It reports whether such a field differs.
func (l *look) planReplacement(ctx context.Context, refusal error) bool {
	causes := kubeapi.Causes(refusal)
	l.predicted = nil
	why := "it cannot be changed in place: "
	if l.hasEndedRun() {
		why = "the Job has ended, and is made anew, for this cannot be changed in place: "
	}
	for _, change := range objectdiff.Named(l.live.Object, l.sending.Object) {
		field := l.shown(change)
		field.Destructive, field.Reason = !l.hasEndedRun(), why+refusal.Error()
		if words, ok := causes[field.Path]; ok {
			field.Reason = why + words
		}
		l.plan.Changes = append(l.plan.Changes, field)
	}
	if len(l.plan.Changes) == 0 {
		return false
	}
	l.plan.Changes[0].Reason += l.deletionNote(ctx)
	// Nothing is lost with a Job that has ended, so that is no replacement for which people are asked.
	l.replaces, l.plan.Action = true, serve.ActionReplace
	if l.hasEndedRun() {
		l.plan.Action = serve.ActionUpdate
	}
	l.plan = serve.Bound(l.plan)
	return true
}

// planCreation lists what intent says. The server says only whether it would accept it: a
// note, so that the plan is the same before and after its namespace or its kind is there. A push
// does not ask: its write is answered so, too.
func (l *look) planCreation(ctx context.Context, why purpose) error {
	if err := l.readCallees(ctx); err != nil {
		return err
	}
	l.sending, l.predictedAt = l.wanted, time.Now()
	l.note = l.alone
	if l.alone == "" && why == isAnswered || !l.place.Served {
		l.note = l.creationNote(ctx)
	}
	if l.unreadyCallee != "" {
		l.note = strings.TrimPrefix(l.note+"; "+l.unreadyCallee, "; ")
	}
	l.plan.Action = serve.ActionCreate
	for _, change := range objectdiff.Fields(l.wanted.Object) {
		field := l.shown(change)
		if field.Path == "metadata.name" {
			field.Reason = l.note
		}
		l.plan.Changes = append(l.plan.Changes, field)
	}
	l.plan = serve.Bound(l.plan)
	return nil
}

func (l *look) creationNote(ctx context.Context) string {
	if l.otherVersion != "" {
		return l.otherVersion
	}
	if !l.place.Served {
		return fmt.Sprintf("not asked yet: the cluster has no kind %s in %s", l.payload.Kind, l.payload.ApiVersion)
	}
	_, err := l.place.Predict(ctx, l.wanted, nil)
	switch {
	case err == nil:
		return ""
	case kubeapi.MissingNamespace(err):
		return fmt.Sprintf("not asked yet: Namespace %s is missing", l.payload.Namespace)
	}
	return refusalNote("the cluster would refuse it: ", err)
}

// refusalNote says what a dry run was answered. A bad request is no verdict about the object:
// a webhook may take no dry runs.
func refusalNote(verdict string, err error) string {
	if apierrors.IsBadRequest(err) {
		verdict = "asked by a dry run, the cluster answered: "
	}
	return verdict + err.Error()
}
