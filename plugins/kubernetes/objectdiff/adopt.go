package objectdiff

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// HasAdopted reports whether a manager beside our own that counts as us has fields of an
// object.
func HasAdopted(object *unstructured.Unstructured, managers Managers) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return managers.isAdopted(entry, object.GetAPIVersion())
	})
}

// WithoutDropped is what is predicted, without what the adopted managers own and intent no
// longer names; nothing else has it. removes is false where there is no such field.
func WithoutDropped(live, predicted *unstructured.Unstructured, managers Managers) (without *unstructured.Unstructured, removes bool, err error) {
	before, err := ReadOwners(live, managers)
	if err != nil {
		return nil, false, err
	}
	after, err := ReadOwners(predicted, Managers{Own: managers.Own})
	if err != nil {
		return nil, false, err
	}
	kept := after.applied
	for _, other := range before.others {
		kept = kept.Union(other.fields)
	}
	var dropped []fieldpath.Path
	for path := range before.applied.Difference(kept).All() {
		if !touches(kept, path) {
			dropped = append(dropped, path.Copy())
		}
	}
	// What is within another goes last: without its key an element is not found.
	slices.SortFunc(dropped, func(a, b fieldpath.Path) int { return len(a) - len(b) })
	without = predicted.DeepCopy()
	for _, path := range dropped {
		if _, ok := Get(without.Object, path); ok {
			drop(without.Object, path)
			removes = true
		}
	}
	return without, removes, nil
}

// drop takes a field or an element of a list away.
func drop(object map[string]any, path fieldpath.Path) {
	last := path[len(path)-1]
	if last.FieldName != nil {
		Remove(object, path)
		return
	}
	list, _ := Get(object, path[:len(path)-1])
	elements, ok := list.([]any)
	if i := find(elements, last); ok && i >= 0 {
		Set(object, path[:len(path)-1], slices.Delete(slices.Clone(elements), i, i+1))
	}
}

// TakenOver are an object's managers after our own has the fields of those that it adopts.
func TakenOver(object *unstructured.Unstructured, managers Managers) ([]metav1.ManagedFieldsEntry, error) {
	fields := fieldpath.NewSet()
	var entries []metav1.ManagedFieldsEntry
	own := metav1.ManagedFieldsEntry{Manager: managers.Own, Operation: metav1.ManagedFieldsOperationApply, APIVersion: object.GetAPIVersion(), FieldsType: "FieldsV1"}
	for _, entry := range object.GetManagedFields() {
		if !managers.isOwn(entry) && !managers.isAdopted(entry, object.GetAPIVersion()) {
			entries = append(entries, entry)
			continue
		}
		some := fieldpath.NewSet()
		if entry.FieldsV1 != nil {
			if err := some.FromJSON(bytes.NewReader(entry.FieldsV1.Raw)); err != nil {
				return nil, fmt.Errorf("reading which fields %q manages: %w", entry.Manager, err)
			}
		}
		fields, own.Time = fields.Union(some), entry.Time
	}
	text, err := fields.ToJSON()
	if err != nil {
		return nil, err
	}
	own.FieldsV1 = &metav1.FieldsV1{Raw: text}
	return append(entries, own), nil
}

// MergePatch is what a JSON merge patch says to make one object, without what the cluster
// writes, of another.
func MergePatch(from, to map[string]any) map[string]any {
	return mergePatch(withoutSystem(from), withoutSystem(to))
}

func mergePatch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, ok := to[name]; !ok {
			patch[name] = nil
		}
	}
	for name, wanted := range to {
		current, ok := from[name]
		inner, isMap := wanted.(map[string]any)
		before, wasMap := current.(map[string]any)
		switch {
		case ok && same(current, wanted):
		case isMap && wasMap:
			patch[name] = mergePatch(before, inner)
		default:
			patch[name] = wanted
		}
	}
	return patch
}
