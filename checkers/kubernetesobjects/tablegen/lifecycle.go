package main

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"lehr.dev/checkers/kubernetesobjects/builtin"
)

// What generated methods of the types of k8s.io/api tell.
type (
	deprecated interface{ APILifecycleDeprecated() (major, minor int) }
	removed    interface{ APILifecycleRemoved() (major, minor int) }
	replaced   interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}
)

// lifecycles of all versions of APIs that have an end, those that are gone included.
func lifecycles() map[string]builtin.Lifecycle {
	all := map[string]builtin.Lifecycle{
		// Their types are in modules of their own.
		"apiextensions.k8s.io/v1beta1/CustomResourceDefinition": {Deprecated: 16, Removed: 22, Replacement: "apiextensions.k8s.io/v1/CustomResourceDefinition"},
		"apiregistration.k8s.io/v1beta1/APIService":             {Deprecated: 19, Removed: 22, Replacement: "apiregistration.k8s.io/v1/APIService"},
		"policy/v1beta1/PodSecurityPolicy":                      {Deprecated: 21, Removed: 25},
		"extensions/v1beta1/PodSecurityPolicy":                  {Deprecated: 11, Removed: 16},
		// Their types are gone.
		"batch/v2alpha1/CronJob":                                          {Deprecated: 8, Removed: 21, Replacement: "batch/v1/CronJob"},
		"autoscaling/v2beta1/HorizontalPodAutoscaler":                     {Deprecated: 22, Removed: 25, Replacement: "autoscaling/v2/HorizontalPodAutoscaler"},
		"autoscaling/v2beta2/HorizontalPodAutoscaler":                     {Deprecated: 23, Removed: 26, Replacement: "autoscaling/v2/HorizontalPodAutoscaler"},
		"flowcontrol.apiserver.k8s.io/v1beta1/FlowSchema":                 {Deprecated: 23, Removed: 26, Replacement: "flowcontrol.apiserver.k8s.io/v1/FlowSchema"},
		"flowcontrol.apiserver.k8s.io/v1beta1/PriorityLevelConfiguration": {Deprecated: 23, Removed: 26, Replacement: "flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration"},
	}
	for kind, goType := range scheme.Scheme.AllKnownTypes() {
		if strings.HasSuffix(kind.Kind, "List") {
			continue
		}
		object, lifecycle := reflect.New(goType).Interface(), builtin.Lifecycle{}
		if d, ok := object.(deprecated); ok {
			_, lifecycle.Deprecated = d.APILifecycleDeprecated()
		}
		if r, ok := object.(removed); ok {
			_, lifecycle.Removed = r.APILifecycleRemoved()
		}
		if r, ok := object.(replaced); ok {
			by := r.APILifecycleReplacement()
			lifecycle.Replacement = by.Group + "/" + by.Version + "/" + by.Kind
		}
		if lifecycle.Deprecated > 0 || lifecycle.Removed > 0 {
			all[kind.Group+"/"+kind.Version+"/"+kind.Kind] = lifecycle
		}
	}
	return all
}
