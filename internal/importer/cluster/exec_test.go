package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/test/freeport"
)

// program writes a shell script that stands for one of a cloud, and returns its path.
func program(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "login")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestExecCredentials: programs that log in are run as kubectl runs them, with their arguments
// and variables, and told of the cluster where they ask for it; what is wrong with one is said,
// and never what it printed.
func TestExecCredentials(t *testing.T) {
	f := newFake(t)
	const printed = `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/%s","status":{"token":"` + token + `"}}`
	for name, test := range map[string]struct{ user, want string }{
		"EKS": {fmt.Sprintf(`exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: %q, args: [eks, get-token, --cluster-name, shop], env: [{name: AWS_PROFILE, value: prod}]}`,
			program(t, `test "$1 $2 $4 $AWS_PROFILE" = "eks get-token shop prod" || exit 3
echo '`+fmt.Sprintf(printed, "v1beta1")+`'`)), ""},
		"GKE": {fmt.Sprintf(`exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: %q, provideClusterInfo: true, installHint: Install gke-gcloud-auth-plugin}`,
			program(t, `case "$KUBERNETES_EXEC_INFO" in *'"server":"`+f.URL+`"'*) echo '`+fmt.Sprintf(printed, "v1beta1")+`';; *) exit 4;; esac`)), ""},
		"AKS": {fmt.Sprintf(`exec: {apiVersion: client.authentication.k8s.io/v1, command: %q, args: [get-token, --server-id, x], interactiveMode: IfAvailable}`,
			program(t, `case "$KUBERNETES_EXEC_INFO" in *'"interactive":false'*) echo '`+fmt.Sprintf(printed, "v1")+`';; *) exit 4;; esac`)), ""},
		"one that fails":          {fmt.Sprintf(`exec: {command: %q}`, program(t, "echo the session has ended >&2; exit 1")), "the session has ended"},
		"one that prints nothing": {fmt.Sprintf(`exec: {command: %q}`, program(t, "echo hush-hush")), "printed no ExecCredential"},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := imported(t, "--kubeconfig", f.kubeconfig(t, test.user))
			switch {
			case test.want == "" && err != nil:
				t.Fatal(err)
			case test.want == "" && len(made.Files) == 0:
				t.Error("nothing was imported")
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hush")):
				t.Errorf("it says %v", err)
			}
		})
	}
}

