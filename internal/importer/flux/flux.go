// Package flux reads what Flux applies to a cluster into a partition: a generator for each
// Kustomization and each HelmRelease, from the same sources, by the same libraries. It reads
// a fleet's repository as it lies in a folder, or objects that kubectl printed, and has the
// program lehr-kustomize build what lies there. It changes nothing, and copies no secret (S13). The kind "flux" of lehr import calls it.
package flux

import (
	"context"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/importer"
)

// Tools are what the import does not do itself.
type Tools struct {
	// Program is the path of lehr-kustomize; an error says that it is not there.
	Program func() (string, error)
	// Build gives the ids of the assets that a definition has, by generator. Sources may be
	// fetched for it.
	Build func(ctx context.Context, definition, sources string) (map[string][]string, error)
	// Objects lists what a live cluster has of the kinds that are wanted.
	Objects func(ctx context.Context, kubeconfig, name string, isWanted func(group, kind string) bool) ([]map[string]any, error)
}

// settings are the flags.
type settings struct {
	folder      string
	path        string
	cluster     string
	kubeVersion string
	objects     []string
	live        bool
	kubeconfig  string
	context     string
	checkouts   []string
	substitute  []string
	fromGit     bool
	sources     string
}

// Kind imports what Flux applies.
func Kind(tools Tools) importer.Kind {
	kind := importer.Kind{
		Name: "flux", Arguments: "FOLDER", Short: "What Flux applies: Kustomizations and HelmReleases of a fleet",
		Long: `Read a fleet's repository as it lies in FOLDER, with what flux bootstrap and people put
below --path, and write a partition of what Flux applies from there: a generator for each
Kustomization and each HelmRelease, with the same sources, patches, substitutions and
values, in the order of dependsOn.

With --objects, a file that kubectl get kustomizations,helmreleases,… -A -o yaml printed,
the objects are read from there, and FOLDER is the checkout of their GitRepository. With
--live they are read from the cluster of a kubeconfig; nothing is changed there.

Otherwise nothing is asked of a cluster. No secret is copied.`,
	}
	kind.Args.Least, kind.Args.Most = 1, 1
	kind.Bind = func(flags *pflag.FlagSet) importer.Reader {
		var s settings
		flags.StringVar(&s.path, "path", "", "the folder of the cluster in the repository, as flux bootstrap --path (default: the only one that there is)")
		flags.StringVar(&s.cluster, "cluster", "", "the name of the cluster; a part of the ids (default: the last word of --path)")
		flags.StringVar(&s.kubeVersion, "kube-version", "1.34", "the version of Kubernetes that charts are told")
		flags.StringArrayVar(&s.objects, "objects", nil, "a file with the objects of Flux, and the ConfigMaps that they take values from")
		flags.BoolVar(&s.live, "live", false, "read the objects from the cluster")
		flags.StringVar(&s.kubeconfig, "kubeconfig", "", "with --live, the kubeconfig (env KUBECONFIG; default ~/.kube/config)")
		flags.StringVar(&s.context, "context", "", "with --live, its context (default: its current one)")
		flags.StringArrayVar(&s.checkouts, "checkout", nil, "NAME=FOLDER: where another GitRepository, OCIRepository or Bucket lies")
		flags.StringArrayVar(&s.substitute, "substitute", nil, "NAME=VALUE: a variable that lies in a Secret and is none, such as a domain")
		flags.BoolVar(&s.fromGit, "from-git", false, "name repositories by their URLs in place of FOLDER")
		flags.StringVar(&s.sources, "sources", "", "which secrets and networks sources may use, as for lehr build")
		return func(ctx context.Context, args []string) (importer.Import, error) {
			s.folder = args[0]
			return Read(ctx, s, tools)
		}
	}
	return kind
}

// Read reads a fleet.
func Read(ctx context.Context, s settings, tools Tools) (importer.Import, error) {
	f, err := openFleet(ctx, s, tools)
	if err != nil {
		return importer.Import{}, err
	}
	if err := f.discover(); err != nil {
		return importer.Import{}, err
	}
	if len(f.kustomizations)+len(f.releases) == 0 {
		return importer.Import{}, fault.New(fault.NotFound, "there is no Kustomization and no HelmRelease of Flux in %s", path.Join(filepath.ToSlash(s.folder), f.path)).
			WithHint("name the folder that flux bootstrap was given: --path clusters/NAME; or objects that kubectl printed: --objects FILE")
	}
	if err := f.buildAll(); err != nil {
		return importer.Import{}, err
	}
	f.convertReleases()
	return f.describe()
}

// segment is a name as generators, sources and clusters have it.
func segment(text string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	if clean = strings.Trim(clean, "-"); clean == "" {
		return "flux"
	}
	return clean
}
