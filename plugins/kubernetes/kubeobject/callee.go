package kubeobject

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// calleeRetry is how soon it is looked again whether a Service is ready.
const calleeRetry = 2 * time.Second

// callee is a Service that the API server calls because of an object.
type callee struct{ namespace, name string }

// callees of an object: once a webhook's configuration or an APIService is there, the API server calls
// these, and refuses what it would ask them about where nobody answers. A webhook whose failure it is to
// ignore refuses nothing.
func callees(object *unstructured.Unstructured) (found []callee) {
	add := func(service map[string]any) {
		namespace, _ := service["namespace"].(string)
		name, _ := service["name"].(string)
		if one := (callee{namespace, name}); name != "" && namespace != "" {
			found = append(found, one)
		}
	}
	kind := object.GroupVersionKind()
	switch {
	case kind.Group == "admissionregistration.k8s.io" && (kind.Kind == "MutatingWebhookConfiguration" || kind.Kind == "ValidatingWebhookConfiguration"):
		webhooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, one := range webhooks {
			webhook, _ := one.(map[string]any)
			if webhook["failurePolicy"] == "Ignore" {
				continue
			}
			service, _, _ := unstructured.NestedMap(webhook, "clientConfig", "service")
			add(service)
		}
	case kind.Group == "apiregistration.k8s.io" && kind.Kind == "APIService":
		service, _, _ := unstructured.NestedMap(object.Object, "spec", "service")
		add(service)
	}
	return found
}

// readCallees notes which Service that the API server would call because of a new object is not ready.
// An identity that may not read Services or their endpoints is not kept from making it.
func (l *look) readCallees(ctx context.Context) error {
	if l.observed {
		return nil
	}
	for _, one := range callees(l.wanted) {
		ready, err := l.connection.server.HasReadyEndpoint(ctx, one.namespace, one.name)
		if err != nil {
			return fmt.Errorf("asking whether the Service %s/%s is ready, which the API server would call: %w", one.namespace, one.name, err)
		}
		if !ready {
			l.unreadyCallee = fmt.Sprintf("not made yet: Service %s/%s, which the API server would call because of it, has no endpoint that is ready", one.namespace, one.name)
			return nil
		}
	}
	return nil
}
