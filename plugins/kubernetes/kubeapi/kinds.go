package kubeapi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

const (
	// kindAge is how long a kind that was there counts as there: a definition may go, and
	// come back with another scope.
	kindAge = 10 * time.Minute
	// absentAge is how long one that was not there counts as absent.
	absentAge = 10 * time.Second
)

// kinds remembers which kinds a server has. A version of a group is asked about when a
// kind of it is needed, so one aggregated API that fails harms no other.
type kinds struct {
	list func(context.Context, schema.GroupVersion) ([]metav1.APIResource, error)

	mutex sync.Mutex
	known map[schema.GroupVersion]*versionKinds
}

// versionKinds are those of one version. Its mutex is held while the server is asked.
type versionKinds struct {
	mutex sync.Mutex
	read  time.Time
	kinds map[string]metav1.APIResource
}

// find returns the resource of a kind; ok is false where the server has no such kind.
func (k *kinds) find(ctx context.Context, kind schema.GroupVersionKind) (resource metav1.APIResource, ok bool, err error) {
	k.mutex.Lock()
	if k.known == nil {
		k.known = map[schema.GroupVersion]*versionKinds{}
	}
	version := k.known[kind.GroupVersion()]
	if version == nil {
		version = &versionKinds{}
		k.known[kind.GroupVersion()] = version
	}
	k.mutex.Unlock()

	version.mutex.Lock()
	defer version.mutex.Unlock()
	resource, ok = version.kinds[kind.Kind]
	age := time.Since(version.read)
	if ok && age < kindAge || !version.read.IsZero() && !ok && age < absentAge {
		return resource, ok, nil
	}
	listed, err := k.list(ctx, kind.GroupVersion())
	if err != nil {
		return resource, false, fmt.Errorf("asking which kinds %s has: %w", kind.GroupVersion(), err)
	}
	version.read, version.kinds = time.Now(), map[string]metav1.APIResource{}
	for _, one := range listed {
		if !strings.Contains(one.Name, "/") { // Not a part of an object, as deployments/scale is.
			version.kinds[one.Kind] = one
		}
	}
	resource, ok = version.kinds[kind.Kind]
	return resource, ok, nil
}

func (k *kinds) forget(version schema.GroupVersion) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	delete(k.known, version)
}

// Forget has the kinds of a version asked again at the next need: one may have gone.
func (s *Server) Forget(version schema.GroupVersion) { s.kinds.forget(version) }

// Place is where objects of one kind and namespace are.
type Place struct {
	// Served: the server has the kind. Else there are no objects of it.
	Served   bool
	resource schema.GroupVersionResource
	objects  dynamic.ResourceInterface
	metadata metadata.ResourceInterface
}

// Find returns the place of an object. An error that is no answer of the server says that
// intent names a namespace where the kind has none, or the reverse.
func (s *Server) Find(ctx context.Context, kind schema.GroupVersionKind, namespace string) (Place, error) {
	resource, ok, err := s.kinds.find(ctx, kind)
	if err != nil || !ok {
		return Place{}, err
	}
	named := kind.GroupVersion().WithResource(resource.Name)
	objects, metadata := s.objects.Resource(named), s.metadata.Resource(named)
	switch {
	case resource.Namespaced && namespace == "":
		return Place{}, fmt.Errorf("a %s is in a namespace here, and intent names none: write metadata.namespace", kind.Kind)
	case !resource.Namespaced && namespace != "":
		return Place{}, fmt.Errorf("a %s is in no namespace here, and intent names %s: write with: {cluster_scoped: %s}", kind.Kind, namespace, kind.GroupKind())
	case resource.Namespaced:
		return Place{Served: true, resource: named, objects: objects.Namespace(namespace), metadata: metadata.Namespace(namespace)}, nil
	}
	return Place{Served: true, resource: named, objects: objects, metadata: metadata}, nil
}
