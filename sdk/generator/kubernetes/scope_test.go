package kubernetes_test

import (
	"strings"
	"testing"

	"lehr.dev/sdk/generator/kubernetes"
)

// TestScopes: a custom resource without its definition gets a namespace unless its kind
// is known to have none; where only its name says so, a warning asks.
func TestScopes(t *testing.T) {
	for object, want := range map[string]string{
		"karpenter.sh/v1 NodePool":                      "nodepool.karpenter.sh/a",
		"kyverno.io/v1 ClusterPolicy":                   "clusterpolicy.kyverno.io/a",
		"kyverno.io/v1 Policy":                          "shop/policy.kyverno.io/a",
		"constraints.gatekeeper.sh/v1beta1 K8sAnyone":   "k8sanyone.constraints.gatekeeper.sh/a",
		"s3.aws.upbound.io/v1beta1 Bucket":              "bucket.s3.aws.upbound.io/a",
		"aws.upbound.io/v1beta1 ProviderConfig":         "providerconfig.aws.upbound.io/a",
		"s3.aws.m.upbound.io/v1beta1 Bucket":            "shop/bucket.s3.aws.m.upbound.io/a",
		"external-secrets.io/v1 ClusterSecretStore":     "clustersecretstore.external-secrets.io/a",
		"operators.coreos.com/v1 ClusterServiceVersion": "shop/clusterserviceversion.operators.coreos.com/a",
		"example.com/v1 Widget":                         "shop/widget.example.com/a",
		"example.com/v1 Clustered":                      "shop/clustered.example.com/a",
		"example.com/v1 ClusterWidget":                  "shop/clusterwidget.example.com/a ClusterWidget.example.com a is taken to be in the namespace shop",
		"example.com/v1 Tenant":                         "tenant.example.com/a",
	} {
		version, kind, _ := strings.Cut(object, " ")
		settings := kubernetes.Settings{Cluster: "c", Namespace: "shop", ClusterScoped: []string{"Tenant.example.com"}}
		text := "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: a}\n"
		objects, findings := kubernetes.Read([]kubernetes.Manifest{{File: "a.yaml", Text: []byte(text)}}, settings)
		want, warning, warned := strings.Cut(want, " ")
		if len(objects) != 1 || objects[0].ID != "kubernetes/c/"+want {
			t.Errorf("%s is %v, want %s", object, objects, want)
		}
		if warned != (len(findings) == 1) || warned && (!findings[0].Warning || findings[0].Line != 1 || !strings.Contains(findings[0].Message, warning) || !strings.Contains(findings[0].Hint, "cluster_scoped: "+kind+".example.com")) {
			t.Errorf("%s: %+v", object, findings)
		}
		written := strings.Replace(text, "{name: a}", "{name: a, namespace: other}", 1)
		if _, findings := kubernetes.Read([]kubernetes.Manifest{{File: "a.yaml", Text: []byte(written)}}, settings); len(findings) > 0 {
			t.Errorf("%s with a namespace: %+v", object, findings)
		}
	}
	const definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\nspec: {group: kyverno.io, scope: Namespaced, names: {kind: ClusterPolicy}}\n---\n"
	objects := read(t, definition+"apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: a}\n")
	if objects[1].Payload.Namespace != "default" {
		t.Errorf("a definition is not believed: %v", objects)
	}
	files := map[string][]byte{
		"a.yaml":      []byte("a: 1\n---\n" + strings.Replace(definition, "Namespaced", "Cluster", 1)),
		"chart/x.tpl": []byte("{{ CustomResourceDefinition }}: [\n"),
	}
	if kinds := kubernetes.ClusterKinds(files); len(kinds) != 1 || kinds[0] != "ClusterPolicy.kyverno.io" {
		t.Errorf("files define %v", kinds)
	}
}

// TestKustomizations: what is for Kustomize is known by any of what says so, and another's
// kind of the same name is an object.
func TestKustomizations(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"a.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\n", "a Kustomization is for Kustomize"},
		{"a.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nresources: [b.yaml]\n", "a Kustomization is for Kustomize"},
		{"a.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n", "a Component is for Kustomize"},
		{"a.yaml", "kind: Kustomization\nresources: [b.yaml]\n", "a Kustomization is for Kustomize"},
		{"x/kustomization.yaml", "resources: [b.yaml]\n", "a Kustomization is for Kustomize"},
		{"a.yaml", "resources: [b.yaml]\n", "an object has no apiVersion or kind"},
		{"a.yaml", "apiVersion: v2\nname: chart\n", "an object has no apiVersion or kind"},
		{"a.yaml", "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\n", ""},
	} {
		objects, findings := kubernetes.Read([]kubernetes.Manifest{{File: c.file, Text: []byte(c.text)}}, settings)
		if c.want == "" {
			if len(objects) != 1 || len(findings) > 0 {
				t.Errorf("%s: %v %+v", c.text, objects, findings)
			}
			continue
		}
		if len(findings) != 1 || !strings.Contains(findings[0].Message, c.want) || findings[0].Line != 1 {
			t.Errorf("%s %q: %+v, want %s", c.file, c.text, findings, c.want)
		}
	}
}
