package kubeapi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// mostDefinitions of custom resources are read.
const mostDefinitions = 10_000

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Resource is a kind, as the server names it.
type Resource struct {
	schema.GroupVersionResource
	// Kind as people write it, with its group: Berth.harbour.example.
	Kind string
}

// Names lists the objects of a resource in a namespace, or in all where it is empty, as
// name or namespace/name. more: there are more than so many.
func (s *Server) Names(ctx context.Context, resource schema.GroupVersionResource, namespace string, most int) (names []string, more bool, err error) {
	var objects metadata.ResourceInterface = s.metadata.Resource(resource)
	if namespace != "" {
		objects = s.metadata.Resource(resource).Namespace(namespace)
	}
	after := ""
	for {
		page, err := Selection{Resource: resource, objects: objects}.List(ctx, after)
		if err != nil {
			return nil, false, fmt.Errorf("listing the names of %s: %w", resource.GroupResource(), err)
		}
		for _, item := range page.Items {
			if len(names) == most {
				return names, true, nil
			}
			name := item.Name
			if namespace == "" && item.Namespace != "" {
				name = item.Namespace + "/" + name
			}
			names = append(names, name)
		}
		if after = page.Continue; after == "" {
			return names, false, nil
		}
	}
}

// CustomResources are the kinds with a namespace that definitions define, each in a version
// that the server has, in the order of their names.
func (s *Server) CustomResources(ctx context.Context) (resources []Resource, err error) {
	defined, more, err := s.Names(ctx, definitions, "", mostDefinitions)
	if err != nil {
		return nil, err
	}
	if more {
		return nil, fmt.Errorf("the cluster has more than %d definitions of custom resources", mostDefinitions)
	}
	byGroup := map[string]map[string]Resource{}
	slices.Sort(defined)
	for _, name := range defined {
		plural, group, _ := strings.Cut(name, ".")
		if _, ok := byGroup[group]; !ok {
			if byGroup[group], err = s.namespacedOf(ctx, group); err != nil {
				return nil, fmt.Errorf("asking which kinds %s has: %w", group, err)
			}
		}
		// One that is missing has no namespace, or its definition is not in force, and no
		// object of it was taken.
		if resource, ok := byGroup[group][plural]; ok {
			resources = append(resources, resource)
		}
	}
	return resources, nil
}

// namespacedOf a group are its kinds with a namespace by their plurals, in the version that
// the server prefers of those that have it; none where the server has no such group.
func (s *Server) namespacedOf(ctx context.Context, group string) (map[string]Resource, error) {
	var found metav1.APIGroup
	err := s.plain.Get().AbsPath("/apis/" + group).Do(ctx).Into(&found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	resources := map[string]Resource{}
	for _, version := range append([]metav1.GroupVersionForDiscovery{found.PreferredVersion}, found.Versions...) {
		kinds, err := s.listKinds(ctx, schema.GroupVersion{Group: group, Version: version.Version})
		if err != nil {
			return nil, err
		}
		for _, kind := range kinds {
			if _, ok := resources[kind.Name]; !ok && kind.Namespaced {
				named := schema.GroupVersionResource{Group: group, Version: version.Version, Resource: kind.Name}
				resources[kind.Name] = Resource{named, kind.Kind + "." + group}
			}
		}
	}
	return resources, nil
}
