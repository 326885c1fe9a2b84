package argocd

import (
	"cmp"
	"context"
	"encoding/json"

	"lehr.dev/internal/ground/fault"
)

// Lister lists what a live cluster has of the kinds that are wanted, in namespaces; nil: in all. It gives no Secrets.
type Lister func(ctx context.Context, kubeconfig, name string, namespaces []string, isWanted func(group, kind string) bool) ([]map[string]any, error)

// liveOptions say which cluster is read.
type liveOptions struct {
	isLive              bool
	kubeconfig, context string
}

// defaultNamespace is where Argo CD is installed where nobody says otherwise.
const defaultNamespace = "argocd"

// readLive lists the resources of Argo CD in a cluster. Its settings, which only few may read, are told where they are missing.
func (l *importing) readLive(options liveOptions) (objects []object, err error) {
	const group = "argoproj.io"
	items, err := l.list(l.ctx, options.kubeconfig, options.context, nil, func(g, kind string) bool {
		return g == group && (kind == "Application" || kind == "ApplicationSet" || kind == "AppProject")
	})
	if err != nil {
		return nil, err
	}
	namespace := l.controlNamespace
	for _, item := range items {
		o, err := liveObject(item)
		if err != nil {
			return nil, err
		}
		if o.kind == "AppProject."+group {
			head, _ := o.fields["metadata"].(map[string]any)
			found, _ := head["namespace"].(string)
			namespace = cmp.Or(namespace, found)
		}
		objects = append(objects, o)
	}
	settings, err := l.list(l.ctx, options.kubeconfig, options.context, []string{cmp.Or(namespace, defaultNamespace)}, func(g, kind string) bool { return g == "" && kind == "ConfigMap" })
	if fault.Is(err, fault.Denied) {
		l.leave("ConfigMaps argocd-cm and argocd-rbac-cm", "this user may not list them, so differences that they ignore and roles that they grant are missing: give their files beside --live", true)
		return objects, nil
	}
	if err != nil {
		return nil, err
	}
	for _, item := range settings {
		o, err := liveObject(item)
		if err != nil {
			return nil, err
		}
		if o.name == settingsName || o.name == policyName {
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// liveObject is an object of a cluster as one of files: numbers as YAML has them.
func liveObject(item map[string]any) (o object, err error) {
	text, err := json.Marshal(item)
	if err != nil {
		return o, fault.New(fault.Internal, "reading an object of the cluster: %w", err)
	}
	value, err := parseYAML(text)
	if err != nil {
		return o, fault.New(fault.Internal, "reading an object of the cluster: %w", err)
	}
	fields, _ := value.(map[string]any)
	head, _ := fields["metadata"].(map[string]any)
	name, _ := head["name"].(string)
	return object{kind: fullKind(fields), name: name, place: "the cluster", fields: fields}, nil
}
