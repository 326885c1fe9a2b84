package main

import (
	"strings"
	"testing"

	"lehr.dev/sdk/generator/kubernetes"
)

// deployment with places to put faults into.
const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      volumes: [{name: data, emptyDir: {}}]
      containers:
      - name: web
        image: web:1
        env: [{name: PORT, value: "8080"}]
        ports: [{name: http, containerPort: 8080}]
        resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {memory: 1Gi}}
        volumeMounts: [{name: data, mountPath: /data}]
`

const cronJob = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec:\n  schedule: SCHEDULE\n  jobTemplate:\n    spec:\n      template:\n        spec: {restartPolicy: Never, containers: [{name: a, image: b}]}\n"

// TestFaults: each fault is told once, where it is, and what is well is not.
func TestFaults(t *testing.T) {
	replaced := func(old, new string) string {
		if !strings.Contains(deployment, old) {
			t.Fatalf("the deployment has no %q", old)
		}
		return strings.Replace(deployment, old, new, 1)
	}
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: SELECTED}, ports: [{port: 80, targetPort: http}]}\n"
	for name, test := range map[string]struct{ manifest, field, message, hint string }{
		"all is well":           {deployment, "", "", ""},
		"a misspelt field":      {replaced("replicas: 2", "replcas: 2"), ".spec.replcas", "knows no such field here", "did you mean replicas?"},
		"a text for a number":   {replaced("replicas: 2", `replicas: "3"`), ".spec.replicas", "is a text, and a number is wanted", "write it without quotes"},
		"half a replica":        {replaced("replicas: 2", "replicas: 2.5"), ".spec.replicas", "is no whole number", "write a whole number"},
		"a number in env":       {replaced(`value: "8080"`, "value: 8080"), ".spec.template.spec.containers[0].env[0].value", "is a number, and a text is wanted", "quote it"},
		"a truth value in env":  {replaced(`value: "8080"`, "value: true"), ".spec.template.spec.containers[0].env[0].value", "is a truth value, and a text is wanted", "quote it"},
		"a label":               {replaced("labels: {app: web}}\nspec", "labels: {app: web, version: 1.10}}\nspec"), ".metadata.labels.version", "is the number 1.1, and a text is wanted", "quote what is meant: YAML reads 1.10 as 1.1"},
		"a quantity":            {replaced("limits: {memory: 1Gi}", "limits: {memory: 1GiB}"), ".spec.template.spec.containers[0].resources.limits.memory", `"1GiB" is no quantity`, "did you mean 1Gi?"},
		"a request too large":   {replaced("memory: 1Gi}, limits", "memory: 2Gi}, limits"), ".spec.template.spec.containers[0].resources.requests.memory", "2Gi of memory are requested, and the limit is 1Gi", "lower the request"},
		"thousandths of bytes":  {replaced("limits: {memory: 1Gi}", "limits: {memory: 1073741824001m}"), ".spec.template.spec.containers[0].resources.limits.memory", "is a fraction of a byte", "M?"},
		"the selector":          {replaced("matchLabels: {app: web}", "matchLabels: {app: wbe}"), ".spec.selector.matchLabels.app", "does not match the labels of the template", "the same labels"},
		"no selector":           {replaced("selector: {matchLabels: {app: web}}", "minReadySeconds: 1"), ".spec", "has no selector", "matchLabels"},
		"a mount":               {replaced("volumeMounts: [{name: data,", "volumeMounts: [{name: dta,"), ".spec.template.spec.containers[0].volumeMounts[0].name", `there is no volume "dta"`, "did you mean data?"},
		"a container's name":    {replaced("- name: web\n", "- name: Web_1\n"), ".spec.template.spec.containers[0].name", "a lowercase RFC 1123 label", ""},
		"no container's name":   {replaced("- name: web\n        image", "- image"), ".spec.template.spec.containers[0]", "has no name", "write it"},
		"a port":                {replaced("containerPort: 8080", "containerPort: 80800"), ".spec.template.spec.containers[0].ports[0].containerPort", "80800 is no port", "from 1 to 65535"},
		"a word":                {replaced("image: web:1", "image: web:1\n        imagePullPolicy: Allways"), ".spec.template.spec.containers[0].imagePullPolicy", `"Allways" is none of Always, IfNotPresent, Never`, "did you mean Always?"},
		"a mapping for a list":  {replaced("volumes: [{name: data, emptyDir: {}}]", "volumes: {name: data}"), ".spec.template.spec.volumes", "is a mapping, and a list is wanted", "- before each element"},
		"a kind":                {replaced("kind: Deployment", "kind: Deploymnet"), ".kind", "has no apps/v1 Deploymnet", "did you mean Deployment?"},
		"a group":               {replaced("apiVersion: apps/v1", "apiVersion: v1"), ".apiVersion", "has no v1 Deployment", "write apps/v1 Deployment"},
		"a removed version":     {replaced("apiVersion: apps/v1", "apiVersion: extensions/v1beta1"), ".apiVersion", "was removed in Kubernetes 1.16, and the cluster has 1.37", "write apps/v1 Deployment"},
		"removed from the API":  {"apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\n", ".apiVersion", "was removed in Kubernetes 1.26", "write autoscaling/v2 HorizontalPodAutoscaler"},
		"removed for nothing":   {"apiVersion: policy/v1beta1\nkind: PodSecurityPolicy\nmetadata: {name: a}\n", ".apiVersion", "was removed in Kubernetes 1.25", "nothing replaces it"},
		"a deprecated version":  {"apiVersion: v1\nkind: Endpoints\nmetadata: {name: a}\n", ".apiVersion", "is deprecated since Kubernetes 1.33", "write discovery.k8s.io/v1 EndpointSlice"},
		"a schedule":            {strings.Replace(cronJob, "SCHEDULE", `"61 25 * * *"`, 1), ".spec.schedule", `"61 25 * * *" is no schedule: end of range (61) above maximum (59)`, "MINUTE HOUR DAY MONTH WEEKDAY"},
		"a schedule of seconds": {strings.Replace(cronJob, "SCHEDULE", `"0 1 2 * * *"`, 1), ".spec.schedule", "expected exactly 5 fields", "MINUTE HOUR"},
		"the 30th of February":  {strings.Replace(cronJob, "SCHEDULE", `"0 0 30 2 *"`, 1), ".spec.schedule", "never comes", "a day that there is"},
		"a schedule that is":    {strings.Replace(cronJob, "SCHEDULE", `"*/5 9-17 * * mon-fri"`, 1), "", "", ""},
		"a zone":                {strings.Replace(cronJob, "SCHEDULE", "\"@daily\"\n  timeZone: Europe/Lodnon", 1), ".spec.timeZone", `"Europe/Lodnon" is no time zone`, "Europe/London"},
		"a service of pods":     {deployment + "---\n" + strings.Replace(service, "SELECTED", "web", 1), "", "", ""},
		"a misspelt service":    {deployment + "---\n" + strings.Replace(service, "SELECTED", "wbe", 1), ".spec.selector.app", "it selects none of them", "did you mean web?"},
		"a service for others":  {deployment + "---\n" + strings.Replace(service, "SELECTED", "kube-dns", 1), "", "", ""},
		"a name":                {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Web_1}\n", ".metadata.name", `the name "Web_1": a lowercase RFC 1123 subdomain`, ""},
		"a label's value":       {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a: 'b c'}}\n", ".metadata.labels.a", `the label "b c"`, ""},
		"content":               {"apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: a}\nwebhooks: [{name: a.example.com, clientConfig: {url: 'https://a', caBundle: '__CA__'}}]\n", ".webhooks[0].clientConfig.caBundle", "is not base64", "base64"},
		"a subject":             {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: a}\nroleRef: {kind: ClusterRole, name: view}\nsubjects: [{kind: ServiceAccount, name: a}]\n", ".subjects[0]", "a ServiceAccount has no namespace", "write the namespace"},
		"no containers":         {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "", "has no containers", "at least one"},
		"a role's name":         {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'system:Reader'}\nrules: []\n", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := judge(t, []string{"--version=1.37"}, nil, kubernetes.Manifest{File: "a.yaml", Text: []byte(test.manifest)})
			if test.message == "" {
				if len(found) > 0 {
					t.Errorf("it is well, and the check says %s", found)
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("it says %d things: %s", len(found), found)
			}
			if f := found[0]; f.field != "payload.json"+test.field || !strings.Contains(f.message, test.message) || !strings.Contains(f.hint, test.hint) {
				t.Errorf("it says %s", f)
			}
		})
	}
}

// TestSecretValues: what may be secret is not said.
func TestSecretValues(t *testing.T) {
	manifest := strings.Replace(deployment, `value: "8080"`, "value: 48291", 1)
	for _, f := range judge(t, []string{"--version=1.37"}, nil, kubernetes.Manifest{File: "a.yaml", Text: []byte(manifest)}) {
		if strings.Contains(f.String(), "48291") {
			t.Errorf("it says the value: %s", f)
		}
	}
}

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: queues.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Queue, plural: queues}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            x-kubernetes-validations:
            - {rule: "self.size <= self.most", message: size is at most most}
            properties:
              size: {type: integer}
              most: {type: integer, default: 10}
              mode: {type: string, enum: [fast, safe]}
`

