package kubernetes

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// builtin are the references of Kubernetes' own kinds by which one object
// should be there before another. pod stands for each kind that runs pods, at
// the path of its pods.
var builtin = []Reference{
	{"pod", "serviceAccountName", "ServiceAccount"},
	{"pod", "imagePullSecrets[].name", "Secret"},
	{"pod", "priorityClassName", "PriorityClass.scheduling.k8s.io"},
	{"pod", "runtimeClassName", "RuntimeClass.node.k8s.io"},
	{"pod", "volumes[].configMap.name", "ConfigMap"},
	{"pod", "volumes[].secret.secretName", "Secret"},
	{"pod", "volumes[].persistentVolumeClaim.claimName", "PersistentVolumeClaim"},
	{"pod", "volumes[].projected.sources[].configMap.name", "ConfigMap"},
	{"pod", "volumes[].projected.sources[].secret.name", "Secret"},
	{"pod", "containers[].envFrom[].configMapRef.name", "ConfigMap"},
	{"pod", "containers[].envFrom[].secretRef.name", "Secret"},
	{"pod", "containers[].env[].valueFrom.configMapKeyRef.name", "ConfigMap"},
	{"pod", "containers[].env[].valueFrom.secretKeyRef.name", "Secret"},
	{"pod", "initContainers[].envFrom[].configMapRef.name", "ConfigMap"},
	{"pod", "initContainers[].envFrom[].secretRef.name", "Secret"},
	{"pod", "initContainers[].env[].valueFrom.configMapKeyRef.name", "ConfigMap"},
	{"pod", "initContainers[].env[].valueFrom.secretKeyRef.name", "Secret"},
	{"StatefulSet.apps", "spec.serviceName", "Service"},
	{"StatefulSet.apps", "spec.volumeClaimTemplates[].spec.storageClassName", "StorageClass.storage.k8s.io"},
	{"PersistentVolumeClaim", "spec.storageClassName", "StorageClass.storage.k8s.io"},
	{"Ingress.networking.k8s.io", "spec.ingressClassName", "IngressClass.networking.k8s.io"},
	{"Ingress.networking.k8s.io", "spec.defaultBackend.service.name", "Service"},
	{"Ingress.networking.k8s.io", "spec.rules[].http.paths[].backend.service.name", "Service"},
}

// podPaths are where kinds that run pods say how.
var podPaths = map[string]string{
	"Pod": "spec", "PodTemplate": "template.spec", "ReplicationController": "spec.template.spec",
	"Deployment.apps": "spec.template.spec", "ReplicaSet.apps": "spec.template.spec", "StatefulSet.apps": "spec.template.spec",
	"DaemonSet.apps": "spec.template.spec", "Job.batch": "spec.template.spec", "CronJob.batch": "spec.jobTemplate.spec.template.spec",
}

// edges are the ids of what should be there before an object, of what was read
// with it. What it names and is not here is somebody else's, and no error.
func (r *reader) edges(o *Object) []string {
	ids, index := map[string]bool{}, r.index()
	ownNamespace := o.Payload.Namespace
	add := func(kind, namespace, name string) {
		if id := index[key{kind, namespace, name}]; id != "" && id != o.ID {
			ids[id] = true
		}
	}
	// Of the two that a name may mean, only one is in the index.
	named := func(kind, name string) { add(kind, ownNamespace, name); add(kind, "", name) }
	kind := kindOf(o.Payload)
	if ownNamespace != "" {
		add("Namespace", "", ownNamespace)
	}
	if definition := r.defined[kind]; definition != "" {
		ids[definition] = true
	}
	for _, reference := range slices.Concat(builtin, r.settings.References) {
		path := reference.Path
		if reference.Of == "pod" {
			if podPaths[kind] == "" {
				continue
			}
			path = podPaths[kind] + "." + path
		} else if reference.Of != kind {
			continue
		}
		for _, name := range at(o.value, strings.Split(path, ".")) {
			named(reference.To, name)
		}
	}
	switch kind {
	case "RoleBinding.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io":
		named(text(o.value, "roleRef", "kind")+".rbac.authorization.k8s.io", text(o.value, "roleRef", "name"))
		subjects, _ := o.value["subjects"].([]any)
		for _, subject := range subjects {
			if text(subject, "kind") == "ServiceAccount" {
				add("ServiceAccount", cmp.Or(text(subject, "namespace"), ownNamespace), text(subject, "name"))
			}
		}
	case "MutatingWebhookConfiguration.admissionregistration.k8s.io", "ValidatingWebhookConfiguration.admissionregistration.k8s.io":
		webhooks, _ := o.value["webhooks"].([]any)
		for _, webhook := range webhooks {
			add("Service", text(webhook, "clientConfig", "service", "namespace"), text(webhook, "clientConfig", "service", "name"))
		}
	case "APIService.apiregistration.k8s.io":
		add("Service", text(o.value, "spec", "service", "namespace"), text(o.value, "spec", "service", "name"))
	}
	return slices.Sorted(maps.Keys(ids))
}

// key finds an object by what others name it by.
type key struct{ kind, namespace, name string }

// index has the ids of what was read, and the definitions of kinds.
func (r *reader) index() map[key]string {
	if r.ids == nil {
		r.ids, r.defined = map[key]string{}, map[string]string{}
		for _, o := range r.objects {
			kind := kindOf(o.Payload)
			r.ids[key{kind, o.Payload.Namespace, o.Payload.Name}] = o.ID
			if kind == definitionKind {
				r.defined[definedKind(o.value)] = o.ID
			}
		}
	}
	return r.ids
}

// at finds the texts at a path, whose segments end in [] where they are lists.
func at(value any, path []string) []string {
	if len(path) == 0 {
		if name, ok := value.(string); ok && name != "" {
			return []string{name}
		}
		return nil
	}
	name, ok := strings.CutSuffix(path[0], "[]")
	value = dig(value, name)
	if !ok {
		return at(value, path[1:])
	}
	elements, _ := value.([]any)
	var found []string
	for _, element := range elements {
		found = append(found, at(element, path[1:])...)
	}
	return found
}
