package cluster

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/kubekind"
)

const (
	// metadataOnly asks for an object without its content.
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	// mostOwners is how far owners are followed.
	mostOwners = 8
	// usualNamespace is that of objects that name none.
	usualNamespace = "default"
)

// Owner is an object that owns another one.
type Owner struct{ Kind, Group, Namespace, Name string }

// Subject is the object whose owners are asked for.
type Subject struct {
	// Kinds that it may be of; the first of which there is an object counts.
	Kinds []kubekind.Kind
	// Namespace; empty: default.
	Namespace, Name string
}

// metadata is what is read of an object: nothing of its content.
type metadata struct {
	Metadata struct {
		OwnerReferences []reference `json:"ownerReferences"`
	} `json:"metadata"`
}

// reference to an owner.
type reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Controller bool   `json:"controller"`
}

// Owners asks the cluster of a kubeconfig who owns an object, from its own owner on upwards,
// by the references to what controls it. The empty path is the usual one of kubectl, the
// empty context the current one. Nothing is written, and only metadata is read.
func Owners(ctx context.Context, path, name string, subject Subject) ([]Owner, error) {
	server, err := connect(ctx, usual(path), name, false)
	if err != nil {
		return nil, err
	}
	defer server.client.CloseIdleConnections()
	s := &survey{server: server}
	namespace := subject.Namespace
	if namespace == "" {
		namespace = usualNamespace
	}
	current, err := s.readFirst(ctx, subject.Kinds, namespace, subject.Name)
	if err != nil {
		return nil, err
	}
	var owners []Owner
	for len(owners) < mostOwners {
		owner, ok := current.controller()
		if !ok {
			break
		}
		resource, err := s.resourceOf(ctx, owner.APIVersion, owner.Kind)
		if err != nil {
			return owners, err
		}
		found := Owner{Kind: owner.Kind, Group: kubekind.GroupOf(owner.APIVersion), Name: owner.Name}
		if resource.Namespaced {
			found.Namespace = namespace // Owners are in the namespace of what they own, or in none.
		}
		owners = append(owners, found)
		current = metadata{}
		if err := s.get(ctx, objectPath(resource, found.Namespace, owner.Name), nil, metadataOnly, &current); err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Denied) {
			return owners, err
		}
	}
	return owners, nil
}

// controller is who controls the object, or else its only owner.
func (m metadata) controller() (reference, bool) {
	for _, r := range m.Metadata.OwnerReferences {
		if r.Controller {
			return r, true
		}
	}
	if len(m.Metadata.OwnerReferences) == 1 {
		return m.Metadata.OwnerReferences[0], true
	}
	return reference{}, false
}

// readFirst reads the object of the first kind that has one of the name.
func (s *survey) readFirst(ctx context.Context, kinds []kubekind.Kind, namespace, name string) (found metadata, err error) {
	for _, kind := range kinds {
		version := "v1"
		if kind.Group != "" {
			var group struct{ PreferredVersion struct{ GroupVersion string } }
			if err = s.get(ctx, "/apis/"+kind.Group, nil, "", &group); err != nil {
				continue
			}
			version = group.PreferredVersion.GroupVersion
		}
		r := resource{Name: kind.Plural, Namespaced: kind.Namespaced, version: version}
		if !kind.Namespaced {
			namespace = ""
		}
		if err = s.get(ctx, objectPath(r, namespace, name), nil, metadataOnly, &found); err == nil {
			return found, nil
		}
	}
	if fault.Is(err, fault.NotFound) {
		return found, fault.New(fault.NotFound, "the cluster has no such object %q in the namespace %s", name, namespace).
			WithHint("name its namespace with -n, and its cluster with --kubeconfig or --context")
	}
	return found, err
}

// resourceOf a kind, as the cluster names it.
func (s *survey) resourceOf(ctx context.Context, version, kind string) (resource, error) {
	path := "/apis/" + version
	if !strings.Contains(version, "/") {
		path = "/api/" + version
	}
	var list struct{ Resources []resource }
	if err := s.get(ctx, path, nil, "", &list); err != nil {
		return resource{}, err
	}
	for _, r := range list.Resources {
		if r.Kind == kind && !strings.Contains(r.Name, "/") {
			r.version = version
			return r, nil
		}
	}
	return resource{}, fault.New(fault.NotFound, "the cluster has no kind %s in %s, which owns the object", kind, version).WithHint("its definition may have gone: look with kubectl")
}

// objectPath is the path of an object.
func objectPath(r resource, namespace, name string) string {
	path := "/apis/" + r.version
	if r.group() == "" {
		path = "/api/" + r.version
	}
	if namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	return path + "/" + r.Name + "/" + url.PathEscape(name)
}

// Objects lists the objects of the kinds that are wanted, by group and kind, in the cluster of a
// kubeconfig, as JSON has them. A program by which its user logs in is run. Secrets are never
// among them, and nothing is written.
func Objects(ctx context.Context, path, name string, isWanted func(group, kind string) bool) (objects []map[string]any, err error) {
	return ObjectsIn(ctx, path, name, nil, isWanted)
}

// ObjectsIn lists those that are in namespaces; nil: all.
func ObjectsIn(ctx context.Context, path, name string, namespaces []string, isWanted func(group, kind string) bool) (objects []map[string]any, err error) {
	server, err := connect(ctx, usual(path), name, true)
	if err != nil {
		return nil, err
	}
	defer server.client.CloseIdleConnections()
	s := &survey{server: server, surveyOptions: surveyOptions{namespaces: namespaces}}
	resources, err := s.discover(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range resources {
		if strings.Contains(r.Name, "/") || r.full() == "Secret" || !slices.Contains(r.Verbs, "list") || !isWanted(r.group(), r.Kind) {
			continue
		}
		s.each = func(item map[string]any) {
			item["apiVersion"], item["kind"] = r.version, r.Kind // Lists leave them out.
			objects = append(objects, item)
		}
		if err := s.list(ctx, r); err != nil {
			return nil, err
		}
	}
	if len(s.leftOut) > 0 {
		return nil, fault.New(fault.Denied, "%s: %s", s.leftOut[0].What, s.leftOut[0].Why).WithHint("give that user a role that may list it, in all namespaces")
	}
	return objects, nil
}
