package enforcer

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/intent"
)

// leave returns the asset as a push leaves it: what production owns, such as
// an autoscaler's replicas, is as it was found, and the rest is as intent says.
// A path into a list or map is not followed.
func (r *ruling) leave(content intent.Asset, d intent.Difference) (intent.Asset, error) {
	if len(d.Unmanaged) == 0 || d.Plan.Action == intent.ActionCreate {
		return content, nil
	}
	if len(d.Current) == 0 {
		return content, fmt.Errorf("its plugin does not show the state that is there, of which production owns %s", d.Unmanaged[0].Path)
	}
	target, err := r.schemaSet.Unpack(content.Payload)
	if err != nil {
		return content, err
	}
	current, err := r.schemaSet.Unpack(presentAsset(content, d).Payload)
	if err != nil {
		return content, err
	}
	for _, change := range d.Unmanaged {
		takeOver(target.ProtoReflect(), current.ProtoReflect(), strings.Split(change.Path, "."))
	}
	content.Payload, err = r.schemaSet.Pack(target)
	return content, err
}

// takeOver sets the field of a path to what was found.
func takeOver(target, current protoreflect.Message, path []string) {
	field := target.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	switch {
	case field == nil:
	case len(path) > 1:
		if field.Message() != nil && !field.IsList() && !field.IsMap() {
			takeOver(target.Mutable(field).Message(), current.Get(field).Message(), path[1:])
		}
	case current.Has(field):
		target.Set(field, current.Get(field))
	default:
		target.Clear(field)
	}
}