// TestAllContexts: of a kubeconfig with ten contexts of which three are dead, the others are
// imported, each cluster once, and the dead ones are told.
func TestAllContexts(t *testing.T) {
	f, other := newFake(t), newFake(t)
	gone := freeport.Address(t)
	path := f.kubeconfig(t, "token: "+token)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	authority := strings.SplitN(strings.SplitN(string(text), "certificate-authority-data: ", 2)[1], "}", 2)[0]
	var contexts, clusters []string
	for i := range 10 {
		address := f.URL
		switch {
		case i == 3:
			address = "https://" + gone
		case i == 5:
			address = "https://name.invalid:6443"
		case i == 7:
			address = strings.Replace(other.URL, "127.0.0.1", "localhost", 1) // Its certificate is of another name.
		}
		name := fmt.Sprintf("c%d", i)
		if i == 9 {
			name = "c0"
		}
		contexts = append(contexts, fmt.Sprintf("{name: context-%d, context: {cluster: %s, user: u}}", i, name))
		if i < 9 {
			clusters = append(clusters, fmt.Sprintf("{name: c%d, cluster: {server: %q, certificate-authority-data: %s}}", i, address, authority))
		}
	}
	write := fmt.Sprintf("{apiVersion: v1, kind: Config, contexts: [%s], clusters: [%s], users: [{name: u, user: {token: %s}}]}", strings.Join(contexts, ", "), strings.Join(clusters, ", "), token)
	if err := os.WriteFile(path, []byte(write), 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := imported(t, "--kubeconfig", path, "--all-contexts")
	if err != nil {
		t.Fatal(err)
	}
	dead, twice := 0, 0
	for _, left := range made.LeftOut {
		switch {
		case left.Wrong:
			dead++
		case strings.Contains(left.Why, "leads to the cluster c0"):
			twice++
		}
	}
	if dead != 3 || twice != 1 {
		t.Errorf("%d are dead, %d are there twice: %+v", dead, twice, made.LeftOut)
	}
	for _, name := range []string{"c0", "c1", "c8"} {
		if made.Files["manifests/"+name+"/shop/deployment-web.yaml"] == nil || !strings.Contains(made.Definition, "cluster: "+name) {
			t.Errorf("%s was not imported:\n%s", name, made.Definition)
		}
	}
	if _, err := imported(t, "--kubeconfig", f.kubeconfig(t, "token: other"), "--all-contexts"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("of none that can be read it says %v", err)
	}
}

// TestMakers: what Helm, Flux and Argo CD apply is told apart by what each leaves in it.
func TestMakers(t *testing.T) {
	for name, test := range map[string]struct {
		metadata   map[string]any
		tool, from string
	}{
		"a Kustomization": {map[string]any{"labels": map[string]any{"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}}, "Flux", "Kustomization flux-system/apps"},
		"a HelmRelease":   {map[string]any{"labels": map[string]any{"helm.toolkit.fluxcd.io/name": "web", "helm.toolkit.fluxcd.io/namespace": "shop", "app.kubernetes.io/managed-by": "Helm"}, "annotations": map[string]any{"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"}}, "Flux", "HelmRelease shop/web"},
		"an Application":  {map[string]any{"annotations": map[string]any{"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/web"}}, "Argo CD", "Application shop"},
		"its manager":     {map[string]any{"managedFields": []any{map[string]any{"manager": "argocd-controller"}}}, "Argo CD", "Application"},
		"a release":       {map[string]any{"annotations": map[string]any{"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"}}, "Helm", "release shop/web"},
		"by hand":         {map[string]any{"managedFields": []any{map[string]any{"manager": "kubectl-client-side-apply"}}, "labels": map[string]any{"app.kubernetes.io/managed-by": "me"}}, "", ""},
	} {
		m, ok := makerOf(map[string]any{"metadata": test.metadata})
		if ok != (test.tool != "") || m.tool != test.tool || !strings.Contains(m.source, test.from) {
			t.Errorf("%s is %+v, %v", name, m, ok)
		}
	}
}

// TestAppliers: two tools that apply one object are told.
func TestAppliers(t *testing.T) {
	managed := func(names ...string) map[string]any {
		var list []any
		for _, name := range names {
			list = append(list, map[string]any{"manager": name})
		}
		return map[string]any{"metadata": map[string]any{"name": "web", "managedFields": list}}
	}
	for want, item := range map[string]map[string]any{
		"Argo CD and Flux": managed("kustomize-controller", "argocd-controller", "kube-controller-manager", "helm-controller"),
		"Helm":             managed("helm", "kubectl-edit"),
		"":                 managed("kubectl-client-side-apply"),
	} {
		if got := strings.Join(appliersOf(item), " and "); got != want {
			t.Errorf("%s apply it, want %s", got, want)
		}
	}
	s := survey{server: &server{name: "shop"}, surveyOptions: surveyOptions{managed: true}, manifests: map[string][]byte{}, kinds: map[string]int{}, omissions: map[string]int{}}
	if err := s.take(resource{Kind: "ConfigMap", Namespaced: true, version: "v1"}, managed("helm", "argocd-controller")); err != nil {
		t.Fatal(err)
	}
	if len(s.leftOut) != 1 || !strings.Contains(s.leftOut[0].Why, "Argo CD and Helm apply it") || len(s.manifests) != 1 {
		t.Errorf("it is told %v, and written are %d", s.leftOut, len(s.manifests))
	}
}
