package kubernetes

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// replicasPath is the field that autoscalers set, within an asset's payload.
const replicasPath = "json.spec.replicas"

// leaveReplicas leaves the number of replicas to production, where an autoscaler of the same
// render sets it: what the object says is then where it begins. Also where it says none: it may
// have said one before, and a cluster makes one replica of a number that is taken out.
func (r *reader) leaveReplicas(o *Object) {
	autoscaler := r.autoscalerOf(o)
	if autoscaler == "" {
		return
	}
	field := &intentpb.UnmanagedField{Path: replicasPath, Reason: autoscaler + " sets it"}
	for _, addon := range o.given {
		if unmanaged, ok := addon.(*intentpb.Unmanaged); ok {
			if !slices.ContainsFunc(unmanaged.Fields, func(f *intentpb.UnmanagedField) bool { return f.Path == replicasPath }) {
				unmanaged.Fields = append(unmanaged.Fields, field)
			}
			return
		}
	}
	o.given = append(o.given, proto.Message(&intentpb.Unmanaged{Fields: []*intentpb.UnmanagedField{field}}))
}

// autoscalerOf names what scales an object, of what was read with it; empty: nothing does.
func (r *reader) autoscalerOf(o *Object) string {
	if r.autoscalers == nil {
		r.autoscalers = map[key]string{}
		for _, other := range r.objects {
			if kind := kindOf(other.Payload); kind != "HorizontalPodAutoscaler.autoscaling" && kind != "ScaledObject.keda.sh" {
				continue
			}
			target := func(field string) string { return text(other.value, "spec", "scaleTargetRef", field) }
			group, _, _ := strings.Cut(cmp.Or(target("apiVersion"), "apps/v1"), "/")
			scaled := key{cmp.Or(target("kind"), "Deployment") + "." + group, other.Payload.Namespace, target("name")}
			r.autoscalers[scaled] = other.Payload.Kind + " " + other.Payload.Name
		}
	}
	return r.autoscalers[key{kindOf(o.Payload), o.Payload.Namespace, o.Payload.Name}]
}
