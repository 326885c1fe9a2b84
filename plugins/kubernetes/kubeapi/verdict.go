package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RefusesChange reports whether a failed prediction is the server's verdict about the object:
// intent, a policy or a quota has to change before it is another one. A missing right, a
// webhook that declares to take no dry runs and a server in trouble are none. It asks the server where the
// error alone does not tell.
func (s *Server) RefusesChange(ctx context.Context, place Place, object *unstructured.Unstructured, failure error) bool {
	switch {
	case apierrors.IsInvalid(failure), apierrors.IsRequestEntityTooLargeError(failure):
		return true
	case apierrors.IsForbidden(failure):
		// Admission answers as authorization does. Whoever has the right was refused by admission.
		may, err := s.mayPatch(ctx, place, object)
		return err == nil && may
	}
	status, ok := errors.AsType[*apierrors.StatusError](failure)
	switch {
	case !ok:
		return false
	case status.ErrStatus.Code == http.StatusBadRequest:
		// A webhook that denies and gives no code of its own. The server itself gives a reason, also
		// where a webhook says that it takes no dry runs.
		return status.ErrStatus.Reason == metav1.StatusReasonUnknown
	case status.ErrStatus.Code == http.StatusInternalServerError:
		return place.cannotDecode(ctx, object)
	}
	return false
}

// cannotDecode reports whether an object has a field that its kind does not, or a value of
// another type. An apply of one is answered 500, as a server in trouble answers; a creation is
// answered 400, before any webhook is called.
func (p Place) cannotDecode(ctx context.Context, object *unstructured.Unstructured) bool {
	_, err := p.objects.Create(ctx, object.DeepCopy(), metav1.CreateOptions{
		FieldManager: Manager, DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	return apierrors.IsBadRequest(err)
}

// mayPatch asks whether authorization lets this identity patch an object.
func (s *Server) mayPatch(ctx context.Context, place Place, object *unstructured.Unstructured) (bool, error) {
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{
			"verb": "patch", "group": place.resource.Group, "version": place.resource.Version, "resource": place.resource.Resource,
			"namespace": object.GetNamespace(), "name": object.GetName(),
		}},
	}}
	reviews := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
	answer, err := s.objects.Resource(reviews).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking what this identity may do: %w", err)
	}
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, err
}
