// Package objectdiff compares Kubernetes objects field by field, where fields are those
// that the API server records of each manager (managedFields): it knows which lists are
// of elements with keys, and which are one value. It is pure. Only package kubeobject
// calls it.
package objectdiff

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Owners are the managers of an object's fields, as the API server records them.
type Owners struct {
	// applied are the fields of who counts as us; others those of each other entry, by the
	// manager's name.
	applied *fieldpath.Set
	others  []owner
}

type owner struct {
	name   string
	fields *fieldpath.Set
}

// Managers are who counts as us: the manager by which all is applied, and others that wrote
// the object before.
type Managers struct {
	Own     string
	Adopted []string
}

// isOwn reports whether an entry is that of our own applies, isAdopted whether it is one of
// who counts as us beside that. Fields in another version of the kind cannot be taken over.
func (m Managers) isOwn(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == m.Own && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

func (m Managers) isAdopted(entry metav1.ManagedFieldsEntry, version string) bool {
	return entry.Subresource == "" && entry.APIVersion == version && slices.Contains(m.Adopted, entry.Manager)
}

// ReadOwners reads the managers of an object, as who counts as us sees them.
func ReadOwners(object *unstructured.Unstructured, managers Managers) (Owners, error) {
	owners := Owners{applied: fieldpath.NewSet()}
	for _, entry := range object.GetManagedFields() {
		if entry.FieldsV1 == nil {
			continue
		}
		fields := fieldpath.NewSet()
		if err := fields.FromJSON(bytes.NewReader(entry.FieldsV1.Raw)); err != nil {
			return owners, fmt.Errorf("reading which fields %q manages: %w", entry.Manager, err)
		}
		if managers.isOwn(entry) || managers.isAdopted(entry, object.GetAPIVersion()) {
			owners.applied = owners.applied.Union(fields)
			continue
		}
		owners.others = append(owners.others, owner{entry.Manager, fields})
	}
	return owners, nil
}

// Writers names the other managers of a field, or of what is below or above it.
func (o Owners) Writers(field fieldpath.Path) string {
	var names []string
	for _, other := range o.others {
		if touches(other.fields, field) && !slices.Contains(names, other.name) {
			names = append(names, other.name)
		}
	}
	slices.Sort(names)
	text := strings.Join(names, ", ")
	return strings.ToValidUTF8(text[:min(len(text), maxWriter)], "")
}

// maxWriter is the most that the protocol takes.
const maxWriter = 256

// touches reports whether a set has the field, a field below it, or a whole value of which
// it is part.
func touches(set *fieldpath.Set, field fieldpath.Path) bool {
	for i, element := range field {
		if i == len(field)-1 {
			below, ok := set.Children.Get(element)
			return set.Members.Has(element) || ok && !below.Empty()
		}
		below, ok := set.Children.Get(element)
		if !ok {
			// A member without children is a whole value.
			return set.Members.Has(element)
		}
		set = below
	}
	return false
}

// HasOther reports whether another manager has a field.
func (o Owners) HasOther(field fieldpath.Path) bool { return o.Writers(field) != "" }
