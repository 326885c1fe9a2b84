package starlark

import (
	"fmt"

	starlarkjson "go.starlark.net/lib/json"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/sdk/generator/kubernetes"
)

// kubernetesObjects is kubernetes_objects(objects, cluster, namespace="default"): objects of Kubernetes,
// as dicts, read as the renderer reads manifests. It gives structs, in the order of their ids, with
// what an asset of the type lehr.kubernetes.v1.Object has, and the ids of those that each comes after.
func kubernetesObjects(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var list *starlark.List
	settings := kubernetes.Settings{Namespace: "default"}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "objects", &list, "cluster", &settings.Cluster, "namespace?", &settings.Namespace); err != nil {
		return nil, err
	}
	manifests := make([]kubernetes.Manifest, list.Len())
	for i := range manifests {
		encoded, err := starlark.Call(&starlark.Thread{}, starlarkjson.Module.Members["encode"], starlark.Tuple{list.Index(i)}, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: objects[%d]: %w", b.Name(), i, err)
		}
		text, _ := starlark.AsString(encoded)
		manifests[i] = kubernetes.Manifest{File: fmt.Sprintf("objects[%d]", i), Text: []byte(text)}
	}
	read, findings := kubernetes.Read(manifests, settings)
	for _, f := range findings {
		if !f.Warning {
			return nil, fmt.Errorf("%s: %s: %s: %s", b.Name(), f.File, f.Message, f.Hint)
		}
	}
	made := make([]starlark.Value, len(read))
	for i, o := range read {
		after := starlark.NewList(nil)
		for _, addon := range o.Addons {
			dependencies, _ := addon.(*intentpb.Dependencies)
			for _, dependency := range dependencies.GetDependencies() {
				if err := after.Append(starlark.String(dependency.GetOn())); err != nil {
					return nil, err
				}
			}
		}
		made[i] = starlarkstruct.FromStringDict(starlarkstruct.Default, starlark.StringDict{
			"id": starlark.String(o.ID), "api_version": starlark.String(o.Payload.GetApiVersion()), "kind": starlark.String(o.Payload.GetKind()),
			"namespace": starlark.String(o.Payload.GetNamespace()), "name": starlark.String(o.Payload.GetName()),
			"cluster": starlark.String(o.Payload.GetCluster()), "json": starlark.String(o.Payload.GetJson()), "after": after,
		})
	}
	return starlark.NewList(made), nil
}
