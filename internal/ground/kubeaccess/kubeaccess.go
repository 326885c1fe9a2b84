// Package kubeaccess says what an identity must be allowed in a Kubernetes cluster so that
// lehr-kubernetes can keep the objects of a partition there, and no more. It is pure, asks no
// cluster and writes nothing. Package cli calls it for lehr kubernetes rbac.
package kubeaccess

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/kubekind"
)

// Object is one that a partition has in the cluster.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	// Content is the whole manifest, of which roles, bindings and definitions are read.
	Content map[string]any
	// TurnedDown: it is to be deleted.
	TurnedDown bool
}

func (o Object) full() string { return kubekind.FullName(o.Kind, kubekind.GroupOf(o.APIVersion)) }

// Options say for what the access is.
type Options struct {
	// Observe: the objects are only compared, and nothing is written.
	Observe bool
	// Replaceable are kinds, as Kind.group, whose objects may be deleted too, to be made anew.
	Replaceable []string
	// Plurals of kinds that neither every cluster has nor the partition defines, by Kind.group.
	Plurals map[string]string
}

// Rule allows verbs on resources, as a rule of a Role does. Why says what for.
type Rule struct {
	Groups    []string `json:"apiGroups,omitempty"`
	Resources []string `json:"resources,omitempty"`
	// Names of objects; empty: all of them.
	Names []string `json:"resourceNames,omitempty"`
	URLs  []string `json:"nonResourceURLs,omitempty"`
	Verbs []string `json:"verbs"`
	Why   string   `json:"-"`
}

// Access is what is needed: rules for the whole cluster by the namespace "", and those for one
// namespace by its name.
type Access map[string][]Rule

// Namespaces in which there are rules, in their order.
func (a Access) Namespaces() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a)), func(namespace string) bool { return namespace == "" })
}

// Need returns the access that objects of one cluster need. What it cannot know is an error
// that names what to write.
func Need(objects []Object, options Options) (Access, error) {
	n := need{options: options, rules: map[string]map[string]*Rule{}, table: kubekind.NewTable(readDefinitions(objects)...)}
	resources, err := n.resources(objects)
	if err != nil {
		return nil, err
	}
	n.takeCluster()
	for _, r := range resources {
		n.takeResource(r)
	}
	for _, o := range objects {
		if !options.Observe && !o.TurnedDown {
			n.takeGranted(o)
			n.takeCalled(o)
		}
		if o.TurnedDown {
			n.takeContent(o)
		} else {
			n.takeScaled(o)
		}
	}
	return n.access(), nil
}

func readDefinitions(objects []Object) (kinds []kubekind.Kind) {
	for _, o := range objects {
		if kind, ok := kubekind.Define(o.Content); ok && o.full() == "CustomResourceDefinition.apiextensions.k8s.io" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// resource is what the partition has of one kind in one namespace.
type resource struct {
	kind, group, plural, namespace string
	// kept and deleted are names of objects. kept excludes what is turned down.
	all, kept, deleted []string
}

// resources groups the objects by kind and namespace, in the order of their names.
func (n *need) resources(objects []Object) ([]*resource, error) {
	type place struct{ kind, namespace string }
	byPlace := map[place]*resource{}
	unknown, used := map[string]bool{}, map[string]bool{}
	for _, o := range objects {
		group := kubekind.GroupOf(o.APIVersion)
		plural := n.options.Plurals[o.full()]
		used[o.full()] = true
		if kind, ok := n.table.Find(o.Kind, group); ok && plural == "" {
			plural = kind.Plural
		}
		if plural == "" {
			unknown[o.full()] = true
			continue
		}
		key := place{o.full(), o.Namespace}
		r := byPlace[key]
		if r == nil {
			r = &resource{kind: o.Kind, group: group, plural: plural, namespace: o.Namespace}
			byPlace[key] = r
		}
		r.all = append(r.all, o.Name)
		if o.TurnedDown {
			r.deleted = append(r.deleted, o.Name)
			continue
		}
		r.kept = append(r.kept, o.Name)
		if slices.Contains(n.options.Replaceable, o.full()) {
			r.deleted = append(r.deleted, o.Name)
		}
	}
	if len(unknown) > 0 {
		return nil, unknownKinds(slices.Sorted(maps.Keys(unknown)))
	}
	for _, given := range slices.Concat(slices.Sorted(maps.Keys(n.options.Plurals)), n.options.Replaceable) {
		if !used[given] {
			return nil, fault.New(fault.Invalid, "the partition has no object of the kind %q in the cluster", given).
				WithHint("write a kind that it has, as Kind.group; it has: %s", strings.Join(slices.Sorted(maps.Keys(used)), ", "))
		}
	}
	return slices.SortedFunc(maps.Values(byPlace), func(a, b *resource) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.group, b.group), cmp.Compare(a.kind, b.kind))
	}), nil
}

func unknownKinds(kinds []string) error {
	var flags []string
	for _, kind := range kinds {
		name, _, _ := strings.Cut(kind, ".")
		flags = append(flags, "--plural "+kind+"="+strings.ToLower(name)+"s")
	}
	return fault.New(fault.Invalid, "roles name resources by their plurals, and that of %s is not known: no cluster has the kind of itself, and the partition does not define it", strings.Join(kinds, ", ")).
		WithHint("write the plural, as kubectl api-resources shows it, for example %s; or have the CustomResourceDefinition in the partition", strings.Join(flags, " "))
}
