// Package plane starts a real Kubernetes API server with its etcd, built from source, for
// tests, and, where they ask for it, a real controller manager and scheduler with a node
// whose kubelet runs nothing and is made faulty on purpose. Without these, tests write the
// status of objects themselves. Only tests import it.
package plane

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"lehr.dev/test/freeport"
)

// patience bounds every wait; no test waits for it when all is well.
const patience = 2 * time.Minute

// token of an administrator.
const token = "tok-of-the-administrator"

// Plane is an API server and its etcd.
type Plane struct {
	testing.TB
	URL, Kubeconfig string
	client          *http.Client
	storage, server *process
	// folder of keys and certificates; data of etcd.
	folder, data string
	// lasts until the test ends that started the server.
	lasts context.Context
}

// For is the same server as another test uses it, whose failures are told as that test's.
func (p *Plane) For(t testing.TB) *Plane {
	if t == p.TB {
		return p
	}
	own := *p
	own.TB = t
	return &own
}

// checkout is the folder of Lehr's source, above the test's.
func checkout(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; folder != "/"; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "scripts", "keep-tool")); err == nil {
			return folder
		}
	}
	t.Fatal("the test does not stand in a checkout of Lehr")
	return ""
}

// Start runs an API server until the test ends, with more flags of its own where they are given.
func Start(t testing.TB, flags ...string) *Plane {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs an API server")
	}
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("etcd is not installed (Debian: apt-get install etcd-server)")
	}
	server := keepProgram(t, "kube-apiserver")
	folder := t.TempDir()
	store := fmt.Sprintf("http://127.0.0.1:%d", freeport.Row(t, 1))
	data := filepath.Join(folder, "etcd")
	storage := start(t, etcd, "--data-dir", data, "--listen-client-urls", store, "--advertise-client-urls", store,
		"--listen-peer-urls", fmt.Sprintf("http://127.0.0.1:%d", freeport.Row(t, 1)))
	write := func(name string, text []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, public := signingKey(t)
	port := freeport.Row(t, 1)
	api := start(t, server, append(flags, "--etcd-servers", store, "--cert-dir", filepath.Join(folder, "certs"), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port), "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file", write("sa.pub", public), "--service-account-signing-key-file", write("sa.key", key),
		"--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
		"--token-auth-file", write("tokens.csv", []byte(token+",admin,admin,\"system:masters\"\n")))...)
	p := &Plane{TB: t, URL: fmt.Sprintf("https://127.0.0.1:%d", port), storage: storage, server: api, folder: folder, data: data, lasts: t.Context()}
	p.trust(filepath.Join(folder, "certs", "apiserver.crt"))
	p.waitReady()
	p.Kubeconfig = write("kubeconfig", fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: here,
contexts: [{name: here, context: {cluster: real, user: admin}}],
clusters: [{name: real, cluster: {server: %q, certificate-authority: %q}}],
users: [{name: admin, user: {token: %s}}]}`, p.URL, filepath.Join(folder, "certs", "apiserver.crt"), token))
	return p
}

// trust makes the client that knows the certificate, once it is there.
func (p *Plane) trust(certificate string) {
	p.Helper()
	p.Wait("the API server's certificate", func() error {
		text, err := os.ReadFile(certificate)
		if err != nil {
			return err
		}
		known := x509.NewCertPool()
		if !known.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s has no certificate", certificate)
		}
		p.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known}}}
		return nil
	})
}

// Wait tries until there is no error, or time is up.
func (p *Plane) Wait(what string, try func() error) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.lasts, patience)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			p.Fatalf("waiting for %s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Ask sends a request as an administrator, and returns the answer.
func (p *Plane) Ask(method, path, content string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(p.lasts, method, p.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if content != "" {
		request.Header.Set("Content-Type", content)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return answer, err
}

// Object is what an API server holds, or a manifest of it.
type Object = map[string]any

// places are the paths of the kinds that the tests use; %s is the namespace.
var places = map[string]string{
	"Namespace": "/api/v1/namespaces", "ConfigMap": "/api/v1/namespaces/%s/configmaps", "Secret": "/api/v1/namespaces/%s/secrets",
	"Service": "/api/v1/namespaces/%s/services", "ServiceAccount": "/api/v1/namespaces/%s/serviceaccounts", "PersistentVolumeClaim": "/api/v1/namespaces/%s/persistentvolumeclaims",
	"Deployment": "/apis/apps/v1/namespaces/%s/deployments", "StatefulSet": "/apis/apps/v1/namespaces/%s/statefulsets", "ReplicaSet": "/apis/apps/v1/namespaces/%s/replicasets",
	"CronJob": "/apis/batch/v1/namespaces/%s/cronjobs", "Ingress": "/apis/networking.k8s.io/v1/namespaces/%s/ingresses",
	"HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/%s/horizontalpodautoscalers", "PodDisruptionBudget": "/apis/policy/v1/namespaces/%s/poddisruptionbudgets",
	"Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles", "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
	"ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles", "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	"Berth": "/apis/harbour.example/v1/namespaces/%s/berths",
}

// Path of an object.
func (p *Plane) Path(of Object) string {
	p.Helper()
	place, known := places[of["kind"].(string)]
	if !known {
		p.Fatalf("no path is known of a %s", of["kind"])
	}
	metadata := of["metadata"].(Object)
	if namespace, is := metadata["namespace"].(string); is {
		place = fmt.Sprintf(place, namespace)
	}
	return place + "/" + metadata["name"].(string)
}

// ServeKind has the server serve a kind of others, with any fields and without a controller.
func (p *Plane) ServeKind(group, version, kind, plural string) {
	p.Helper()
	definition := fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[4]s.%[1]s"},"spec":{"group":%[1]q,"scope":"Namespaced","names":{"kind":%[3]q,"plural":%[4]q},
"versions":[{"name":%[2]q,"served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, group, version, kind, plural)
	if _, err := p.Apply(definition, false); err != nil {
		p.Fatal(err)
	}
	p.Wait(kind+" to be served", func() error {
		_, err := p.Ask(http.MethodGet, fmt.Sprintf("/apis/%s/%s/%s", group, version, plural), "", nil)
		return err
	})
}

// Apply has the server hold a manifest, or say what it would hold.
func (p *Plane) Apply(manifest []byte, dryRun bool) (Object, error) {
	p.Helper()
	query := "?fieldManager=test&force=true"
	if dryRun {
		query = "?fieldManager=lehr&force=true&dryRun=All"
	}
	answer, err := p.Ask(http.MethodPatch, p.Path(p.Parse(manifest))+query, "application/apply-patch+yaml", manifest)
	if err != nil {
		return nil, err
	}
	return p.Parse(answer), nil
}

// Parse reads YAML or JSON of one object.
func (p *Plane) Parse(text []byte) (parsed Object) {
	p.Helper()
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		p.Fatalf("%v in\n%s", err, text)
	}
	return parsed
}

// shown is an object without what says when and by whom it was written.
func shown(o Object) string {
	metadata := o["metadata"].(Object)
	delete(metadata, "managedFields")
	text, _ := json.MarshalIndent(o, "", " ")
	return string(text)
}

// signingKey signs the tokens of service accounts.
func signingKey(t testing.TB) (private, public []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err = x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err = x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
}
