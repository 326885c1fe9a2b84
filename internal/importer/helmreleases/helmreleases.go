// Package helmreleases reads the releases that Helm keeps in Secrets or ConfigMaps, as kubectl
// prints them, into a partition: a chart, its version and values for each, rendered by Lehr. It
// asks no cluster and copies no secret (S13). The kind "helm" of lehr import calls it.
package helmreleases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/importer"
	"lehr.dev/internal/importer/argocd"
)

const mostBytes = 256 << 20

// importing is one import under way.
type importing struct {
	importer.Import
	ctx         context.Context
	render      argocd.Renderer
	cluster     string
	kubeVersion string
	apiVersions []string
	// charts are sources of charts, by the names of releases or charts.
	charts map[string]string
	names  map[string]bool
}

// Kind imports the releases of Helm.
func Kind(render argocd.Renderer) importer.Kind {
	kind := importer.Kind{
		Name: "helm", Arguments: "FILE|FOLDER…", Short: "Releases of Helm, from the Secrets that keep them",
		Long: `Read the releases of Helm from Secrets (or ConfigMaps), as kubectl prints them, from files,
folders or, as -, from standard input, and write a partition that renders the same charts
with the same values:

  kubectl get secrets -A -l owner=helm -o yaml | lehr import helm - --cluster prod --to shop

A release does not say where its chart came from: --chart NAME=SOURCE does, by an index,
oci://REGISTRY/NAME or a folder. Without it the chart is written out of the release. What
was applied is compared with what the partition renders. Secrets are not copied.`,
	}
	kind.Args.Least, kind.Args.Most = 1, -1
	kind.Bind = func(flags *pflag.FlagSet) importer.Reader {
		cluster := flags.String("cluster", "", "the name of the cluster that they are in; a part of their ids")
		charts := flags.StringArray("chart", nil, "NAME=SOURCE: where the chart of a release, or a chart of that name, comes from")
		kubeVersion := flags.String("kube-version", "1.34", "the version of Kubernetes that charts are told")
		apiVersions := flags.StringSlice("api-version", nil, "an API that charts are told the cluster has, as monitoring.coreos.com/v1")
		return func(ctx context.Context, args []string) (importer.Import, error) {
			if !segmentPattern.MatchString(*cluster) {
				return importer.Import{}, fault.New(fault.Invalid, "it is not said which cluster the releases are in, and the ids of assets begin with its name").WithHint("add --cluster NAME, of the form [a-z0-9][a-z0-9._-]*")
			}
			l := &importing{
				Import: importer.Import{Files: map[string][]byte{}}, ctx: ctx, render: render, cluster: *cluster,
				kubeVersion: *kubeVersion, apiVersions: *apiVersions, charts: map[string]string{}, names: map[string]bool{},
			}
			for _, argument := range *charts {
				name, source, ok := strings.Cut(argument, "=")
				if !ok || name == "" || source == "" {
					return importer.Import{}, fault.New(fault.Invalid, "--chart %q names no chart and source", argument).WithHint("write --chart web=oci://registry.example.com/charts/web, or an index by https://, or a folder")
				}
				l.charts[name] = source
			}
			return l.run(args)
		}
	}
	return kind
}

var segmentPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