// TestCustomResources: a definition of the partition, or in a file, is the law of its kind: its
// schema, its defaults and its rules.
func TestCustomResources(t *testing.T) {
	queue := "apiVersion: example.com/v1\nkind: Queue\nmetadata: {name: a}\nspec: {size: 3}\n"
	for name, test := range map[string]struct{ manifest, field, message, hint string }{
		"all is well":          {queue, "", "", ""},
		"a misspelt field":     {strings.Replace(queue, "size: 3", "size: 3, msot: 5", 1), ".spec.msot", "knows no such field", "did you mean most?"},
		"a type":               {strings.Replace(queue, "size: 3", `size: "3"`, 1), ".spec.size", "must be of type integer", ""},
		"a word":               {strings.Replace(queue, "size: 3", "size: 3, mode: fats", 1), ".spec.mode", "is none of the values", `"fast"`},
		"what must be there":   {strings.Replace(queue, "size: 3", "most: 3", 1), ".spec", "has no size", "write it"},
		"a rule, by a default": {strings.Replace(queue, "size: 3", "size: 11", 1), ".spec", "size is at most most", ""},
		"another version":      {strings.Replace(queue, "example.com/v1", "example.com/v2", 1), ".apiVersion", "does not serve example.com/v2 Queue", "write example.com/v1"},
		"another kind":         {strings.Replace(queue, "Queue", "Stack", 1), "", "its definition is not here", "CustomResourceDefinition"},
	} {
		t.Run(name, func(t *testing.T) {
			object := kubernetes.Manifest{File: "a.yaml", Text: []byte(test.manifest)}
			inFile := judge(t, []string{"--version=1.36"}, map[string]string{"definitions/queue.yaml": "# first\n---\n" + definition}, object)
			inPartition := judge(t, []string{"--version=1.36"}, nil, object, kubernetes.Manifest{File: "b.yaml", Text: []byte(definition)})
			for _, found := range [][]said{inFile, inPartition} {
				if test.message == "" && len(found) == 0 {
					continue
				}
				if len(found) != 1 || !strings.Contains(found[0].message, test.message) || found[0].field != "payload.json"+test.field || !strings.Contains(found[0].hint, test.hint) {
					t.Errorf("it says %s", found)
				}
			}
		})
	}
	broken := strings.Replace(definition, "size: {type: integer}", "size: {}", 1)
	found := judge(t, []string{"--version=1.36"}, map[string]string{"queue.yaml": broken}, kubernetes.Manifest{File: "a.yaml", Text: []byte(queue)})
	if len(found) != 1 || !strings.HasPrefix(found[0].asset, "queue.yaml") || !strings.Contains(found[0].message, "cannot be read") {
		t.Errorf("of a definition that is none it says %s", found)
	}
	if found := judge(t, []string{"--version=1.36", "--definitions=required"}, nil, kubernetes.Manifest{File: "a.yaml", Text: []byte(queue)}); len(found) != 1 || found[0].warning {
		t.Errorf("with definitions required it says %s", found)
	}
}
