package cluster

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/importer"
	"lehr.dev/sdk/generator"
	"lehr.dev/sdk/generator/kubernetes"
)

const token = "tok-hush-1"

// answers are those of an API server of version 1.36 to its paths, shortened.
var answers = map[string]string{
	"/apis": `{"kind":"APIGroupList","groups":[
		{"name":"apps","preferredVersion":{"groupVersion":"apps/v1","version":"v1"}},
		{"name":"rbac.authorization.k8s.io","preferredVersion":{"groupVersion":"rbac.authorization.k8s.io/v1","version":"v1"}},
		{"name":"example.com","preferredVersion":{"groupVersion":"example.com/v1beta1","version":"v1beta1"}}]}`,
	"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[
		{"name":"bindings","singularName":"binding","namespaced":true,"kind":"Binding","verbs":["create"]},
		{"name":"configmaps","namespaced":true,"kind":"ConfigMap","verbs":["create","get","list"]},
		{"name":"events","namespaced":true,"kind":"Event","verbs":["get","list"]},
		{"name":"namespaces","namespaced":false,"kind":"Namespace","verbs":["get","list"]},
		{"name":"namespaces/status","namespaced":false,"kind":"Namespace","verbs":["get"]},
		{"name":"secrets","namespaced":true,"kind":"Secret","verbs":["get","list"]},
		{"name":"services","namespaced":true,"kind":"Service","verbs":["get","list"]}]}`,
	"/apis/apps/v1": `{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[
		{"name":"deployments","namespaced":true,"kind":"Deployment","verbs":["get","list"]},
		{"name":"replicasets","namespaced":true,"kind":"ReplicaSet","verbs":["get","list"]}]}`,
	"/apis/rbac.authorization.k8s.io/v1": `{"kind":"APIResourceList","groupVersion":"rbac.authorization.k8s.io/v1","resources":[
		{"name":"clusterroles","namespaced":false,"kind":"ClusterRole","verbs":["get","list"]}]}`,
	"/apis/example.com/v1beta1": `{"kind":"APIResourceList","groupVersion":"example.com/v1beta1","resources":[
		{"name":"stages","namespaced":false,"kind":"Stage","verbs":["get","list"]},
		{"name":"locked","namespaced":true,"kind":"Locked","verbs":["get","list"]}]}`,
	"/api/v1/namespaces": `{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"300"},"items":[
		{"metadata":{"name":"default","uid":"u1"},"spec":{"finalizers":["kubernetes"]}},
		{"metadata":{"name":"kube-system","uid":"u2"}},
		{"metadata":{"name":"shop","uid":"u3","resourceVersion":"41","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"kubernetes.io/metadata.name":"shop","team":"a"},"managedFields":[{"manager":"kubectl"}]},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}]}`,
	"/api/v1/configmaps": `{"items":[
		{"metadata":{"name":"kube-root-ca.crt","namespace":"shop"},"data":{"ca.crt":"x"}},
		{"metadata":{"name":"coredns","namespace":"kube-system"},"data":{"a":"b"}},
		{"metadata":{"name":"leaky","namespace":"shop"},"data":{"url":"postgres://me:tok-hush-2@db/shop"}},
		{"metadata":{"name":"knobs","namespace":"shop","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},"data":{"on":"yes"}}]}`,
	"/api/v1/services": `{"items":[
		{"metadata":{"name":"kubernetes","namespace":"default"},"spec":{"clusterIP":"10.0.0.1"}},
		{"metadata":{"name":"web","namespace":"shop","uid":"u7"},"spec":{"clusterIP":"10.0.0.9","clusterIPs":["10.0.0.9"],"ports":[{"port":80,"targetPort":8080,"protocol":"TCP"}],"selector":{"app":"web"},"sessionAffinity":"None","type":"ClusterIP"},"status":{"loadBalancer":{}}}]}`,
	"/apis/apps/v1/deployments": `{"metadata":{"continue":"more"},"items":[
		{"metadata":{"name":"web","namespace":"shop","uid":"u8","generation":3,"annotations":{"deployment.kubernetes.io/revision":"3"}},"spec":{"replicas":2,"progressDeadlineSeconds":600,"revisionHistoryLimit":5,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"creationTimestamp":null,"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:1","env":[{"name":"BIG","value":"1"}],"resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":45}}},"status":{"replicas":2}}]}`,
	"/apis/apps/v1/deployments?continue": `{"metadata":{},"items":[{"metadata":{"name":"going","namespace":"shop","deletionTimestamp":"2026-01-01T00:00:00Z"}},{"metadata":{"name":"worker","namespace":"shop"},"spec":{"replicas":1}}]}`,
	"/apis/apps/v1/replicasets":          `{"items":[{"metadata":{"name":"web-1","namespace":"shop","ownerReferences":[{"kind":"Deployment","name":"web"}]}}]}`,
	"/apis/rbac.authorization.k8s.io/v1/clusterroles": `{"items":[
		{"metadata":{"name":"admin","labels":{"kubernetes.io/bootstrapping":"rbac-defaults"}}},
		{"metadata":{"name":"shop:reader"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}]}`,
	"/apis/example.com/v1beta1/stages": `{"items":[{"apiVersion":"example.com/v1beta1","kind":"Stage","metadata":{"name":"main"},"spec":{"seats":9007199254740993}}]}`,
}

// fake answers as an API server does, and keeps what it was asked.
type fake struct {
	*httptest.Server
	asked []string
}

func newFake(t *testing.T) *fake {
	f := &fake{}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked = append(f.asked, r.Method+" "+r.URL.Path)
		path := r.URL.Path
		if r.URL.Query().Has("continue") {
			path += "?continue"
		}
		switch {
		case r.Header.Get("Authorization") != "Bearer "+token:
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(path, "/secrets"):
			if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
				t.Errorf("the contents of secrets were asked for")
			}
			fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","items":[{"metadata":{"name":"db","namespace":"shop"}}]}`)
		case strings.HasSuffix(path, "/locked"):
			w.WriteHeader(http.StatusForbidden)
		case answers[path] != "":
			fmt.Fprint(w, answers[path])
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// kubeconfig writes one that leads to the server, with a user like that.
func (f *fake) kubeconfig(t *testing.T, user string) string {
	t.Helper()
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}))
	path := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: here,
contexts: [{name: here, context: {cluster: Shop-1, user: u}}],
clusters: [{name: Shop-1, cluster: {server: %q, certificate-authority-data: %s}}],
users: [{name: u, user: {%s}}]}`, f.URL, authority, user)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func imported(t *testing.T, arguments ...string) (importer.Import, error) {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	reader := Kind().Bind(flags)
	if err := flags.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	return reader(t.Context(), nil)
}

func TestCluster(t *testing.T) {
	f := newFake(t)
	made, err := imported(t, "--kubeconfig", f.kubeconfig(t, "token: "+token))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	var manifests []kubernetes.Manifest
	for path, text := range made.Files {
		paths = append(paths, path)
		manifests = append(manifests, kubernetes.Manifest{File: path, Text: text})
	}
	slices.Sort(paths)
	want := []string{
		"manifests/cluster/clusterrole-shop-reader.yaml", "manifests/cluster/namespace-shop.yaml", "manifests/cluster/stage-main.yaml",
		"manifests/shop/configmap-knobs.yaml", "manifests/shop/deployment-web.yaml", "manifests/shop/deployment-worker.yaml", "manifests/shop/service-web.yaml",
	}
	if !slices.Equal(paths, want) {
		t.Errorf("written: %v", paths)
	}
	all := fmt.Sprint(made.LeftOut)
	for _, says := range []string{"Secret shop/db", "what it holds is secret", "Deployment.apps shop/going it is being deleted", "ConfigMap shop/leaky", "Locked.example.com this user may not list it", "objects, 1 in all objects that others own", "Kubernetes' own namespaces"} {
		if !strings.Contains(all, says) {
			t.Errorf("it does not say %q: %s", says, all)
		}
	}
	for path, text := range map[string]string{
		"manifests/cluster/namespace-shop.yaml": "apiVersion: v1\nkind: Namespace\nmetadata:\n    labels:\n        team: a\n    name: shop\n",
		"manifests/shop/service-web.yaml":       "apiVersion: v1\nkind: Service\nmetadata:\n    name: web\n    namespace: shop\nspec:\n    ports:\n        - port: 80\n          protocol: TCP\n          targetPort: 8080\n    selector:\n        app: web\n",
		"manifests/cluster/stage-main.yaml":     "apiVersion: example.com/v1beta1\nkind: Stage\nmetadata:\n    name: main\nspec:\n    seats: 9007199254740993\n",
		"manifests/shop/deployment-web.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n    name: web\n    namespace: shop\nspec:\n    replicas: 2\n    revisionHistoryLimit: 5\n    selector:\n        matchLabels:\n            app: web\n    template:\n        metadata:\n            labels:\n                app: web\n        spec:\n" +
			"            containers:\n                - env:\n                    - name: BIG\n                      value: \"1\"\n                  image: web:1\n                  name: web\n            terminationGracePeriodSeconds: 45\n",
	} {
		if string(made.Files[path]) != text {
			t.Errorf("%s is\n%s", path, made.Files[path])
		}
	}
	var definition struct {
		Generate struct {
			Objects struct {
				With struct {
					Cluster string
					Scoped  []string `yaml:"cluster_scoped"`
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(made.Definition), &definition); err != nil {
		t.Fatal(err)
	}
	with := definition.Generate.Objects.With
	settings, err := kubernetes.SettingsOf(generator.Options{"cluster": {with.Cluster}, "cluster_scoped": with.Scoped})
	if err != nil {
		t.Fatal(err)
	}
	objects, findings := kubernetes.Read(manifests, settings)
	if len(objects) != len(want) || len(findings) > 0 {
		t.Errorf("rendered: %d objects, %v\n%s", len(objects), findings, made.Definition)
	}
	everything := fmt.Sprint(made)
	for _, text := range made.Files {
		everything += string(text)
	}
	if strings.Contains(everything, "hush") {
		t.Error("a secret was copied")
	}
	for _, asked := range f.asked {
		if !strings.HasPrefix(asked, "GET ") || strings.HasSuffix(asked, "/events") {
			t.Errorf("it asked %s", asked)
		}
	}
}

func TestClusterRefuses(t *testing.T) {
	f := newFake(t)
	good := f.kubeconfig(t, "token: "+token)
	other := newFake(t)
	for name, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"a program to log in":          {[]string{"--kubeconfig", f.kubeconfig(t, "exec: {command: /nowhere/aws, installHint: install it}")}, "which is not there"},
		"contexts that contradict":     {[]string{"--kubeconfig", good, "--context", "here", "--all-contexts"}, "contradict each other"},
		"a password":                   {[]string{"--kubeconfig", f.kubeconfig(t, "username: me, password: tok-hush-3")}, "has a password"},
		"a token that is not known":    {[]string{"--kubeconfig", f.kubeconfig(t, "token: tok-hush-4")}, "does not know this user"},
		"no token":                     {[]string{"--kubeconfig", f.kubeconfig(t, "")}, "does not know this user"},
		"no such context":              {[]string{"--kubeconfig", good, "--context", "there"}, `no context "there"`},
		"no such file":                 {[]string{"--kubeconfig", "/nowhere/config"}, "reading the kubeconfig"},
		"no such namespace":            {[]string{"--kubeconfig", good, "--namespace", "nowhere"}, `namespace "nowhere" has no objects`},
		"another server's certificate": {[]string{"--kubeconfig", strings.TrimSpace(mixed(t, f, other))}, "asking the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := imported(t, test.arguments...)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%v", err)
			}
		})
	}
}

// mixed is a kubeconfig of one server whose authority vouches for another name.
func mixed(t *testing.T, f, other *fake) string {
	t.Helper()
	path := f.kubeconfig(t, "token: "+token)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), f.URL, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), 1))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
