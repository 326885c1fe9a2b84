package kubeobject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lehr.dev/plugins/kubernetes/kubeapi"
	"lehr.dev/plugins/kubernetes/objectdiff"
	"lehr.dev/sdk/serve"
)

const (
	// mostHeld objects that hold data are named in a plan. With more, nobody could read what
	// they approve.
	mostHeld = 2000
	// mostCounted objects of another kind are counted.
	mostCounted = 500
)

var (
	claims  = kubeapi.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, Kind: "PersistentVolumeClaim"}
	secrets = kubeapi.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: "Secret"}
)

// counted are kinds whose objects go with a namespace and hold no data of their own. How many
// there are is a note.
var counted = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "services"}, {Version: "v1", Resource: "serviceaccounts"},
	{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "statefulsets"}, {Group: "apps", Version: "v1", Resource: "daemonsets"},
	{Group: "batch", Version: "v1", Resource: "jobs"}, {Group: "batch", Version: "v1", Resource: "cronjobs"}, {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
}

// takesAlong says what goes with an object of a kind.
var takesAlong = map[string]string{
	"Namespace":                "everything in the namespace is deleted with it",
	"CustomResourceDefinition": "every object of the kind, in all namespaces, is deleted with it",
	"PersistentVolumeClaim":    "what is on the volume may be deleted with it, as its storage class says",
}

// planTurndown names what goes, by its UID, and each object that holds data and goes with it:
// what comes in its place, or beside it, needs another approval. What else goes is counted in
// a note.
func (l *look) planTurndown(ctx context.Context) error {
	if l.otherVersion != "" {
		return errors.New(l.otherVersion)
	}
	if l.live == nil {
		return nil
	}
	held, note, err := l.listHeld(ctx)
	if err != nil {
		return fmt.Errorf("naming the data that is deleted with it: %w", err)
	}
	reason := strings.TrimPrefix(takesAlong[l.payload.Kind]+note+l.deletionNote(ctx), "; ")
	l.plan = serve.Plan{Action: serve.ActionDelete, Changes: []serve.FieldChange{
		{Path: "metadata.name", Current: objectdiff.Show(l.name(), true), Destructive: true, Reason: reason},
		{Path: "metadata.uid", Current: objectdiff.Show(string(l.live.GetUID()), true), Destructive: true},
	}}
	if volume, _, _ := unstructured.NestedString(l.live.Object, "spec", "volumeName"); l.payload.Kind == claims.Kind && volume != "" {
		l.plan.Changes = append(l.plan.Changes, serve.FieldChange{Path: "spec.volumeName", Current: objectdiff.Show(volume, true), Destructive: true})
	}
	for _, name := range held {
		l.plan.Changes = append(l.plan.Changes, serve.FieldChange{
			Path: fmt.Sprintf("holds[%q]", name), Current: objectdiff.Show(name, true), Destructive: true, Reason: "it holds data, and is deleted with " + l.name(),
		})
	}
	l.plan = serve.Bound(l.plan)
	return nil
}

// listHeld returns the objects with data that are deleted with this one, as Kind.group name, and a
// note of how much else is.
func (l *look) listHeld(ctx context.Context) (names []string, note string, err error) {
	switch l.kind().GroupKind() {
	case schema.GroupKind{Kind: "Namespace"}:
		return l.listHeldInNamespace(ctx)
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		names, err = l.listHeldByDefinition(ctx)
		return names, "", err
	}
	return nil, "", nil
}

func (l *look) listHeldInNamespace(ctx context.Context) (names []string, note string, err error) {
	server, namespace := l.connection.server, l.payload.Name
	custom, err := server.CustomResources(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, resource := range append([]kubeapi.Resource{claims, secrets}, custom...) {
		if names, err = l.addHeld(ctx, names, resource, namespace); err != nil {
			return nil, "", err
		}
	}
	var counts []string
	for _, resource := range counted {
		listed, more, err := server.Names(ctx, resource, namespace, mostCounted)
		switch {
		case err != nil:
			counts = append(counts, resource.Resource+" not counted")
		case more:
			counts = append(counts, fmt.Sprintf("over %d %s", mostCounted, resource.Resource))
		case len(listed) > 0:
			counts = append(counts, fmt.Sprintf("%d %s", len(listed), resource.Resource))
		}
	}
	if len(counts) > 0 {
		note = ", among it " + strings.Join(counts, ", ")
	}
	return names, note, nil
}

// listHeldByDefinition returns the objects of the kind that a definition defines.
func (l *look) listHeldByDefinition(ctx context.Context) ([]string, error) {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(l.live.Object, append([]string{"spec"}, path...)...)
		return value
	}
	versions, _, _ := unstructured.NestedSlice(l.live.Object, "spec", "versions")
	for _, one := range versions {
		version, _ := one.(map[string]any)
		name, _ := version["name"].(string)
		if version["served"] != true || name == "" {
			continue
		}
		resource := kubeapi.Resource{Kind: text("names", "kind") + "." + text("group")}
		resource.GroupVersionResource = schema.GroupVersionResource{Group: text("group"), Version: name, Resource: text("names", "plural")}
		names, err := l.addHeld(ctx, nil, resource, "")
		if apierrors.IsNotFound(err) {
			return nil, nil // The definition is not in force, so no object of it was taken.
		}
		return names, err
	}
	return nil, fmt.Errorf("no version of the kind %s is served, so its objects cannot be listed: serve one, or delete the definition by hand", text("names", "kind"))
}

// addHeld adds the names of a resource in a namespace, or in all.
func (l *look) addHeld(ctx context.Context, names []string, resource kubeapi.Resource, namespace string) ([]string, error) {
	listed, more, err := l.connection.server.Names(ctx, resource.GroupVersionResource, namespace, mostHeld-len(names))
	if err != nil {
		return nil, err
	}
	if more {
		return nil, fmt.Errorf("more than %d objects hold data: delete some of them first, so that people can read what they approve", mostHeld)
	}
	for _, name := range listed {
		names = append(names, resource.Kind+" "+name)
	}
	slices.Sort(names)
	return names, nil
}

// deletionNote says, after what else is said, that the server would refuse to delete the
// object; empty: it would not, or may not be asked. It is no part of what is approved.
func (l *look) deletionNote(ctx context.Context) string {
	if l.alone != "" {
		return ""
	}
	if err := l.place.TryDelete(ctx, l.live); err != nil {
		return "; " + refusalNote("the cluster would refuse to delete it: ", err)
	}
	return ""
}
