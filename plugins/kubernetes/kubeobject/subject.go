package kubeobject

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/plugins/kubernetes/objectdiff"
	"lehr.dev/sdk/serve"
)

// subject is an asset, and the object that it stands for.
type subject struct {
	asset   serve.Intent
	payload *kubernetespb.Object
	// wanted is the object as intent says it.
	wanted *unstructured.Unstructured
	// unmanaged are the fields that intent leaves to production.
	unmanaged []leftField
}

// leftField is one that intent leaves to production.
type leftField struct {
	path   fieldpath.Path
	reason string
}

func readSubject(ctx context.Context, asset serve.Intent) (*subject, error) {
	s := &subject{asset: asset, payload: &kubernetespb.Object{}}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(asset.Payload.Bytes, s.payload); err != nil {
		return nil, fmt.Errorf("reading the intent of %s as %s: %w", asset.ID, objectType, err)
	}
	text := []byte(s.payload.Json)
	if s.payload.External != nil {
		var err error
		if text, err = asset.Blob(ctx, s.payload.External); err != nil {
			return nil, fmt.Errorf("reading the object of %s: %w", asset.ID, err)
		}
	}
	s.wanted = &unstructured.Unstructured{}
	if err := s.wanted.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("the object of %s is not JSON of one object: %w", asset.ID, err)
	}
	s.wanted.Object = objectdiff.Bare(s.wanted.Object)
	if s.wanted.GetAPIVersion() != s.payload.ApiVersion || s.wanted.GetKind() != s.payload.Kind || s.wanted.GetName() != s.payload.Name || s.wanted.GetNamespace() != s.payload.Namespace {
		return nil, fmt.Errorf("the object of %s is %s %s/%s, and the fields beside it say %s %s/%s: they are to say the same",
			asset.ID, s.wanted.GetKind(), s.wanted.GetNamespace(), s.wanted.GetName(), s.payload.Kind, s.payload.Namespace, s.payload.Name)
	}
	return s, s.readUnmanaged()
}

func (s *subject) readUnmanaged() error {
	for _, addon := range s.asset.Addons {
		if addon.Type != unmanagedType {
			continue
		}
		unmanaged := &intentpb.Unmanaged{}
		if err := proto.Unmarshal(addon.Bytes, unmanaged); err != nil {
			return fmt.Errorf("reading the addon Unmanaged of %s: %w", s.asset.ID, err)
		}
		for _, field := range unmanaged.Fields {
			path, err := objectdiff.ParsePath(strings.TrimPrefix(field.Path, "json."))
			if err != nil {
				return fmt.Errorf("the addon Unmanaged of %s: %w", s.asset.ID, err)
			}
			if len(path) == 0 || path[len(path)-1].FieldName == nil {
				return fmt.Errorf("the addon Unmanaged of %s names %q, which is no field of an object: end the path with a field", s.asset.ID, field.Path)
			}
			s.unmanaged = append(s.unmanaged, leftField{path, field.Reason})
		}
	}
	return nil
}

func (s *subject) kind() schema.GroupVersionKind { return s.wanted.GroupVersionKind() }

// name for people.
func (s *subject) name() string {
	if s.payload.Namespace == "" {
		return s.payload.Kind + " " + s.payload.Name
	}
	return s.payload.Kind + " " + s.payload.Namespace + "/" + s.payload.Name
}

// key names the object for all that may reach its cluster.
func (s *subject) key(cluster string) serve.ResourceKey {
	kind := s.kind()
	return serve.ResourceKey(fmt.Sprintf("kubernetes:%s/%s/%s/%s/%s", cluster, kind.Group, kind.Kind, s.payload.Namespace, s.payload.Name))
}

// sent is what is applied, and the differences that are left to production. A field that
// is left to production is sent with its live value for as long as nobody else has it, for
// else the server would put its default there; once another manager has it, it is left
// out.
func (s *subject) sent(live *unstructured.Unstructured, managers objectdiff.Managers) (*unstructured.Unstructured, []serve.FieldChange, error) {
	if live == nil || len(s.unmanaged) == 0 {
		return s.wanted, nil, nil
	}
	owners, err := objectdiff.ReadOwners(live, managers)
	if err != nil {
		return nil, nil, err
	}
	sent := s.wanted.DeepCopy()
	var left []serve.FieldChange
	for _, field := range s.unmanaged {
		current, exists := objectdiff.Get(live.Object, field.path)
		intended, named := objectdiff.Get(s.wanted.Object, field.path)
		if !exists || owners.HasOther(field.path) {
			objectdiff.Remove(sent.Object, field.path)
		} else {
			objectdiff.Set(sent.Object, field.path, current)
		}
		if shown, target := objectdiff.Show(current, exists), objectdiff.Show(intended, named); named && shown != target {
			left = append(left, serve.FieldChange{Path: objectdiff.Text(field.path), Current: shown, Target: target, Reason: field.reason})
		}
	}
	return sent, left, nil
}

// current is an object in the payload's type, without what nobody is to see.
func (s *subject) current(live *unstructured.Unstructured) ([]byte, error) {
	shown := live.DeepCopy()
	shown.Object = objectdiff.Bare(shown.Object)
	if status, ok := live.Object["status"]; ok && s.asset.IsJudged() {
		shown.Object["status"] = status
	}
	objectdiff.RedactSecret(shown.Object)
	text, err := json.Marshal(shown.Object)
	if err != nil {
		return nil, err
	}
	if len(text) > maxCurrent {
		text = fmt.Appendf(nil, `{"bytes":%d}`, len(text))
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&kubernetespb.Object{
		ApiVersion: s.payload.ApiVersion, Kind: s.payload.Kind, Namespace: s.payload.Namespace, Name: s.payload.Name, Cluster: s.payload.Cluster, Json: string(text),
	})
}

// maxCurrent is the longest object that is shown whole.
const maxCurrent = 900_000
