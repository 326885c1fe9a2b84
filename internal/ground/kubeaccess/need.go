package kubeaccess

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/kubekind"
)

const (
	accessGroup = "rbac.authorization.k8s.io"
	// identityName is the namespace whose UID names a cluster.
	identityName = "kube-system"
)

// need gathers rules.
type need struct {
	options Options
	table   *kubekind.Table
	// rules by namespace, and then by all of a rule but its resources, which are gathered.
	rules map[string]map[string]*Rule
}

// allow adds a rule for one resource of a group. Rules that differ by the resource alone
// become one.
func (n *need) allow(namespace, group, plural string, names []string, reason string, verbs ...string) {
	rule := Rule{Groups: []string{group}, Resources: []string{plural}, Names: slices.Compact(slices.Sorted(slices.Values(names))), Verbs: verbs, Why: reason}
	key := group + "\x00" + strings.Join(rule.Names, ",") + "\x00" + strings.Join(verbs, ",") + "\x00" + reason
	if len(rule.Names) > 0 {
		key += "\x00" + plural // Names are of one kind.
	}
	n.add(namespace, key, rule)
}

func (n *need) add(namespace, key string, rule Rule) {
	if n.rules[namespace] == nil {
		n.rules[namespace] = map[string]*Rule{}
	}
	if known := n.rules[namespace][key]; known != nil {
		known.Resources = slices.Compact(slices.Sorted(slices.Values(append(known.Resources, rule.Resources...))))
		return
	}
	n.rules[namespace][key] = &rule
}

func (n *need) access() Access {
	access := Access{}
	for namespace, rules := range n.rules {
		for _, key := range slices.Sorted(maps.Keys(rules)) {
			access[namespace] = append(access[namespace], *rules[key])
		}
		slices.SortStableFunc(access[namespace], func(a, b Rule) int { return cmp.Compare(a.Why, b.Why) })
	}
	return access
}

// takeCluster is what is needed whatever the partition has.
func (n *need) takeCluster() {
	n.allow("", "", "namespaces", []string{identityName}, "the UID of kube-system names the cluster", "get", "list", "watch")
	if n.options.Observe {
		return
	}
	const why = "what predictions rest on; without it each object is predicted anew each 5 to 10 minutes"
	for _, plural := range []string{"namespaces", "limitranges"} {
		n.allow("", "", plural, nil, why, "list", "watch")
	}
	n.allow("", "apiextensions.k8s.io", "customresourcedefinitions", nil, why, "list", "watch")
	for _, plural := range []string{
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
	} {
		n.allow("", "admissionregistration.k8s.io", plural, nil, why, "list", "watch")
	}
}

// takeResource is what the objects of one kind and namespace need. Writes are by name where
// the kind has no namespace to bound them, and of Secrets all is by name.
func (n *need) takeResource(r *resource) {
	var readNames, writeNames []string
	isSecret := r.kind == "Secret" && r.group == ""
	if isSecret {
		readNames = r.all
	}
	if isSecret || r.namespace == "" {
		writeNames = r.kept
	}
	n.allow(r.namespace, r.group, r.plural, readNames, "compare", "get", "list", "watch")
	if n.options.Observe {
		if hasPods(r) {
			n.takePods(r)
		}
		return
	}
	if len(r.kept) > 0 {
		n.allow(r.namespace, r.group, r.plural, writeNames, "predict and push: a dry run needs the same right as the write", "create", "patch")
	}
	if len(r.deleted) > 0 {
		n.allow(r.namespace, r.group, r.plural, r.deleted, "delete what is turned down or replaced", "delete")
	}
	if isReplaced := slices.ContainsFunc(r.kept, func(name string) bool { return slices.Contains(r.deleted, name) }); isReplaced && writeNames != nil {
		n.allow(r.namespace, r.group, r.plural, nil, "ask whether an object would be accepted in place of another, which has no name yet", "create")
	}
	if hasPods(r) {
		n.takePods(r)
	}
}

// hasPods reports whether the pods of a kind say why it is not healthy.
func hasPods(r *resource) bool {
	return r.group == "apps" && slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}, r.kind) || r.group == "batch" && r.kind == "Job"
}

