package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lehr.dev/checkers/kubernetesobjects/builtin"
	"lehr.dev/sdk/generator/kubernetes"
)

// moduleFolder of a module that go mod download gives; the test is skipped where it cannot be had.
func moduleFolder(t *testing.T, module string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("downloads a module")
	}
	command := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	command.Dir = t.TempDir()
	out, err := command.Output()
	var said struct{ Dir string }
	if err != nil || json.Unmarshal(out, &said) != nil {
		t.Skipf("%s cannot be downloaded: %v", module, err)
	}
	return said.Dir
}

func manifestsIn(t *testing.T, folder string) (manifests []kubernetes.Manifest) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" && filepath.Ext(path) != ".yml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(text), "{{") { // A template.
			relative, _ := filepath.Rel(folder, path) // Walked from it.
			manifests = append(manifests, kubernetes.Manifest{File: filepath.ToSlash(relative), Text: text})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return manifests
}

// faults of the manifests that Kubernetes itself has, for its tests and its add-ons: each is a true one, most
// of them on purpose.
var faults = []string{
	// An API server refuses a container without a name; these are for the kubelet.
	"cmd/kubeadm/app/util/staticpod/testdata/invalid-with-default-fields.yaml payload.json.spec.containers[0]: has no name",
	"cmd/kubeadm/app/util/staticpod/testdata/valid-pod-different-order.yaml payload.json.spec.containers[0]: has no name",
	"cmd/kubeadm/app/util/staticpod/testdata/valid-pod.yaml payload.json.spec.containers[0]: has no name",
	"cmd/kubeadm/app/util/staticpod/testdata/valid-pod2.yaml payload.json.spec.containers[0]: has no name",
	// Tests of what is refused.
	"hack/testdata/deployment-label-change3.yaml payload.json.spec.selector.matchLabels.name: the selector does not match",
	"hack/testdata/invalid-pod.yaml payload.json.spec.containers[0]: has no name",
	"hack/testdata/multi-resource-3.yaml payload.json.metadata.name: the name \"POD-B\"",
	"test/fixtures/pkg/kubectl/cmd/expose/appsv1deployment-no-selectors.yaml payload.json.spec: has no selector",
	// Tests of kubectl convert.
	"test/fixtures/pkg/kubectl/cmd/auth/rbac-v1beta1.yaml payload.json.apiVersion: rbac.authorization.k8s.io/v1beta1 ClusterRole was removed",
	"test/fixtures/pkg/kubectl/cmd/convert/appsdeployment.yaml payload.json.apiVersion: apps/v1beta2 Deployment was removed",
	"test/fixtures/pkg/kubectl/cmd/convert/extensionsdeployment.yaml payload.json.apiVersion: extensions/v1beta1 Deployment was removed",
	"test/fixtures/pkg/kubectl/cmd/convert/serviceandingress.yaml payload.json.apiVersion: extensions/v1beta1 Ingress was removed",
	"test/fixtures/pkg/kubectl/cmd/convert/v1beta1ingress.yaml payload.json.apiVersion: networking.k8s.io/v1beta1 Ingress was removed",
	// Versions of APIs that were turned on for a test.
	"test/e2e/dra/test-driver/deploy/example/resourcepoolstatusrequest.yaml payload.json.apiVersion: resource.k8s.io/v1alpha3 ResourcePoolStatusRequest is alpha",
	"test/integration/scheduler_perf/dra/templates/deviceclass-consumablecapacity.yaml payload.json.apiVersion: resource.k8s.io/v1beta2 DeviceClass is deprecated",
	// A placeholder that a script replaces, and bindings that a test gives their namespaces.
	"cluster/gce/addons/cloud-pvl-admission/mutating-webhook-configuration.yaml payload.json.webhooks[0].clientConfig.caBundle: is not base64",
	"test/e2e/testing-manifests/storage-csi/external-snapshot-metadata/backup-client-rbac.yaml payload.json.subjects[0]: a ServiceAccount has no namespace",
	"test/e2e/testing-manifests/storage-csi/gce-pd/csi-controller-rbac.yaml payload.json.subjects[0]: a ServiceAccount has no namespace",
	"test/e2e/testing-manifests/storage-csi/gce-pd/csi-controller-rbac.yaml payload.json.subjects[0]: a ServiceAccount has no namespace",
	"test/e2e/testing-manifests/storage-csi/gce-pd/csi-controller-rbac.yaml payload.json.subjects[0]: a ServiceAccount has no namespace",
	"test/e2e/testing-manifests/storage-csi/gce-pd/csi-controller-rbac.yaml payload.json.subjects[0]: a ServiceAccount has no namespace",
	"test/e2e/testing-manifests/storage-csi/gce-pd/csi-controller-rbac.yaml payload.json.subjects[0]: a ServiceAccount has no namespace",
	"hack/testdata/pod-apply-status.yaml payload.json: has no containers",
	// Mistakes that nobody saw: a field is type, another was removed, a volume is that of some cluster.
	"test/e2e/testing-manifests/serviceloadbalancer/netexecsvc.yaml payload.json.spec.Type: Kubernetes 1.37 knows no such field",
	"test/integration/scheduler_perf/dra/templates/another-resourceclaimtemplate.yaml payload.json.spec.spec.controller: Kubernetes 1.37 knows no such field",
	"test/fixtures/doc-yaml/admin/high-availability/kube-scheduler.yaml payload.json.spec.containers[0].volumeMounts[1].name: there is no volume",
}

