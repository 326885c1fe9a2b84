package kubernetes

import "slices"

// normalise gives an object of a built-in kind the content that an API server reads it as, where people
// write one thing in several ways: quantities, what is empty, and the time that tools write as null. So
// two renders that say the same are one content. Names that have a hash of the content have it of what
// was written.
func normalise(o *Object) {
	kind := kindOf(o.Payload)
	if path, ok := podTemplates[kind]; ok {
		if len(path) > 0 {
			if template, ok := dig(o.value, path...).(map[string]any); ok {
				normaliseMetadata(template)
			}
		}
		if spec, ok := dig(o.value, append(slices.Clone(path), "spec")...).(map[string]any); ok {
			normalisePod(spec)
		}
	}
	normaliseMetadata(o.value)
	spec, _ := o.value["spec"].(map[string]any)
	switch kind {
	case "CronJob.batch":
		if template, ok := dig(spec, "jobTemplate").(map[string]any); ok {
			normaliseMetadata(template)
		}
	case "Deployment.apps", "StatefulSet.apps", "DaemonSet.apps":
		dropEmpty(spec, "strategy", "updateStrategy")
		for _, claim := range mappings(spec["volumeClaimTemplates"]) {
			delete(claim, "status") // A cluster writes it.
			normaliseMetadata(claim)
			claimSpec, _ := claim["spec"].(map[string]any)
			normaliseResources(claimSpec)
		}
	case "PersistentVolumeClaim":
		normaliseResources(spec)
	case "PersistentVolume":
		quantities(spec["capacity"])
	case "ResourceQuota":
		quantities(spec["hard"])
	case "LimitRange":
		for _, limit := range mappings(spec["limits"]) {
			for _, field := range []string{"default", "defaultRequest", "max", "maxLimitRequestRatio", "min"} {
				quantities(limit[field])
			}
		}
	case "HorizontalPodAutoscaler.autoscaling":
		for _, metric := range mappings(spec["metrics"]) {
			for _, source := range []string{"containerResource", "external", "object", "pods", "resource"} {
				target, _ := dig(metric, source, "target").(map[string]any)
				quantity(target, "averageValue")
				quantity(target, "value")
			}
		}
	}
}

// podTemplates are the paths at which kinds have a template of pods.
var podTemplates = map[string][]string{
	"Pod": {}, "PodTemplate": {"template"}, "ReplicationController": {"spec", "template"}, "Deployment.apps": {"spec", "template"},
	"ReplicaSet.apps": {"spec", "template"}, "StatefulSet.apps": {"spec", "template"}, "DaemonSet.apps": {"spec", "template"},
	"Job.batch": {"spec", "template"}, "CronJob.batch": {"spec", "jobTemplate", "spec", "template"},
}

// normaliseMetadata drops what is empty, and the time that Go programs write as null.
func normaliseMetadata(fields map[string]any) {
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		return
	}
	if created, ok := metadata["creationTimestamp"]; ok && created == nil {
		delete(metadata, "creationTimestamp")
	}
	dropEmpty(metadata, "annotations", "labels")
	dropEmpty(fields, "metadata")
}

func normalisePod(spec map[string]any) {
	dropEmpty(spec, "securityContext") // An API server gives each pod an empty one.
	quantities(spec["overhead"])
	normaliseResources(spec)
	for _, field := range []string{"initContainers", "containers"} {
		for _, container := range mappings(spec[field]) {
			normaliseResources(container)
			for _, env := range mappings(container["env"]) {
				reference, _ := dig(env, "valueFrom", "resourceFieldRef").(map[string]any)
				quantity(reference, "divisor")
			}
		}
	}
	for _, volume := range mappings(spec["volumes"]) {
		emptyDir, _ := volume["emptyDir"].(map[string]any)
		quantity(emptyDir, "sizeLimit")
		claim, _ := dig(volume, "ephemeral", "volumeClaimTemplate", "spec").(map[string]any)
		normaliseResources(claim)
	}
}

// normaliseResources are those of a container, a pod or a claim.
func normaliseResources(holder map[string]any) {
	resources, ok := holder["resources"].(map[string]any)
	if !ok {
		return
	}
	quantities(resources["limits"])
	quantities(resources["requests"])
	dropEmpty(resources, "limits", "requests")
	dropEmpty(holder, "resources")
}

// quantities of a mapping, by names of resources.
func quantities(value any) {
	named, _ := value.(map[string]any)
	for name := range named {
		quantity(named, name)
	}
}

// quantity writes that of a field as an API server does. What is none stays as it is.
func quantity(fields map[string]any, name string) {
	written, ok := fields[name].(string)
	if number, isNumber := fields[name].(number); isNumber {
		written, ok = string(number), true
	}
	if !ok {
		return
	}
	if canonical, ok := canonicalQuantity(written); ok {
		fields[name] = canonical
	}
}

// dropEmpty fields: mappings without an entry.
func dropEmpty(fields map[string]any, names ...string) {
	for _, name := range names {
		if mapping, ok := fields[name].(map[string]any); ok && len(mapping) == 0 {
			delete(fields, name)
		}
	}
}

// mappings of a list.
func mappings(value any) (found []map[string]any) {
	elements, _ := value.([]any)
	for _, element := range elements {
		if mapping, ok := element.(map[string]any); ok {
			found = append(found, mapping)
		}
	}
	return found
}
