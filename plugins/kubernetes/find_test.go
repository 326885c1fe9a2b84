package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/test/building"
)

// TestAPodLeadsToItsAsset: lehr find follows the owners of a pod in a real cluster to the
// object that intent has.
func TestAPodLeadsToItsAsset(t *testing.T) {
	p := plane.Start(t)
	folder := t.TempDir()
	lehr := filepath.Join(folder, "lehr")
	definition := "lehr: v1\npartition: shop\nsources: {m: {dir: manifests, files: ['*.yaml']}}\nmodels: [lehr.kubernetes.v1.Object]\ngenerate: {plain: {render: kubernetes, from: [m], with: {cluster: real}}}\n"
	if err := errors.Join((building.Program{Of: "../../cmd/lehr"}).At(lehr), os.Mkdir(filepath.Join(folder, "manifests"), 0o700),
		os.WriteFile(filepath.Join(folder, "lehr.yaml"), []byte(definition), 0o600),
		os.WriteFile(filepath.Join(folder, "manifests", "web.yaml"), []byte(deployment("default", "")), 0o600)); err != nil {
		t.Fatal(err)
	}
	// What a controller manager makes of a Deployment.
	owner := func(path, body string) string {
		t.Helper()
		var answer []byte
		p.Wait("the namespace default", func() (err error) {
			answer, err = p.Ask(http.MethodPost, path, "application/json", []byte(body))
			return err
		})
		return p.Parse(answer)["metadata"].(map[string]any)["uid"].(string)
	}
	owned := func(kind, name, version, ownerKind, ownerName, uid, spec string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"app":"web"},"ownerReferences":[{"apiVersion":"apps/v1","kind":%q,"name":%q,"uid":%q,"controller":true}]},"spec":%s}`,
			version, kind, name, ownerKind, ownerName, uid, spec)
	}
	const containers = `{"containers":[{"name":"web","image":"shop/web:v1"}]}`
	uid := owner(deployments+"default/deployments", deployment("default", ""))
	uid = owner("/apis/apps/v1/namespaces/default/replicasets", owned("ReplicaSet", "web-1", "apps/v1", "Deployment", "web", uid,
		`{"replicas":1,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":`+containers+`}}`))
	owner("/api/v1/namespaces/default/pods", owned("Pod", "web-1-x", "v1", "ReplicaSet", "web-1", uid, containers))
	owner("/api/v1/namespaces/default/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"alone"},"spec":`+containers+`}`)

	startServer(t, folder, lehr, "1m")
	find := func(arguments ...string) (string, error) {
		command := exec.CommandContext(t.Context(), lehr, append([]string{"find", "--store", filepath.Join(folder, "store"), "-n", "default"}, arguments...)...)
		command.Dir, command.Env = folder, append(os.Environ(), "HOME="+folder, "LEHR_SERVER=", "KUBECONFIG="+p.Kubeconfig)
		said, err := command.CombinedOutput()
		return string(said), err
	}
	p.Wait("the partition", func() error {
		said, err := find("deploy/web")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return err
	})
	for _, object := range []string{"pod/web-1-x", "rs/web-1"} {
		said, err := find(object, "--owners")
		for _, want := range []string{"owned by ", "deployment.apps/web -n default", "kubernetes/real/default/deployment.apps/web", "manifests/web.yaml:1"} {
			if err != nil || !strings.Contains(said, want) {
				t.Errorf("%s gives, with %v and not with %q:\n%s", object, err, want, said)
			}
		}
	}
	for object, want := range map[string]string{"pod/alone": "in the cluster nothing owns it", "pod/none": "no such object"} {
		if said, err := find(object, "--owners"); err == nil || !strings.Contains(said, want) {
			t.Errorf("%s gives %v, %s", object, err, said)
		}
	}
}
