package kubeapi

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

const (
	// listPage is how many objects one answer lists at most.
	listPage = 500
	// listTimeout bounds the request for one page.
	listTimeout = 30 * time.Second
)

// Selection is what a watch follows: all objects of a place, or one of them. Of objects it
// is told the metadata alone.
type Selection struct {
	// Resource names the kind as the server does.
	Resource schema.GroupVersionResource
	objects  metadata.ResourceInterface
	fields   string
}

// Select selects all objects of a place, or the one of a name. Then the identity needs list
// and watch for that name only.
func (p Place) Select(name string) Selection {
	selection := Selection{Resource: p.resource, objects: p.metadata}
	if name != "" {
		selection.fields = fields.OneTermEqualSelector("metadata.name", name).String()
	}
	return selection
}

// SelectAll selects the objects of a kind in all namespaces, in the first of some versions that
// the server has; ok is false where it has the kind in none of them.
func (s *Server) SelectAll(ctx context.Context, kind schema.GroupKind, versions ...string) (selection Selection, ok bool, err error) {
	for _, version := range versions {
		versioned := kind.WithVersion(version)
		resource, ok, err := s.kinds.find(ctx, versioned)
		if err != nil {
			return Selection{}, false, err
		}
		if ok {
			named := versioned.GroupVersion().WithResource(resource.Name)
			return Selection{Resource: named, objects: s.metadata.Resource(named)}, true, nil
		}
	}
	return Selection{}, false, nil
}

// List returns a page of what is there now, as the server's storage has it. after is the
// token that the page before ended with; empty: the first page.
func (s Selection) List(ctx context.Context, after string) (*metav1.PartialObjectMetadataList, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return s.objects.List(ctx, metav1.ListOptions{FieldSelector: s.fields, Limit: listPage, Continue: after})
}

// Watch tells what is written after a version, with bookmarks. The server ends it after
// about so long.
func (s Selection) Watch(ctx context.Context, version string, lasts time.Duration) (watch.Interface, error) {
	seconds := int64(lasts / time.Second)
	return s.objects.Watch(ctx, metav1.ListOptions{
		FieldSelector: s.fields, ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
}
