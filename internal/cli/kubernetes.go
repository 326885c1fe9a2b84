package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/kubeaccess"
)

const (
	// objectType of the assets that are Kubernetes objects.
	objectType intent.TypeName = "lehr.kubernetes.v1.Object"
	// turndownType is the addon of what is to be deleted.
	turndownType = "lehr.intent.v1.Turndown"
	// maxClusterList is the most that the list of clusters may have, in bytes.
	maxClusterList = 1 << 20
	// rbacName is how the command is called.
	rbacName = "rbac"
)

func (s *session) kubernetesCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "kubernetes", Short: "Print the rights that Lehr needs in Kubernetes clusters",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(s.rbacCommand())
	return command
}

// rbacFlags are what lehr kubernetes rbac is given beside the partition.
type rbacFlags struct {
	definition, cluster, name, clusters  string
	users, groups, plurals, replaceables []string
	access                               kubeaccess.Options
}

func (s *session) rbacCommand() *cobra.Command {
	var options BuildOptions
	var flags rbacFlags
	command := &cobra.Command{
		Use:   rbacName + " [lehr.yaml]",
		Short: "Print the roles that a partition's objects need in a cluster",
		Long: `Build a partition, and print the ClusterRole and the Roles that lehr-kubernetes needs to
keep the partition's objects in a cluster, and nothing more. Rights to write are limited to
a namespace, or to names where an object has no namespace. Each Secret is named. Only what
is turned down may be deleted. Where neither --user, --group nor the list of clusters names
a subject, the bindings are comments. With --observe, no right to write is needed. No
cluster is asked.`,
		Example: `  lehr kubernetes rbac -p lehr.yaml
  lehr kubernetes rbac lehr.yaml --observe --user system:serviceaccount:lehr:shop`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if flags.definition != "" {
				args = append(args, flags.definition)
			}
			if len(args) > 1 {
				return fault.New(fault.Invalid, "two definitions are named, %s and %s", args[0], args[1]).WithHint("leave one of them out")
			}
			var err error
			if options.Definition, err = definitionPath(definitionArgument(args)); err != nil {
				return err
			}
			var end func()
			options.Progress, end = s.showProgress()
			built, err := s.local.Build(command.Context(), options)
			end()
			if err != nil {
				return err
			}
			if hasErrors(built.Findings) {
				s.printIntentFindings(built.Findings)
				return exit{exitError}
			}
			return s.printAccess(built, flags)
		},
	}
	f := command.Flags()
	f.StringVarP(&flags.definition, "partition", "p", "", "the definition, lehr.yaml")
	f.StringVar(&flags.cluster, "cluster", "", "the cluster, as lehr.yaml names it (default: the only one)")
	f.StringVar(&flags.name, "name", "", "name of the roles (default: lehr-PARTITION)")
	f.StringVar(&flags.clusters, "clusters", "", "list of clusters that lehr-kubernetes uses: it says who is impersonated in each, and whether Lehr only observes it")
	f.StringArrayVar(&flags.users, "user", nil, "user to bind to the roles; a service account is system:serviceaccount:NAMESPACE:NAME; may be repeated")
	f.StringArrayVar(&flags.groups, "group", nil, "group to bind to the roles; may be repeated")
	f.StringArrayVar(&flags.plurals, "plural", nil, "KIND.GROUP=PLURAL: how roles name a custom resource that the partition does not define; may be repeated")
	f.StringArrayVar(&flags.replaceables, "replace", nil, "KIND.GROUP: allow deleting its objects, to make them anew where a field cannot be changed; may be repeated")
	f.BoolVar(&flags.access.Observe, "observe", false, "print roles for a cluster that is only observed")
	generatorsFlag(command, &options.Generators)
	sourcesFlag(command, &options.Sources)
	s.documentsFlag(command, &options)
	checksFlag(f, &options.ExternalChecks)
	return command
}

// printAccess prints the roles, and what binds them.
func (s *session) printAccess(built Built, flags rbacFlags) error {
	objects, err := kubernetesObjects(built)
	if err != nil {
		return err
	}
	cluster, err := chooseCluster(built.Partition, objects, flags.cluster)
	if err != nil {
		return err
	}
	listed, err := readListedCluster(flags.clusters, cluster)
	if err != nil {
		return err
	}
	flags.access.Observe = flags.access.Observe || listed.Observe
	flags.access.Replaceable = flags.replaceables
	if flags.access.Plurals, err = readPlurals(flags.plurals); err != nil {
		return err
	}
	access, err := kubeaccess.Need(objects[cluster], flags.access)
	if err != nil {
		return err
	}
	name := cmp.Or(flags.name, "lehr-"+string(built.Partition))
	shown := shownAccess{partition: string(built.Partition), cluster: cluster, observe: flags.access.Observe, namespaces: access.Namespaces()}
	shown.roles = kubeaccess.Manifests(access, name)
	for _, user := range flags.users {
		shown.subjects = append(shown.subjects, kubeaccess.User(user))
	}
	for _, group := range flags.groups {
		shown.subjects = append(shown.subjects, kubeaccess.Group(group))
	}
	if impersonated := listed.subjects(); len(impersonated) > 0 {
		if len(shown.subjects) == 0 {
			shown.subjects = impersonated[:1] // Others would have the access, too, through a group.
		}
		shown.impersonation = kubeaccess.Manifests(kubeaccess.Impersonating(impersonated), name+"-impersonate")
	}
	return s.printRoles(shown)
}

