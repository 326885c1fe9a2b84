package kubeapi

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxAutoscalers are read of a namespace.
const maxAutoscalers = 100

// Autoscaler names the HorizontalPodAutoscaler of the namespace that scales an object; empty: none of
// the first hundred does, or the server does not tell, as where the identity may not list them.
func (s *Server) Autoscaler(ctx context.Context, object *unstructured.Unstructured) string {
	autoscalers := s.objects.Resource(schema.GroupVersionResource{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers"}).Namespace(object.GetNamespace())
	list, err := autoscalers.List(ctx, metav1.ListOptions{Limit: maxAutoscalers})
	if err != nil {
		return ""
	}
	kind := object.GroupVersionKind()
	for _, one := range list.Items {
		target, _, _ := unstructured.NestedStringMap(one.Object, "spec", "scaleTargetRef")
		group := schema.FromAPIVersionAndKind(target["apiVersion"], target["kind"]).GroupKind()
		if group == kind.GroupKind() && target["name"] == object.GetName() {
			return one.GetName()
		}
	}
	return ""
}
