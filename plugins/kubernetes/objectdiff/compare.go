package objectdiff

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Change is one field in which two objects differ.
type Change struct {
	Path fieldpath.Path
	// Current and Target are values of JSON; what is not there is nil, and its Has is
	// false.
	Current, Target       any
	HasCurrent, HasTarget bool
	// Writer names the managers of the current value beside us; empty: there are none.
	Writer string
}

// Comparison of what is there with what the API server would make of it.
type Comparison struct {
	// Changes of fields that intent names or that we own, in the order of their paths.
	Changes []Change
	// Others are changes that come with them, of fields that are nobody's business here.
	Others []Change
}

// Compare compares what is there with what the server predicts. Both tell which fields we
// own: now, and after the change, which are all that intent names. None of these is left
// out, whoever would change it.
func Compare(live, predicted *unstructured.Unstructured, managers Managers) (Comparison, error) {
	liveOwners, err := ReadOwners(live, managers)
	if err != nil {
		return Comparison{}, err
	}
	predictedOwners, err := ReadOwners(predicted, managers)
	if err != nil {
		return Comparison{}, err
	}
	owned := liveOwners.applied.Union(predictedOwners.applied)
	var all Comparison
	for _, path := range sortedLeaves(owned) {
		current, hasCurrent := Get(live.Object, path)
		target, hasTarget := Get(predicted.Object, path)
		all.Changes = appendChanges(all.Changes, path, current, target, hasCurrent, hasTarget)
	}
	for i := range all.Changes {
		all.Changes[i].Writer = liveOwners.Writers(all.Changes[i].Path)
	}
	for _, change := range appendChanges(nil, nil, withoutSystem(live.Object), withoutSystem(predicted.Object), true, true) {
		if !covered(all.Changes, change.Path) && !touches(owned, change.Path) {
			all.Others = append(all.Others, change)
		}
	}
	return all, nil
}

// covered reports whether a change, found by position in lists, is told already.
func covered(changes []Change, path fieldpath.Path) bool {
	return slices.ContainsFunc(changes, func(change Change) bool {
		for i, element := range path {
			if element.FieldName == nil {
				return true // Of a list of which we own parts: those are told by their keys.
			}
			if i >= len(change.Path) || change.Path[i].FieldName == nil || *change.Path[i].FieldName != *element.FieldName {
				return false
			}
		}
		return true
	})
}

func sortedLeaves(set *fieldpath.Set) []fieldpath.Path {
	var paths []fieldpath.Path
	for path := range set.Leaves().All() {
		paths = append(paths, path.Copy())
	}
	slices.SortFunc(paths, func(a, b fieldpath.Path) int { return cmp.Compare(Text(a), Text(b)) })
	return paths
}

// Fields lists all that an object says, as the changes that would create it.
func Fields(object map[string]any) []Change {
	return appendChanges(nil, nil, nil, withoutSystem(object), false, true)
}

// Named compares an object with what intent names, without asking the server: a field
// that intent names is to have that value, or the same quantity.
func Named(live, target map[string]any) []Change {
	return slices.DeleteFunc(appendNamed(nil, nil, live, withoutSystem(target)), func(c Change) bool {
		return c.HasCurrent && sameQuantity(c.Current, c.Target) || !c.HasCurrent && isEmptyMetadata(c)
	})
}

// isEmptyMetadata reports whether a change would give an object no labels, or no annotations: the
// server keeps that as if it were not said. Elsewhere an empty value may mean something, as
// emptyDir does.
func isEmptyMetadata(c Change) bool {
	empty, ok := c.Target.(map[string]any)
	return ok && len(empty) == 0 && len(c.Path) == 2 && c.Path[0].FieldName != nil && *c.Path[0].FieldName == "metadata"
}

