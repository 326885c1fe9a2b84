package kubeapi

import (
	"context"
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// neverWritten is a resourceVersion that no object has: an apply that names it creates
// an object, and conflicts with whatever is there. So one write creates, is refused where
// an object appeared meanwhile, and records Lehr as who applies the fields. A POST would
// record it as who updates them, with all defaults, and a second write would have to
// mend that.
const neverWritten = "1"

// Get returns an object; nil: there is none, as the API server itself says: a 404 of a
// proxy, or for a kind that has gone, is an error.
func (p Place) Get(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	object, err := p.objects.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return nil, nil
	}
	return object, err
}

// Predict returns what the server would make of an object by Apply, and changes nothing.
func (p Place) Predict(ctx context.Context, object *unstructured.Unstructured, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return p.apply(ctx, object, live, []string{metav1.DryRunAll})
}

// Apply makes the object as it should be. What was read is live; nil: nothing was. Where
// that is so no more, the server answers with a conflict and changes nothing.
func (p Place) Apply(ctx context.Context, object, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return p.apply(ctx, object, live, nil)
}

func (p Place) apply(ctx context.Context, object, live *unstructured.Unstructured, dryRun []string) (*unstructured.Unstructured, error) {
	sent := object.DeepCopy()
	sent.SetResourceVersion(neverWritten)
	if live != nil {
		sent.SetResourceVersion(live.GetResourceVersion())
		sent.SetUID(live.GetUID())
	}
	// Force takes fields from other managers: those of the version that was read, which
	// the plan names.
	return p.objects.Apply(ctx, sent.GetName(), sent, metav1.ApplyOptions{FieldManager: Manager, Force: true, DryRun: dryRun})
}

// PredictMerge returns what the server would make of a version of an object by a JSON merge
// patch, and changes nothing.
func (p Place) PredictMerge(ctx context.Context, live *unstructured.Unstructured, patch map[string]any) (*unstructured.Unstructured, error) {
	return p.merge(ctx, live, patch, []string{metav1.DryRunAll})
}

// SetManagers writes which manager has which fields of the very version that was read, and
// nothing else.
func (p Place) SetManagers(ctx context.Context, live *unstructured.Unstructured, entries []metav1.ManagedFieldsEntry) (*unstructured.Unstructured, error) {
	return p.merge(ctx, live, map[string]any{"metadata": map[string]any{"managedFields": entries}}, nil)
}

func (p Place) merge(ctx context.Context, live *unstructured.Unstructured, patch map[string]any, dryRun []string) (*unstructured.Unstructured, error) {
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["uid"], metadata["resourceVersion"] = string(live.GetUID()), live.GetResourceVersion()
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	return p.objects.Patch(ctx, live.GetName(), types.MergePatchType, text, metav1.PatchOptions{FieldManager: Manager, DryRun: dryRun})
}

// WouldAccept reports whether the server would accept an object if there were none of
// its name: it judges an object before it looks for the name.
func (p Place) WouldAccept(ctx context.Context, object *unstructured.Unstructured) bool {
	_, err := p.objects.Create(ctx, object.DeepCopy(), metav1.CreateOptions{FieldManager: Manager, DryRun: []string{metav1.DryRunAll}})
	return err == nil || apierrors.IsAlreadyExists(err)
}

// Delete asks the server to delete the very version that was read.
func (p Place) Delete(ctx context.Context, live *unstructured.Unstructured, how metav1.DeletionPropagation) error {
	return p.delete(ctx, live, how, nil)
}

// TryDelete returns why the server would refuse to delete an object, and changes nothing.
func (p Place) TryDelete(ctx context.Context, live *unstructured.Unstructured) error {
	return p.delete(ctx, live, metav1.DeletePropagationForeground, []string{metav1.DryRunAll})
}

func (p Place) delete(ctx context.Context, live *unstructured.Unstructured, how metav1.DeletionPropagation, dryRun []string) error {
	uid, version := live.GetUID(), live.GetResourceVersion()
	return p.objects.Delete(ctx, live.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}, PropagationPolicy: &how, DryRun: dryRun,
	})
}

// IsMoved reports whether the server refused a write because production is not what was
// read.
func IsMoved(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// IsConflict reports whether the object is not in the version that was named.
func IsConflict(err error) bool { return apierrors.IsConflict(err) }

// IsRefused reports whether the server judged the object and refused it: asked again it
// says the same, until somebody mends the object, a policy or a permission.
func IsRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsUnsupportedMediaType(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// Causes are the fields that a refusal names, with the server's words on each.
func Causes(err error) map[string]string {
	causes := map[string]string{}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil {
		return causes
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		causes[cause.Field] = cause.Message
	}
	return causes
}

// MissingNamespace reports whether the server refused because the namespace is not there.
func MissingNamespace(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces"
}
