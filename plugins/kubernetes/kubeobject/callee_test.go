package kubeobject

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWhatTheAPIServerWouldCall: Services that refuse something where they do not answer, and no others.
func TestWhatTheAPIServerWouldCall(t *testing.T) {
	service := map[string]any{"service": map[string]any{"namespace": "harbour", "name": "guard"}}
	for name, one := range map[string]struct {
		object map[string]any
		want   []callee
	}{
		"a webhook": {map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "webhooks": []any{
			map[string]any{"clientConfig": map[string]any{"url": "https://elsewhere.example"}}, map[string]any{"clientConfig": service, "failurePolicy": "Fail"},
		}}, []callee{{"harbour", "guard"}}},
		"one that may fail": {map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "webhooks": []any{
			map[string]any{"clientConfig": service, "failurePolicy": "Ignore"},
		}}, nil},
		"an API":                {map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": service}, []callee{{"harbour", "guard"}}},
		"an API of the server":  {map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": map[string]any{}}, nil},
		"a kind of one's own":   {map[string]any{"apiVersion": "harbour.example/v1", "kind": "APIService", "spec": service}, nil},
		"webhooks that are not": {map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "webhooks": "none"}, nil},
	} {
		if got := callees(&unstructured.Unstructured{Object: one.object}); !slices.Equal(got, one.want) {
			t.Errorf("%s: %v, want %v", name, got, one.want)
		}
	}
}
