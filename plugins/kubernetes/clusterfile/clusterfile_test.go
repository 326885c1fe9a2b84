package clusterfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "clusters.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"kubernetes-clusters: v1\nclusters: {}":                                                                               "lists none",
		"kubernetes-clusters: v1\nclusters: {a: {kubeconfig: f}}":                                                             "clusters.a: no partition may use it",
		"kubernetes-clusters: v1\nclusters: {a: {partitions: [p]}}":                                                           "either kubeconfig: FILE or in_cluster: true",
		"kubernetes-clusters: v1\nclusters: {a: {kubeconfig: f, in_cluster: true, partitions: [p]}}":                          "either kubeconfig",
		"kubernetes-clusters: v1\nclusters: {a: {in_cluster: true, context: c, partitions: [p]}}":                             "there is none",
		"kubernetes-clusters: v1\nclusters: {a: {in_cluster: true, partitions: ['[']}}":                                       `"[" is no name`,
		"kubernetes-clusters: v1\nclusters: {A: {in_cluster: true, partitions: [p]}}":                                         "clusters.A: the name",
		"kubernetes-clusters: v1\nclusters: {a: {in_cluster: true, partitions: [p], impersonate: {groups: [g]}}}":             "impersonate needs a user",
		"kubernetes-clusters: v1\nclusters: {a: {in_cluster: true, partitions: [p], adopt: ['']}}":                            `adopt: "" is no name`,
		"kubernetes-clusters: v1\nclusters: {a: {in_cluster: true, partitions: [p], compare: {deploy: schema}}}":              `"deploy" is no kind`,
		"kubernetes-clusters: v1\nclusters: {a: {in_cluster: true, partitions: [p], compare: {Deployment.apps: fields}}}":     `Deployment.apps: "fields" is not known: write schema`,
		"kubernetes-clusters: v1\nclusters: {a: {in_cluster: true, partitions: [p], health: {berth: 'true'}}}":                `health: "berth" is no kind`,
		"kubernetes-clusters: v1\nclusters: {a: {in_cluster: true, partitions: [p], health: {Berth.example: 'object.'}}}":     "health: Berth.example: ERROR",
		"kubernetes-clusters: v1\nclusters: {a: {in_cluster: true, partitons: [p]}}":                                          `:2: unknown key "clusters.a.partitons" (did you mean partitions?`,
		"kubernetes-clusters: v1\nclusters: {a: {in_cluster: true, partitions: [p]}, a: {in_cluster: true, partitions: [q]}}": `"a" already defined`,
		"clusters: {a: {in_cluster: true, partitions: [p]}}":                                                                  "start it with kubernetes-clusters: v1",
		"kubernetes-clusters: v1\nclusters: [a]":                                                                              ":2: clusters is a list, not a mapping",
	} {
		name := write(t, text)
		_, err := Read(name)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s\nis read with %v, want the file and …%s…", text, err, want)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is read")
	}
}

func TestWhoMayNameACluster(t *testing.T) {
	name := write(t, `kubernetes-clusters: v1
clusters:
  eu: {kubeconfig: eu.kubeconfig, context: prod, partitions: [shop, "team-*"], impersonate: {user: lehr, groups: [deployers]}}
  us: {in_cluster: true, partitions: ["*"], observe: true}
`)
	list, err := Read(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, partition := range []string{"shop", "team-a"} {
		cluster, err := list.Find(partition, "eu")
		if err != nil || cluster.Kubeconfig != filepath.Join(filepath.Dir(name), "eu.kubeconfig") || cluster.Impersonate.Groups[0] != "deployers" {
			t.Errorf("%s finds %+v, %v", partition, cluster, err)
		}
	}
	_, foreign := list.Find("other", "eu")
	_, unlisted := list.Find("other", "nowhere")
	if foreign == nil || unlisted == nil || strings.ReplaceAll(foreign.Error(), "eu", "X") != strings.ReplaceAll(unlisted.Error(), "nowhere", "X") {
		t.Errorf("a cluster of others is refused with %v, one that is not there with %v", foreign, unlisted)
	}
	if foreign != nil && !strings.Contains(foreign.Error(), "not listed") {
		t.Errorf("it is refused with %v", foreign)
	}
	if cluster, err := list.Find("other", "us"); err != nil || !cluster.Observe {
		t.Errorf("a cluster for all is %+v, %v", cluster, err)
	}
}