// kubernetesObjects are the objects that a partition has, by cluster.
func kubernetesObjects(built Built) (map[string][]kubeaccess.Object, error) {
	objects := map[string][]kubeaccess.Object{}
	for _, asset := range built.Assets {
		if asset.Type != objectType {
			continue
		}
		var read struct {
			Payload struct {
				APIVersion string `json:"api_version"`
				External   *struct {
					Digest string `json:"digest"`
				} `json:"external"`
				Kind, Namespace, Name, JSON, Cluster string
			}
			Addons map[string]json.RawMessage
		}
		if err := json.Unmarshal(asset.JSON, &read); err != nil {
			return nil, fmt.Errorf("reading what was built of %s: %w", asset.ID, err)
		}
		p := read.Payload
		text := []byte(p.JSON)
		if p.External != nil {
			for digest, content := range built.Blobs {
				if digest.String() == p.External.Digest {
					text = content
				}
			}
		}
		object := kubeaccess.Object{APIVersion: p.APIVersion, Kind: p.Kind, Namespace: p.Namespace, Name: p.Name}
		if err := json.Unmarshal(text, &object.Content); err != nil {
			return nil, fmt.Errorf("reading the object of %s: %w", asset.ID, err)
		}
		_, object.TurnedDown = read.Addons[turndownType]
		objects[p.Cluster] = append(objects[p.Cluster], object)
	}
	return objects, nil
}

func chooseCluster(partition intent.PartitionID, objects map[string][]kubeaccess.Object, named string) (string, error) {
	names := slices.Sorted(maps.Keys(objects))
	switch {
	case len(names) == 0:
		return "", fault.New(fault.NotFound, "partition %s has no Kubernetes object", partition).
			WithHint("render manifests with render: kubernetes, kustomize or helm")
	case named == "" && len(names) > 1:
		return "", fault.New(fault.Invalid, "partition %s has objects in several clusters: %s", partition, strings.Join(names, ", ")).
			WithHint("name the one that the roles are for: --cluster %s", names[0])
	case named == "":
		return names[0], nil
	case objects[named] == nil:
		return "", fault.New(fault.NotFound, "partition %s has no object in a cluster %q", partition, named).WithHint("it has objects in: %s", strings.Join(names, ", "))
	}
	return named, nil
}

// readPlurals reads KIND.GROUP=PLURAL.
func readPlurals(flags []string) (map[string]string, error) {
	plurals := map[string]string{}
	for _, flag := range flags {
		kind, plural, ok := strings.Cut(flag, "=")
		if !ok || kind == "" || plural == "" {
			return nil, fault.New(fault.Invalid, "--plural %q is not of the form KIND.GROUP=PLURAL", flag).WithHint("write for example --plural Certificate.cert-manager.io=certificates")
		}
		plurals[kind] = plural
	}
	return plurals, nil
}

// listedCluster is what the plugin's list of clusters says of access to one. The plugin
// checks the rest of the list.
type listedCluster struct {
	Observe     bool `yaml:"observe"`
	Impersonate *struct {
		User   string   `yaml:"user"`
		Groups []string `yaml:"groups"`
	} `yaml:"impersonate"`
}

// subjects that the plugin's credentials ask as: the user first, then its groups.
func (c listedCluster) subjects() (subjects []kubeaccess.Subject) {
	if c.Impersonate == nil || c.Impersonate.User == "" {
		return nil
	}
	subjects = append(subjects, kubeaccess.User(c.Impersonate.User))
	for _, group := range c.Impersonate.Groups {
		subjects = append(subjects, kubeaccess.Group(group))
	}
	return subjects
}

func readListedCluster(name, cluster string) (listedCluster, error) {
	if name == "" {
		return listedCluster{}, nil
	}
	text, err := files.Read(name, maxClusterList)
	if err != nil {
		return listedCluster{}, fault.New(fault.Invalid, "reading the list of clusters %s: %w", name, err)
	}
	var list struct {
		Clusters map[string]listedCluster `yaml:"clusters"`
	}
	if err := yaml.Unmarshal(text, &list); err != nil {
		return listedCluster{}, fault.New(fault.Invalid, "reading the list of clusters %s: %w", name, err)
	}
	found, ok := list.Clusters[cluster]
	if !ok {
		return listedCluster{}, fault.New(fault.NotFound, "the list of clusters %s has no cluster %q", name, cluster).
			WithHint("it has: %s", strings.Join(slices.Sorted(maps.Keys(list.Clusters)), ", "))
	}
	return found, nil
}
