package cluster

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// live are kinds that say how a cluster is, not how it should be.
var live = map[string]bool{
	"Event": true, "Event.events.k8s.io": true, "Endpoints": true, "EndpointSlice.discovery.k8s.io": true, "Lease.coordination.k8s.io": true,
	"Node": true, "ComponentStatus": true, "CSINode.storage.k8s.io": true, "VolumeAttachment.storage.k8s.io": true, "CSIStorageCapacity.storage.k8s.io": true,
	"CertificateSigningRequest.certificates.k8s.io": true, "ControllerRevision.apps": true, "IPAddress.networking.k8s.io": true,
	"ResourceSlice.resource.k8s.io": true, "StorageVersion.internal.apiserver.k8s.io": true, "LeaseCandidate.coordination.k8s.io": true,
}

// own are the namespaces of Kubernetes.
var own = map[string]bool{"kube-system": true, "kube-public": true, "kube-node-lease": true}

// isGenerated reports whether Kubernetes makes the object by itself.
func isGenerated(r resource, name string, item map[string]any) bool {
	metadata, _ := item["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	switch {
	case labels["kubernetes.io/bootstrapping"] == "rbac-defaults",
		labels["kube-aggregator.kubernetes.io/automanaged"] != nil,
		annotations["apf.kubernetes.io/autoupdate-spec"] == "true":
		return true
	}
	switch r.full() {
	case "ServiceAccount":
		return name == "default"
	case "ConfigMap":
		return name == "kube-root-ca.crt"
	case "Service":
		return namespace == "default" && name == "kubernetes"
	case "PriorityClass.scheduling.k8s.io":
		return strings.HasPrefix(name, "system-")
	case "ServiceCIDR.networking.k8s.io":
		return name == "kubernetes"
	}
	return false
}

// bare takes out what the cluster wrote into an object: what is no wish of
// anybody's, and what every cluster fills in with the same value.
func bare(r resource, item map[string]any) {
	delete(item, "status")
	metadata, _ := item["metadata"].(map[string]any)
	for _, field := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"} {
		delete(metadata, field)
	}
	drop(metadata, "finalizers", "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection")
	strip(metadata, "labels", "kubernetes.io/metadata.name")
	strip(metadata, "annotations", "kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision",
		"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller", "volume.kubernetes.io/storage-provisioner",
		"volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/selected-node", "deprecated.daemonset.template.generation")
	spec, _ := item["spec"].(map[string]any)
	switch r.full() {
	case "Namespace":
		drop(spec, "finalizers", "kubernetes")
		if len(spec) == 0 {
			delete(item, "spec")
		}
	case "Service":
		if spec["clusterIP"] != "None" {
			delete(spec, "clusterIP")
			delete(spec, "clusterIPs")
		}
		defaults(spec, map[string]any{"sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "type": "ClusterIP"})
	case "PersistentVolumeClaim":
		delete(spec, "volumeName")
		defaults(spec, map[string]any{"volumeMode": "Filesystem"})
	case "Job.batch":
		if spec["manualSelector"] != true {
			delete(spec, "selector")
			template, _ := spec["template"].(map[string]any)
			inner, _ := template["metadata"].(map[string]any)
			for _, fields := range []map[string]any{metadata, inner} {
				strip(fields, "labels", "controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name")
			}
		}
	case "Deployment.apps":
		defaults(spec, map[string]any{"progressDeadlineSeconds": 600, "revisionHistoryLimit": 10})
	case "StatefulSet.apps", "DaemonSet.apps":
		defaults(spec, map[string]any{"revisionHistoryLimit": 10})
	}
	pods(item)
}

// pods takes the usual values out of every specification of pods within.
func pods(value any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			pods(element)
		}
	case map[string]any:
		if containers, ok := value["containers"].([]any); ok {
			defaults(value, map[string]any{"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30, "securityContext": map[string]any{}})
			if value["serviceAccount"] == value["serviceAccountName"] {
				delete(value, "serviceAccount") // An older name of the same.
			}
			inits, _ := value["initContainers"].([]any)
			for _, container := range slices.Concat(containers, inits) {
				if fields, ok := container.(map[string]any); ok {
					defaults(fields, map[string]any{"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "resources": map[string]any{}})
				}
			}
		}
		if metadata, ok := value["metadata"].(map[string]any); ok {
			defaults(metadata, map[string]any{"creationTimestamp": nil})
		}
		for _, element := range value {
			pods(element)
		}
	}
}

// defaults deletes fields that have the value which every cluster fills in.
func defaults(fields map[string]any, usual map[string]any) {
	for field, value := range usual {
		if actual, ok := fields[field]; ok && text(actual) == text(value) {
			delete(fields, field)
		}
	}
}

// text of a JSON value, by which two are compared.
func text(value any) string {
	encoded, _ := json.Marshal(value) // It came from JSON.
	return string(encoded)
}

// drop takes elements out of a list, and the list when nothing remains.
func drop(fields map[string]any, field string, elements ...any) {
	list, ok := fields[field].([]any)
	if !ok {
		return
	}
	list = slices.DeleteFunc(list, func(element any) bool { return slices.Contains(elements, element) })
	if fields[field] = list; len(list) == 0 {
		delete(fields, field)
	}
}

// strip takes keys out of a map, and the map when nothing remains.
func strip(fields map[string]any, field string, keys ...string) {
	values, ok := fields[field].(map[string]any)
	if !ok {
		return
	}
	for _, key := range keys {
		delete(values, key)
	}
	if len(values) == 0 {
		delete(fields, field)
	}
}

// segment is a name as a part of a path.
func segment(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || b.Len() > 0 && strings.ContainsRune("._-", r) {
			b.WriteRune(r)
		} else if b.Len() > 0 {
			b.WriteByte('-')
		}
	}
	return cmp.Or(b.String()[:min(b.Len(), 100)], "object")
}
