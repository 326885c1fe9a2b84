// Package clusterfile reads the file in which the operator of a plugin lists the
// Kubernetes clusters that it may reach, by which credentials, and for which partitions.
// It connects to none of them. Only lehr-kubernetes calls it.
package clusterfile

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lehr.dev/internal/ground/files"
	"lehr.dev/plugins/kubernetes/kindhealth"
	"lehr.dev/sdk/allowlist"
	"lehr.dev/sdk/serve"
)

// Variable names the file where the flag --clusters does not.
const Variable = "LEHR_KUBERNETES_CLUSTERS"

// kind of file that the list is.
var kind = allowlist.Kind{Noun: "Kubernetes cluster", Key: "kubernetes-clusters", Flag: "clusters", Page: "docs/operate/kubernetes-clusters.md"}

const (
	// maxBytes of the file.
	maxBytes = 1 << 20
	// maxManager is the longest name that a server takes for a field manager.
	maxManager = 128
)

// clusterName is what with: {cluster: NAME} of a renderer may be.
var clusterName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

// kindName is Kind.group.
var kindName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*(\.[a-z0-9.-]+)?$`)

// CompareSchema has objects compared with what intent names, without asking the cluster.
const CompareSchema = "schema"

// File lists clusters by the name that intent gives them.
type File struct {
	Version  string             `yaml:"kubernetes-clusters"`
	Clusters map[string]Cluster `yaml:"clusters"`
	path     string
}

// Cluster says how one is reached, and for whom.
type Cluster struct {
	// Kubeconfig is a file, from the folder of the list, and Context one of its
	// contexts; empty: the current one. Programs and files that it names for
	// credentials are asked as kubectl asks them.
	Kubeconfig string `yaml:"kubeconfig"`
	Context    string `yaml:"context"`
	// InCluster: the plugin runs in a pod of the cluster, and has its service account.
	InCluster bool `yaml:"in_cluster"`
	// Impersonate is as whom the credentials ask; nil: as themselves.
	Impersonate *Identity `yaml:"impersonate"`
	// Partitions may name the cluster; "*" stands for any text. At least one.
	Partitions []string `yaml:"partitions"`
	// Observe: the credentials may only read. Objects are compared with intent without
	// asking the cluster what it would make of it, and never pushed.
	Observe bool `yaml:"observe"`
	// Adopt lists field managers that count as Lehr, such as helm or
	// kubectl-client-side-apply: what they own and intent does not name is removed, and
	// the first push of an object takes their entries over.
	Adopt []string `yaml:"adopt"`
	// Compare says of kinds, by Kind.group, how their objects are compared: "schema" is with
	// what intent names alone, for what answers no dry run. Of all others dry runs are asked.
	Compare map[string]string `yaml:"compare"`
	// Health says of kinds, by Kind.group, how their objects fare: an expression in CEL over object,
	// in place of what kstatus says.
	Health map[string]string `yaml:"health"`
	// Restored accepts that the cluster was restored from a backup: the ID that the reason
	// of its assets names. Empty: no restore is accepted.
	Restored string `yaml:"restored"`
}

// Identity is a user of a cluster.
type Identity struct {
	User   string   `yaml:"user"`
	Groups []string `yaml:"groups"`
}

// Read reads the file, and refuses what it does not understand.
func Read(name string) (*File, error) {
	text, err := files.Read(name, maxBytes)
	if err != nil {
		return nil, serve.Errorf(serve.Invalid, "reading the list of clusters %s: %w", name, err)
	}
	file := &File{path: name}
	if err := allowlist.Decode(name, text, kind, file); err != nil {
		return nil, err
	}
	if len(file.Clusters) == 0 {
		return nil, serve.Errorf(serve.Invalid, "the list of clusters %s lists none: write clusters: {NAME: {kubeconfig: FILE, partitions: [NAME]}}", name)
	}
	for _, one := range slices.Sorted(maps.Keys(file.Clusters)) {
		cluster := file.Clusters[one]
		if problem := cluster.problem(one); problem != "" {
			return nil, serve.Errorf(serve.Invalid, "the list of clusters %s: clusters.%s: %s", name, one, problem)
		}
		if cluster.Kubeconfig != "" && !filepath.IsAbs(cluster.Kubeconfig) {
			cluster.Kubeconfig = filepath.Join(filepath.Dir(name), cluster.Kubeconfig)
		}
		file.Clusters[one] = cluster
	}
	return file, nil
}

// ReadAgain reads the file as it is now.
func (f *File) ReadAgain() (*File, error) { return Read(f.path) }

// problem says what is wrong with a cluster, and what to write.
func (c Cluster) problem(name string) string {
	switch {
	case !clusterName.MatchString(name):
		return "the name is not of the form [a-z0-9][a-z0-9._-]*, as with: {cluster: NAME} has it"
	case c.InCluster == (c.Kubeconfig != ""):
		return "write either kubeconfig: FILE or in_cluster: true"
	case c.Context != "" && c.Kubeconfig == "":
		return "context names a context of a kubeconfig, and there is none"
	case c.Impersonate != nil && c.Impersonate.User == "":
		return "impersonate needs a user"
	case len(c.Partitions) == 0:
		return `no partition may use it: write partitions: [NAME], or ["*"] for all`
	}
	for _, kind := range slices.Sorted(maps.Keys(c.Compare)) {
		switch {
		case !kindName.MatchString(kind):
			return fmt.Sprintf("compare: %q is no kind: write it as Kind.group, such as Deployment.apps, and the core's as Secret", kind)
		case c.Compare[kind] != CompareSchema:
			return fmt.Sprintf("compare: %s: %q is not known: write %s, or leave the kind out to have dry runs asked", kind, c.Compare[kind], CompareSchema)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(c.Health)) {
		if !kindName.MatchString(kind) {
			return fmt.Sprintf("health: %q is no kind: write it as Kind.group, such as Certificate.cert-manager.io", kind)
		}
		if _, err := kindhealth.Compile(c.Health[kind]); err != nil {
			return fmt.Sprintf("health: %s: %v", kind, err)
		}
	}
	for _, manager := range c.Adopt {
		if manager == "" || len(manager) > maxManager {
			return fmt.Sprintf("adopt: %q is no name of a field manager: write one as kubectl get --show-managed-fields shows it", manager)
		}
	}
	for _, pattern := range c.Partitions {
		if _, err := path.Match(pattern, ""); pattern == "" || err != nil {
			return fmt.Sprintf("partitions: %q is no name, and no pattern with *", pattern)
		}
	}
	return ""
}

// Find returns the cluster that a partition names. What is not listed, and what is listed
// for others, is refused in the same words, so that tenants learn nothing of each other.
func (f *File) Find(partition, cluster string) (Cluster, error) {
	found, ok := f.Clusters[cluster]
	if ok && slices.ContainsFunc(found.Partitions, func(pattern string) bool {
		matches, _ := path.Match(pattern, partition)
		return matches
	}) {
		return found, nil
	}
	hint := "ask whoever operates lehr-kubernetes to list it"
	if own := f.names(partition); len(own) > 0 {
		hint += "; listed for the partition: " + strings.Join(own, ", ")
	}
	return Cluster{}, serve.Errorf(serve.Denied, "the cluster %q is not listed for the partition %s: %s", cluster, partition, hint)
}

// names of the clusters that a partition may name.
func (f *File) names(partition string) []string {
	var names []string
	for name, cluster := range f.Clusters {
		for _, pattern := range cluster.Partitions {
			if matches, _ := path.Match(pattern, partition); matches {
				names = append(names, name)
				break
			}
		}
	}
	slices.Sort(names)
	return names
}
