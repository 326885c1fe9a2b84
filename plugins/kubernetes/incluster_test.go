package main

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/sdk/serve"
)

// accountFolder is where Kubernetes mounts the credentials of a pod's service account.
const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// TestInACluster: where the list says in_cluster, the plugin takes the account that the cluster
// gives to its pod.
func TestInACluster(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("what a cluster mounts into pods lies where only root writes")
	}
	if _, err := os.Stat(accountFolder); err == nil {
		t.Skip("this test runs in a pod that has an account")
	}
	p := plane.Start(t)
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(accountFolder, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.RemoveAll(accountFolder)
		for folder := filepath.Dir(accountFolder); os.Remove(folder) == nil; folder = filepath.Dir(folder) { // Those that are empty now.
			if folder == "/var/run/secrets" {
				break
			}
		}
	})
	authority := config.CAData
	if len(authority) == 0 {
		if authority, err = os.ReadFile(config.CAFile); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string][]byte{"ca.crt": authority, "token": []byte(config.BearerToken)} {
		if err := os.WriteFile(filepath.Join(accountFolder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(address.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)

	list := filepath.Join(t.TempDir(), "clusters.yaml")
	if err := os.WriteFile(list, []byte("kubernetes-clusters: v1\nclusters: {real: {in_cluster: true, partitions: [shop]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, plane: p, list: list, kind: kindOf(t, list)}
	asset := c.asset(object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"default"},"data":{"a":"1"}}`))
	p.Wait("the namespace default", func() error {
		_, err := p.Ask("GET", "/api/v1/namespaces/default", "", nil)
		return err
	})
	c.mustPush(asset)
	if d := c.diff(asset); d.Outcome != serve.InSync {
		t.Errorf("it is %v %s", d.Outcome, d.Reason)
	}
	mustGet(t, p, "/api/v1/namespaces/default/configmaps/settings")
}