// appendChanges adds the fields in which two values differ, down to single values.
func appendChanges(list []Change, path fieldpath.Path, before, after any, hadIt, hasIt bool) []Change {
	if !hadIt && !hasIt || hadIt && hasIt && same(before, after) {
		return list
	}
	was, wasMap := before.(map[string]any)
	is, isMap := after.(map[string]any)
	if (wasMap || !hadIt) && (isMap || !hasIt) && len(was)+len(is) > 0 && (!hadIt || len(was) > 0) && (!hasIt || len(is) > 0) {
		for _, name := range keys(was, is) {
			inner, hadInner := was[name]
			next, hasInner := is[name]
			list = appendChanges(list, extend(path, fieldpath.FieldNameElement(name)), inner, next, hadInner, hasInner)
		}
		return list
	}
	wasList, wasAny := before.([]any)
	isList, isAny := after.([]any)
	if (wasAny || !hadIt) && (isAny || !hasIt) && (len(wasList) == len(isList) || !hadIt || !hasIt) && len(wasList)+len(isList) > 0 {
		for i := range max(len(wasList), len(isList)) {
			inner, hadInner := at(wasList, i)
			next, hasInner := at(isList, i)
			list = appendChanges(list, extend(path, elementName(wasList, isList, i)), inner, next, hadInner, hasInner)
		}
		return list
	}
	return append(list, Change{Path: path, Current: before, Target: after, HasCurrent: hadIt, HasTarget: hasIt})
}

// appendNamed adds the fields that a target names and that are otherwise.
func appendNamed(list []Change, path fieldpath.Path, live, target any) []Change {
	wanted, isMap := target.(map[string]any)
	current, wasMap := live.(map[string]any)
	if isMap && wasMap {
		for _, name := range keys(wanted, nil) {
			list = namedChild(list, extend(path, fieldpath.FieldNameElement(name)), current, wanted[name])
		}
		return list
	}
	elements, isList := target.([]any)
	currentList, wasList := live.([]any)
	if isList && wasList && (haveNames(elements) || len(elements) == len(currentList)) {
		for i, element := range elements {
			list = namedChild(list, extend(path, elementName(nil, elements, i)), currentList, element)
		}
		return list
	}
	if same(live, target) {
		return list
	}
	return append(list, Change{Path: path, Current: live, Target: target, HasCurrent: true, HasTarget: true})
}

func namedChild(list []Change, path fieldpath.Path, container, target any) []Change {
	live, ok := step(container, path[len(path)-1])
	if !ok {
		return appendChanges(list, path, nil, target, false, true)
	}
	return appendNamed(list, path, live, target)
}

func extend(path fieldpath.Path, element fieldpath.PathElement) fieldpath.Path {
	return append(slices.Clone(path), element)
}

func at(list []any, i int) (any, bool) {
	if i < len(list) {
		return list[i], true
	}
	return nil, false
}

// elementName names an element by its field name, where all elements have one of their own.
func elementName(was, is []any, i int) fieldpath.PathElement {
	list := is
	if len(list) == 0 {
		list = was
	}
	if !haveNames(list) || len(was) > 0 && len(is) > 0 && !same(nameOf(was[i]), nameOf(is[i])) {
		return fieldpath.IndexElement(i)
	}
	return fieldpath.KeyElementByFields("name", nameOf(list[i]))
}

func nameOf(element any) any {
	fields, _ := element.(map[string]any)
	return fields["name"]
}

func haveNames(list []any) bool {
	seen := map[string]bool{}
	for _, element := range list {
		name, ok := nameOf(element).(string)
		if !ok || seen[name] {
			return false
		}
		seen[name] = true
	}
	return len(list) > 0
}

func keys(one, other map[string]any) []string {
	all := map[string]bool{}
	for name := range one {
		all[name] = true
	}
	for name := range other {
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// written is what a cluster writes into the metadata of an object.
var written = []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}

// withoutSystem is an object without what a cluster writes; the object stays as it is.
func withoutSystem(object map[string]any) map[string]any {
	bare := maps.Clone(object)
	delete(bare, "status")
	metadata, ok := bare["metadata"].(map[string]any)
	if !ok {
		return bare
	}
	metadata = maps.Clone(metadata)
	for _, name := range written {
		delete(metadata, name)
	}
	bare["metadata"] = metadata
	return bare
}

// Bare is an object as intent would say it.
func Bare(object map[string]any) map[string]any { return withoutSystem(object) }
