package kubekind

import (
	"strings"
	"testing"
)

func TestWordsOfKubectl(t *testing.T) {
	berth, ok := Define(map[string]any{"spec": map[string]any{"group": "harbour.example", "scope": "Namespaced", "names": map[string]any{
		"kind": "Berth", "plural": "berths", "singular": "berth", "shortNames": []any{"bt"},
	}}})
	if !ok || !berth.Namespaced {
		t.Fatalf("the definition gives %+v, %v", berth, ok)
	}
	table := NewTable(berth)
	for word, want := range map[string]string{
		"deploy": "Deployment.apps", "Deployment": "Deployment.apps", "deployments": "Deployment.apps", "deployment.apps": "Deployment.apps",
		"deployments.v1.apps": "Deployment.apps", "sts": "StatefulSet.apps", "svc": "Service", "service.v1": "Service", "crd": "CustomResourceDefinition.apiextensions.k8s.io",
		"bt": "Berth.harbour.example", "berth.harbour.example": "Berth.harbour.example", "events": "Event Event.events.k8s.io",
		"deployment.extensions": "", "boat": "",
	} {
		var got []string
		for _, kind := range table.Match(word) {
			got = append(got, kind.Full())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s means %v, want %s", word, got, want)
		}
	}
}

func TestADefinitionThatDefinesNothing(t *testing.T) {
	for _, spec := range []any{nil, "x", map[string]any{"group": "a.b"}, map[string]any{"group": "a.b", "names": map[string]any{"kind": "A"}}} {
		if kind, ok := Define(map[string]any{"spec": spec}); ok {
			t.Errorf("%v defines %+v", spec, kind)
		}
	}
}
