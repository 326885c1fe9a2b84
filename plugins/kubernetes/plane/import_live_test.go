package plane

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ofArgo are the resources by which Argo CD is told what to apply, as a cluster has them.
var ofArgo = map[string]string{
	"/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects":  `{"apiVersion":"argoproj.io/v1alpha1","kind":"AppProject","metadata":{"name":"harbour"},"spec":{}}`,
	"/apis/argoproj.io/v1alpha1/namespaces/argocd/applications": `{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","metadata":{"name":"gate"},"spec":{"project":"harbour","destination":{"name":"in-cluster","namespace":"harbour"},"source":{"repoURL":"https://git.example.com/gitops.git","path":"gate"}}}`,
	"/api/v1/namespaces/argocd/configmaps":                      `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"argocd-rbac-cm"},"data":{"policy.csv":"p, role:crew, applications, sync, harbour/*, allow\ng, org:crew, role:crew\n"}}`,
	"/api/v1/namespaces/argocd/secrets":                         `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"cluster","labels":{"argocd.argoproj.io/secret-type":"cluster"}},"stringData":{"name":"far","server":"https://far.example.com","config":"hush-hush"}}`,
}

// importOfArgo reads what Argo CD applies live from a cluster, with the roles that it grants, and without a secret.
func importOfArgo(t *testing.T, p *Plane, lehr string) {
	t.Helper()
	post := func(path, object string) {
		t.Helper()
		p.Wait(path+" to be served", func() error {
			_, err := p.Ask(http.MethodPost, path, "application/json", []byte(object))
			if err != nil && strings.Contains(err.Error(), "AlreadyExists") {
				return nil
			}
			return err
		})
	}
	post("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"argocd"}}`)
	for kind, plural := range map[string]string{"AppProject": "appprojects", "Application": "applications", "ApplicationSet": "applicationsets"} {
		p.ServeKind("argoproj.io", "v1alpha1", kind, plural)
	}
	for path, object := range ofArgo {
		post(path, object)
	}
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "gate"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "gate", "gate.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gate}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(t.TempDir(), "made")
	said, err := exec.CommandContext(t.Context(), lehr, "import", "argocd", "--live", "--kubeconfig", p.Kubeconfig, "--checkout", "https://git.example.com/gitops.git="+folder, "--to", made).CombinedOutput()
	if err != nil {
		t.Fatalf("lehr import argocd --live: %v\n%s", err, said)
	}
	text := readFile(t, filepath.Join(made, "lehr.yaml"))
	for _, want := range []string{`"gate": {render: kubernetes`, `operator: ["group:org:crew"]`} {
		if !strings.Contains(text, want) {
			t.Errorf("the definition has no %s:\n%s\n%s", want, text, said)
		}
	}
	if strings.Contains(text+string(said), "hush-hush") {
		t.Errorf("a secret is copied:\n%s", text)
	}
}