func (n *need) takePods(r *resource) {
	const why = "tell why a workload is not healthy, and what a Job did"
	n.allow(r.namespace, "", "pods", nil, why, "list", "watch")
	n.allow(r.namespace, "", "pods/log", nil, "tell the last lines that a container wrote when it ended", "get")
	n.allow(r.namespace, "", "events", nil, why, "list")
}

// takeGranted is what the API server asks of whoever writes roles and bindings: to have the
// rules of a role, and to be allowed to bind the one that a binding names.
func (n *need) takeGranted(o Object) {
	const why = "write roles: nobody may give what they may not do"
	switch o.full() {
	case "Role." + accessGroup, "ClusterRole." + accessGroup:
		if o.Content["aggregationRule"] != nil {
			n.allow(o.Namespace, accessGroup, strings.ToLower(o.Kind)+"s", []string{o.Name}, "write roles that gather the rules of others", "escalate")
		}
		rules, _ := o.Content["rules"].([]any)
		for _, one := range rules {
			fields, _ := one.(map[string]any)
			rule := Rule{
				Groups: readTexts(fields["apiGroups"]), Resources: readTexts(fields["resources"]), Names: readTexts(fields["resourceNames"]),
				URLs: readTexts(fields["nonResourceURLs"]), Verbs: readTexts(fields["verbs"]), Why: why,
			}
			key := strings.Join(slices.Concat(rule.Groups, rule.Resources, rule.Names, rule.URLs, rule.Verbs), "\x00")
			n.add(o.Namespace, why+key, rule)
		}
	case "RoleBinding." + accessGroup, "ClusterRoleBinding." + accessGroup:
		role, _ := o.Content["roleRef"].(map[string]any)
		kind, _ := role["kind"].(string)
		name, _ := role["name"].(string)
		if name != "" {
			n.allow(o.Namespace, accessGroup, strings.ToLower(kind)+"s", []string{name}, "bind roles", "bind")
		}
	}
}

// takeScaled is what tells which autoscaler sets a number of replicas that differs from intent's.
func (n *need) takeScaled(o Object) {
	if kind := o.full(); kind != "Deployment.apps" && kind != "StatefulSet.apps" {
		return
	}
	if spec, _ := o.Content["spec"].(map[string]any); spec["replicas"] != nil {
		n.allow(o.Namespace, "autoscaling", "horizontalpodautoscalers", nil, "tell which autoscaler sets a number of replicas", "list")
	}
}

// takeCalled is what tells whether a Service is ready that the API server calls once an object is there.
func (n *need) takeCalled(o Object) {
	const why = "make a webhook's configuration or an APIService once its Service is ready"
	allow := func(service any) {
		fields, _ := service.(map[string]any)
		namespace, _ := fields["namespace"].(string)
		name, _ := fields["name"].(string)
		if namespace == "" || name == "" {
			return
		}
		n.allow(namespace, "", "services", []string{name}, why, "get")
		n.allow(namespace, "discovery.k8s.io", "endpointslices", nil, why, "list")
	}
	switch o.full() {
	case "MutatingWebhookConfiguration.admissionregistration.k8s.io", "ValidatingWebhookConfiguration.admissionregistration.k8s.io":
		webhooks, _ := o.Content["webhooks"].([]any)
		for _, one := range webhooks {
			webhook, _ := one.(map[string]any)
			if webhook["failurePolicy"] == "Ignore" {
				continue // It is not waited for.
			}
			client, _ := webhook["clientConfig"].(map[string]any)
			allow(client["service"])
		}
	case "APIService.apiregistration.k8s.io":
		spec, _ := o.Content["spec"].(map[string]any)
		allow(spec["service"])
	}
}

// takeContent is what tells the data that goes with an object: all of a namespace, or all of
// a kind.
func (n *need) takeContent(o Object) {
	const why = "name the data that a turndown takes along"
	switch o.full() {
	case "Namespace":
		n.allow(o.Name, "*", "*", nil, why, "list")
		n.allow("", "apiextensions.k8s.io", "customresourcedefinitions", nil, why, "list")
	case "CustomResourceDefinition.apiextensions.k8s.io":
		if kind, ok := kubekind.Define(o.Content); ok {
			n.allow("", kind.Group, kind.Plural, nil, why, "list")
		}
	}
}

func readTexts(value any) (texts []string) {
	list, _ := value.([]any)
	for _, one := range list {
		if text, ok := one.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}
