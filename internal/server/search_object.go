package server

import (
	"context"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/kubekind"
	"lehr.dev/internal/store"
)

// objectQuery names a Kubernetes object as kubectl takes it.
type objectQuery struct{ kind, name, namespace string }

// parseObjectQuery reads "KIND/NAME" or "KIND NAME", with "-n NAMESPACE" before or after it.
func parseObjectQuery(text string) (query objectQuery, ok bool) {
	var words []string
	rest := strings.Fields(text)
	for i := 0; i < len(rest); i++ {
		switch {
		case (rest[i] == "-n" || rest[i] == "--namespace") && i+1 < len(rest):
			i++
			query.namespace = rest[i]
		case strings.HasPrefix(rest[i], "--namespace="):
			query.namespace = strings.TrimPrefix(rest[i], "--namespace=")
		case strings.HasPrefix(rest[i], "-"):
			return objectQuery{}, false
		default:
			words = append(words, rest[i])
		}
	}
	if len(words) == 1 {
		words = strings.Split(words[0], "/")
	}
	if len(words) != 2 || words[0] == "" || words[1] == "" {
		return objectQuery{}, false
	}
	query.kind, query.name = words[0], words[1]
	return query, true
}

// objectType is the payload of assets that are Kubernetes objects.
var objectType = (&kubernetespb.Object{}).ProtoReflect().Descriptor()

// objects finds the assets of the Kubernetes object that the query names, however the assets are called.
func (f *search) objects(ctx context.Context, partition intent.PartitionID) error {
	query, ok := parseObjectQuery(f.given)
	if !ok {
		return nil
	}
	field := func(name string) string { return string(objectType.FullName()) + "." + name }
	filter := store.FieldFilter{Partition: partition, Type: intent.TypeName(objectType.FullName()), Path: field("name"), Value: query.name}
	return f.store.SearchFields(ctx, filter, func(id intent.PartitionID, asset intent.AssetID, state intent.State, fields map[string]string) bool {
		kind, group, namespace := fields[field("kind")], kubekind.GroupOf(fields[field("api_version")]), fields[field("namespace")]
		isWithin := query.namespace == "" || namespace == "" || namespace == query.namespace
		if !isWithin || !kubekind.IsNamed(query.kind, kind, group) {
			return true
		}
		object := strings.ToLower(kubekind.FullName(kind, group)) + "/" + query.name
		if namespace != "" {
			object += " -n " + namespace
		}
		if cluster := fields[field("cluster")]; cluster != "" {
			object += " in " + cluster
		}
		return f.add(&apipb.SearchHit{Kind: hitAsset, Partition: string(id), Name: string(asset), Note: string(state), Asset: string(asset), Object: object})
	})
}
