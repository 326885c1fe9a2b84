package kubeapi

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxSlices of endpoints are read of a Service.
const maxSlices = 100

// HasReadyEndpoint reports whether something behind a Service is ready; also where the identity may
// not know, and where the Service names a host elsewhere, of which the cluster knows nothing.
func (s *Server) HasReadyEndpoint(ctx context.Context, namespace, name string) (bool, error) {
	services := s.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"}).Namespace(namespace)
	service, err := services.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	}
	if kind, _, _ := unstructured.NestedString(service.Object, "spec", "type"); kind == "ExternalName" {
		return true, nil
	}
	slices := s.objects.Resource(schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}).Namespace(namespace)
	list, err := slices.List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + name, Limit: maxSlices})
	if apierrors.IsForbidden(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, slice := range list.Items {
		endpoints, _, _ := unstructured.NestedSlice(slice.Object, "endpoints")
		for _, one := range endpoints {
			endpoint, _ := one.(map[string]any)
			if ready, ok, _ := unstructured.NestedBool(endpoint, "conditions", "ready"); ready || !ok { // Not said: it is.
				return true, nil
			}
		}
	}
	return false, nil
}