// TestManifestsOfKubernetes: of the hundreds of objects that Kubernetes has for its own tests and
// add-ons, the check tells the faults that are there, and nothing else.
func TestManifestsOfKubernetes(t *testing.T) {
	folder := moduleFolder(t, "k8s.io/kubernetes@v1.37.2")
	objects, left := 0, slices.Clone(faults)
	for _, manifest := range manifestsIn(t, folder) {
		read, _ := kubernetes.Read([]kubernetes.Manifest{manifest}, kubernetes.Settings{Cluster: "eu", Namespace: "shop"})
		if objects += len(read); len(read) == 0 {
			continue
		}
		for _, s := range judge(t, []string{"--version=1.37"}, nil, manifest) {
			told := manifest.File + " " + s.field + ": " + s.message
			at := slices.IndexFunc(left, func(fault string) bool { return strings.HasPrefix(told, fault) })
			switch {
			case at >= 0:
				left = slices.Delete(left, at, at+1)
			case !strings.Contains(s.message, "its definition is not here"):
				t.Errorf("a false alarm: %s\n  %s", told, s.hint)
			}
		}
	}
	for _, fault := range left {
		t.Errorf("it does not tell: %s", fault)
	}
	if objects < 600 {
		t.Errorf("only %d objects were read", objects)
	}
}

// TestAllFields: the objects that k8s.io/api keeps, in which each kind has each of its fields once, have the
// types that the tables say, in all three versions.
func TestAllFields(t *testing.T) {
	folder := filepath.Join(moduleFolder(t, "k8s.io/api@v0.37.1"), "testdata")
	tables, err := builtin.Load()
	if err != nil {
		t.Fatal(err)
	}
	for version, folderName := range map[string]string{"1.37": "HEAD", "1.36": "v1.36.0", "1.35": "v1.35.0"} {
		v, err := tables.Version(version)
		if err != nil {
			t.Fatal(err)
		}
		kinds := 0
		for _, key := range v.Kinds() {
			name := strings.ReplaceAll(strings.Replace(key, "/", ".", 2), "/", ".")
			if strings.HasPrefix(key, "/") {
				name = "core" + name
			}
			text, err := os.ReadFile(filepath.Join(folder, folderName, name+".json"))
			if err != nil {
				continue // Of another module.
			}
			value, err := decode(text)
			if err != nil {
				t.Fatal(err)
			}
			kinds++
			c := &checker{settings: settings{version: v}}
			kind, _ := v.Struct(key)
			c.structure(value, kind, "example."+v.TypeName(key), nil)
			for _, f := range c.found {
				// The words of these objects are made up.
				if !strings.Contains(f.message, "is none of") && !strings.Contains(f.message, "refuses it without") {
					t.Errorf("%s %s: %s %s", version, key, shown(f.path), f.message)
				}
			}
		}
		if kinds < 80 {
			t.Errorf("%s: only %d kinds were read", version, kinds)
		}
	}
}

// TestCorpus: what others wrote for real use has no fault that the check tells.
func TestCorpus(t *testing.T) {
	corpus := os.Getenv("LEHR_CORPUS")
	if corpus == "" {
		t.Skip("LEHR_CORPUS names no folder with the corpus")
	}
	objects := 0
	for _, manifest := range manifestsIn(t, corpus) {
		read, _ := kubernetes.Read([]kubernetes.Manifest{manifest}, kubernetes.Settings{Cluster: "eu", Namespace: "shop"})
		if objects += len(read); len(read) == 0 {
			continue
		}
		for _, version := range []string{"1.35", "1.36", "1.37"} {
			for _, s := range judge(t, []string{"--version=" + version}, nil, manifest) {
				if !strings.Contains(s.message, "its definition is not here") {
					t.Errorf("a false alarm for %s: %s: %s", version, manifest.File, s)
				}
			}
		}
	}
	if objects < 60 {
		t.Errorf("only %d objects were read", objects)
	}
}