func (l *importing) run(args []string) (importer.Import, error) {
	var list []*release
	remaining := int64(mostBytes)
	err := eachFile(args, func(name string, source io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(source, remaining+1))
		if remaining -= int64(len(text)); remaining < 0 {
			return fault.New(fault.Invalid, "the releases have more than %d MiB", mostBytes>>20).WithHint("import them by namespaces: kubectl get secrets -n NAMESPACE -l owner=helm")
		}
		list = append(list, parse(name, text, func(subject, reason string) { l.leave(subject, reason) })...)
		return err
	})
	if err != nil {
		return importer.Import{}, err
	}
	chosen := l.choose(list)
	var sources, generators strings.Builder
	made := 0
	for _, r := range chosen {
		d, err := l.describe(r)
		if err != nil {
			l.leave(r.String(), r.place+": "+err.Error())
			continue
		}
		made++
		sources.WriteString(d.sources())
		generators.WriteString(d.generator())
		for name, text := range d.files {
			l.Files[name] = text
		}
	}
	if made == 0 {
		why := "it has no Secret or ConfigMap with a release of Helm"
		if len(l.LeftOut) > 0 {
			why = l.LeftOut[0].What + ": " + l.LeftOut[0].Why
		}
		return importer.Import{}, fault.New(fault.Invalid, "there is no release to import: %s", why).WithHint("give what kubectl get secrets -A -l owner=helm -o yaml prints")
	}
	l.Definition = "sources:\n" + sources.String() + "generate:\n" + generators.String() + `plugins:
  # clusters.yaml is the operator's: put it where only they can write, and name it by its path.
  lehr.kubernetes.v1.Object: {run: [lehr-kubernetes, --clusters, clusters.yaml]}
`
	l.Files["clusters.yaml"] = fmt.Appendf(nil, "# The clusters that lehr-kubernetes may use. Whoever runs it completes this, and keeps it where only they\n# can write. Helm's fields are taken over: adopt.\nkubernetes-clusters: v1\nclusters:\n  %s: {kubeconfig: %s.kubeconfig, partitions: [\"*\"], adopt: [helm]}\n", inJSON(l.cluster), l.cluster)
	l.Read = append([]string{count(made, "release")}, l.Read...)
	l.addHint("say in clusters.yaml how the cluster is reached, and name that file by its path under plugins")
	return l.Import, nil
}

// eachFile opens files, the manifests of folders, and standard input.
func eachFile(args []string, read func(name string, source io.Reader) error) error {
	open := func(name string) error {
		file, err := files.Open(name)
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		if err != nil {
			return fault.New(fault.NotFound, "cannot read %s: %w", name, err).WithHint("name files or folders with the Secrets of Helm, or - for standard input")
		}
		defer file.Close()
		return read(name, file)
	}
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case arg == "-":
			err = read("stdin", os.Stdin)
		case err == nil && info.IsDir():
			err = filepath.WalkDir(arg, func(name string, entry os.DirEntry, err error) error {
				if err != nil || !entry.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
					return err
				}
				return open(name)
			})
		default:
			err = open(arg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// choose takes the newest deployed revision of each release, and tells of what is half done.
func (l *importing) choose(list []*release) (chosen []*release) {
	byName := map[string][]*release{}
	for _, r := range list {
		byName[r.String()] = append(byName[r.String()], r)
	}
	var names []string
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		revisions := byName[name]
		slices.SortFunc(revisions, func(a, b *release) int { return cmp.Compare(b.Version, a.Version) })
		newest := revisions[0]
		at := slices.IndexFunc(revisions, func(r *release) bool { return r.Info.Status == "deployed" })
		switch {
		case newest.Info.Status == "uninstalled" || newest.Info.Status == "uninstalling":
			l.leave(name, fmt.Sprintf("%s: it is %s", newest.place, newest.Info.Status))
		case at < 0:
			l.leave(name, fmt.Sprintf("%s: its newest revision %d is %s, and none is deployed: finish it with Helm (helm upgrade or helm rollback), then import again", newest.place, newest.Version, newest.Info.Status))
		case at > 0:
			l.leave(fmt.Sprintf("revision %d of %s", newest.Version, name), fmt.Sprintf("%s: it is half done (%s): revision %d, which is deployed, is taken", newest.place, newest.Info.Status, revisions[at].Version))
			chosen = append(chosen, revisions[at])
		default:
			chosen = append(chosen, newest)
		}
	}
	return chosen
}

func (l *importing) leave(subject, reason string) {
	l.LeftOut = append(l.LeftOut, importer.LeftOut{What: subject, Why: reason, Wrong: true})
}

func (l *importing) addHint(text string) {
	if !slices.Contains(l.Hints, text) {
		l.Hints = append(l.Hints, text)
	}
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
