package main

import (
	"slices"
	"strings"
)

// isRequired reports whether Kubernetes refuses a struct without a field. The OpenAPI documents also
// call fields required whose zero value is taken, and those that get a default: only texts and
// numbers of kinds that people write are judged.
func isRequired(structName, field, code string) bool {
	group, _, _ := strings.Cut(structName, ".")
	if !slices.Contains([]string{"apps", "autoscaling", "batch", "core", "meta", "networking", "rbac"}, group) {
		return false
	}
	name := structName[strings.LastIndexByte(structName, '.')+1:] + "." + field
	switch code {
	case "string":
		return !strings.Contains(structName, "Status") && !strings.Contains(structName, "Condition") && !slices.Contains(emptyAllowed, name)
	case "int32", "int-or-string":
		return slices.Contains(zeroRefused, name)
	}
	return false
}

var (
	emptyAllowed = []string{"HTTPHeader.value", "Sysctl.value", "RoleRef.apiGroup", "StatefulSetSpec.serviceName", "GroupResource.group", "ImageVolumeSource.reference"}
	zeroRefused  = []string{
		"ContainerPort.containerPort", "ServicePort.port", "GRPCAction.port", "HTTPGetAction.port", "TCPSocketAction.port",
		"HorizontalPodAutoscalerSpec.maxReplicas", "WeightedPodAffinityTerm.weight", "PreferredSchedulingTerm.weight", "TopologySpreadConstraint.maxSkew",
	}
)

// values that Kubernetes takes for fields which are one of several words: the OpenAPI documents do not
// have them. Those of the API's Go types, of all three versions.
var values = map[string][]string{
	"Container.imagePullPolicy":                  {"Always", "IfNotPresent", "Never"},
	"Container.terminationMessagePolicy":         {"FallbackToLogsOnError", "File"},
	"ContainerPort.protocol":                     {"SCTP", "TCP", "UDP"},
	"PodSpec.restartPolicy":                      {"Always", "Never", "OnFailure"},
	"PodSpec.dnsPolicy":                          {"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"},
	"ServicePort.protocol":                       {"SCTP", "TCP", "UDP"},
	"ServiceSpec.type":                           {"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"},
	"ServiceSpec.externalTrafficPolicy":          {"Cluster", "Local"},
	"ServiceSpec.sessionAffinity":                {"ClientIP", "None"},
	"DeploymentStrategy.type":                    {"Recreate", "RollingUpdate"},
	"StatefulSetUpdateStrategy.type":             {"OnDelete", "RollingUpdate"},
	"DaemonSetUpdateStrategy.type":               {"OnDelete", "RollingUpdate"},
	"StatefulSetSpec.podManagementPolicy":        {"OrderedReady", "Parallel"},
	"CronJobSpec.concurrencyPolicy":              {"Allow", "Forbid", "Replace"},
	"HTTPIngressPath.pathType":                   {"Exact", "ImplementationSpecific", "Prefix"},
	"NetworkPolicyPort.protocol":                 {"SCTP", "TCP", "UDP"},
	"LabelSelectorRequirement.operator":          {"DoesNotExist", "Exists", "In", "NotIn"},
	"TopologySpreadConstraint.whenUnsatisfiable": {"DoNotSchedule", "ScheduleAnyway"},
	"HTTPGetAction.scheme":                       {"HTTP", "HTTPS"},
	"Toleration.effect":                          {"", "NoExecute", "NoSchedule", "PreferNoSchedule"},
}

// lists are values of fields that are lists of such words.
var lists = map[string][]string{
	"PersistentVolumeClaimSpec.accessModes": {"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"},
	"NetworkPolicySpec.policyTypes":         {"Egress", "Ingress"},
}

// oneOf judges a field that is one of several words.
func (c *checker) oneOf(value any, structName, field string, path []string) {
	name := structName[strings.LastIndexByte(structName, '.')+1:] + "." + field
	allowed, written := values[name], []any{value}
	if elements, ok := value.([]any); ok {
		allowed, written = lists[name], elements
	}
	for _, word := range written {
		word, ok := word.(string)
		if !ok || len(allowed) == 0 || slices.Contains(allowed, word) || word == "" {
			continue
		}
		hint := "write one of " + strings.Join(allowed, ", ")
		if near := nearest(word, allowed); near != "" {
			hint = "did you mean " + near + "?"
		}
		c.wrong(path, hint, "%.63q is none of %s", word, strings.Join(slices.DeleteFunc(slices.Clone(allowed), func(a string) bool { return a == "" }), ", "))
	}
}
