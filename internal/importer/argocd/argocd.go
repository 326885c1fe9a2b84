// Package argocd reads the resources of Argo CD, from files or as kubectl prints them, into
// partitions: sources, renderers, calendars, addons and roles that say what its Applications,
// ApplicationSets and AppProjects say. It asks no cluster but where it is to, runs nothing of a
// repository but Lehr's own renderers, and copies no secret (S13). cmd/lehr lists its kind.
package argocd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/importer"
)

const (
	// mostApps are read at most, and mostRounds is how deep Applications may give others.
	mostApps   = 20_000
	mostRounds = 20
	// defaultKubeVersion is what templates of charts are told where nobody says.
	defaultKubeVersion = "1.34"
)

// Rendered is what a definition gives.
type Rendered struct {
	// Objects are Kubernetes objects, by the generator that made them.
	Objects map[string][]Object
	// Problems are errors, for people; with any there are no objects.
	Problems []string
}

// Object is one that was rendered, and the id of its asset.
type Object struct {
	ID     string
	Fields map[string]any
}

// Renderer builds a definition, as lehr build does.
type Renderer func(ctx context.Context, file string) (Rendered, error)

// importing is one import under way.
type importing struct {
	importer.Import
	ctx    context.Context
	now    time.Time
	render Renderer
	list   Lister
	isLive bool

	checkouts        *checkouts
	local            bool
	split            string
	kubeVersion      string
	apiVersions      []string
	controlNamespace string
	// clusterNames are names of clusters by their servers.
	clusterNames map[string]string
	clusters     []knownCluster
	ignoredByAll []ignored
	policies     policies

	apps     []*app
	byKey    map[string]*app
	projects []placedProject
	sets     []placedSet
	// all has the generators of all Applications, before they are split.
	all *partition
	// objects that were rendered, by the generator.
	objects map[string][]Object
	// secrets that were not copied, and Applications that nobody syncs by themselves.
	secrets, manual []string
	setCount        int
}

type placedProject struct {
	project
	place string
}

type placedSet struct {
	applicationSet
	place string
}

// Kind imports from Argo CD.
func Kind(render Renderer, list Lister) importer.Kind {
	kind := importer.Kind{
		Name: "argocd", Arguments: "[FILE|FOLDER…]", Short: "Applications, ApplicationSets and AppProjects of Argo CD",
		Long: `Read Applications, ApplicationSets and AppProjects of Argo CD from files, folders or, as
-, from standard input, and write partitions with the same sources and renderers:

  kubectl get applications,applicationsets,appprojects -A -o yaml | lehr import argocd - --to shop
  lehr import argocd gitops/apps --checkout https://git.example.com/gitops.git=gitops --to shop
  lehr import argocd --live --context prod --checkout https://git.example.com/gitops.git=gitops --to shop

With --live they are read from the cluster of a kubeconfig, with argocd-cm and argocd-rbac-cm
beside them, and never a Secret; nothing is changed there.

What the repositories hold is read from checkouts, which --checkout names; that which a FILE
lies in is found by itself. --fetch has git fetch others. Applications that give Applications
are followed. Secrets are not copied.`,
	}
	kind.Args.Most = -1
	kind.Bind = func(flags *pflag.FlagSet) importer.Reader {
		checkoutFlags := flags.StringArray("checkout", nil, "URL=FOLDER: where the files of a repository lie on this machine")
		fetch := flags.Bool("fetch", false, "have git fetch repositories that have no checkout, as you")
		local := flags.Bool("local", false, "copy the files of checkouts into the partition, in place of sources in git")
		clusters := flags.StringArray("cluster", nil, "SERVER=NAME: what a cluster is called in the ids of assets (default: as in Argo CD)")
		split := flags.String("split", "none", "a partition for each: project, folder, label=KEY, or none")
		kubeVersion := flags.String("kube-version", defaultKubeVersion, "the version of Kubernetes that charts are told")
		apiVersions := flags.StringSlice("api-version", nil, "an API that charts are told the cluster has, as monitoring.coreos.com/v1")
		namespace := flags.String("argocd-namespace", "", "the namespace of Argo CD (default: that of its AppProjects)")
		var live liveOptions
		flags.BoolVar(&live.isLive, "live", false, "read the resources from the cluster, beside FILEs where they are given")
		flags.StringVar(&live.kubeconfig, "kubeconfig", "", "with --live, the kubeconfig (env KUBECONFIG; default ~/.kube/config)")
		flags.StringVar(&live.context, "context", "", "with --live, its context (default: its current one)")
		return func(ctx context.Context, args []string) (importer.Import, error) {
			l := &importing{
				Import: importer.Import{Files: map[string][]byte{}}, ctx: ctx, now: time.Now(), render: render, list: list,
				checkouts: &checkouts{byURL: map[string]*checkout{}, failed: map[string]string{}, fetch: *fetch}, local: *local, split: *split,
				kubeVersion: *kubeVersion, apiVersions: *apiVersions, controlNamespace: *namespace,
				clusterNames: map[string]string{}, byKey: map[string]*app{}, all: newPartition(""), objects: map[string][]Object{},
				policies: policies{accounts: map[string]bool{}},
			}
			return l.run(args, *checkoutFlags, *clusters, live)
		}
	}
	return kind
}

var splitPattern = regexp.MustCompile(`^(none|project|folder|label=.+)$`)

func (l *importing) run(args, checkoutFlags, clusters []string, live liveOptions) (importer.Import, error) {
	if !live.isLive && live.kubeconfig+live.context != "" {
		return importer.Import{}, fault.New(fault.Invalid, "--kubeconfig and --context name a cluster, and none is read").WithHint("add --live")
	}
	if len(args) == 0 && !live.isLive {
		return importer.Import{}, fault.New(fault.Invalid, "nothing says where the resources of Argo CD are").WithHint("name files or folders, - for what kubectl prints, or --live for the cluster of a kubeconfig")
	}
	if !splitPattern.MatchString(l.split) {
		return importer.Import{}, fault.New(fault.Invalid, "--split %q is not known", l.split).WithHint("write project, folder, label=KEY or none")
	}
	temporary, err := os.MkdirTemp("", "lehr-import-")
	if err != nil {
		return importer.Import{}, fault.New(fault.Unavailable, "making a folder for what is fetched and rendered: %w", err)
	}
	defer os.RemoveAll(temporary)
	l.checkouts.folder = temporary
	for _, argument := range checkoutFlags {
		if err := l.checkouts.add(argument); err != nil {
			return importer.Import{}, err
		}
	}
	if err := l.checkouts.detect(args); err != nil {
		return importer.Import{}, err
	}
	for _, argument := range clusters {
		server, name, ok := cutLast(argument, "=")
		if !ok || segment(name) != name {
			return importer.Import{}, fault.New(fault.Invalid, "--cluster %q names no server and cluster", argument).WithHint("write --cluster https://kubernetes.default.svc=prod, with a name of the form [a-z0-9][a-z0-9._-]*")
		}
		l.clusterNames[strings.TrimSuffix(server, "/")] = name
	}
	files := &reading{leave: l.leave}
	if err := files.readAll(args); err != nil {
		return importer.Import{}, err
	}
	if l.isLive = live.isLive; l.isLive {
		objects, err := l.readLive(live)
		if err != nil {
			return importer.Import{}, err
		}
		files.objects = append(files.objects, objects...)
		args = append(slices.Clone(args), "the cluster")
	}
	l.sort(files.objects)
	l.addChartFolders(files.charts)
	l.expandSets()
	l.follow(l.apps)
	if !slices.ContainsFunc(l.apps, func(a *app) bool { return len(a.made) > 0 }) {
		return importer.Import{}, l.nothing(args)
	}
	l.finish()
	return l.Import, nil
}

func cutLast(text, separator string) (before, after string, ok bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}

func (l *importing) nothing(args []string) error {
	why := "it has no Application and no ApplicationSet"
	if len(l.LeftOut) > 0 {
		why = "no Application can be taken over: " + l.LeftOut[0].What + ": " + l.LeftOut[0].Why
	}
	return fault.New(fault.Invalid, "there is nothing to import in %s: %s", strings.Join(args, ", "), why).
		WithHint("name files with the resources of Argo CD, or what kubectl get applications,applicationsets,appprojects -A -o yaml prints")
}

func (l *importing) leave(subject, reason string, isWrong bool) {
	one := importer.LeftOut{What: subject, Why: reason, Wrong: isWrong}
	if !slices.Contains(l.LeftOut, one) {
		l.LeftOut = append(l.LeftOut, one)
	}
}

func (l *importing) addHint(text string) {
	if !slices.Contains(l.Hints, text) {
		l.Hints = append(l.Hints, text)
	}
}

// sort takes what was read apart.
func (l *importing) sort(objects []object) {
	for _, o := range objects {
		switch o.kind {
		case "AppProject.argoproj.io":
			var made project
			if err := convert(o.fields, &made); err != nil {
				l.leave("AppProject "+o.name, o.place+": "+err.Error(), true)
				continue
			}
			l.projects = append(l.projects, placedProject{made, o.place})
			l.controlNamespace = cmp.Or(l.controlNamespace, made.Metadata.Namespace)
		case "ApplicationSet.argoproj.io":
			var made applicationSet
			if err := convert(o.fields, &made); err != nil {
				l.leave("ApplicationSet "+o.name, o.place+": "+err.Error(), true)
				continue
			}
			l.sets = append(l.sets, placedSet{made, o.place})
		case "Secret":
			if c, ok := clusterOf(o); ok {
				l.clusters = append(l.clusters, c)
			}
		case "ConfigMap":
			switch o.name {
			case settingsName:
				l.addSettings(o)
			case policyName:
				l.readPolicies(o)
			}
		}
	}
	for _, o := range objects {
		if o.kind == "Application.argoproj.io" && l.controlNamespace == "" {
			head, _ := o.fields["metadata"].(map[string]any)
			l.controlNamespace, _ = head["namespace"].(string)
		}
	}
	for _, o := range objects {
		if o.kind == "Application.argoproj.io" {
			l.addApp(o.fields, o.place, nil)
		}
	}
}

// addApp adds an Application; one that is known is passed over, and one that gives itself is told.
func (l *importing) addApp(fields map[string]any, place string, parent *app) {
	made := &app{place: place, parent: parent}
	if err := convert(fields, &made.application); err != nil {
		l.leave("Application of "+place, "it cannot be read: "+err.Error(), true)
		return
	}
	if made.Metadata.Name == "" {
		l.leave("Application of "+place, "it has no name", true)
		return
	}
	for _, owner := range made.Metadata.Owners {
		if owner.Kind == "ApplicationSet" {
			made.owner = owner.Name
		}
	}
	if parent != nil {
		made.depth = parent.depth + 1
	}
	key := made.Metadata.Namespace + "/" + made.Metadata.Name
	for at := parent; at != nil; at = at.parent {
		if at.Metadata.Name == made.Metadata.Name {
			if at != parent { // One that gives itself is changed in git so, and makes no circle.
				l.leave(made.String(), place+": it is given by itself, through "+parent.String()+": it is read once", false)
			}
			return
		}
	}
	if known := l.byKey[key]; known != nil {
		if parent != nil || inJSON(known.Spec) == inJSON(made.Spec) {
			return
		}
	}
	if len(l.apps) == mostApps {
		l.leave("Applications", fmt.Sprintf("there are more than %d: import them in parts", mostApps), true)
		return
	}
	l.tellUnknown(made, fields)
	l.byKey[key] = made
	l.apps = append(l.apps, made)
}

// tellUnknown names a field of the specification that is not read.
func (l *importing) tellUnknown(a *app, fields map[string]any) {
	spec, _ := fields["spec"].(map[string]any)
	if name := unknownField(spec, reflect.TypeOf(a.Spec)); name != "" {
		l.leave(a.String(), a.place+": its field "+name+" is not known", true)
	}
}

// addChartFolders reads charts among the files as Applications would be read that they give.
func (l *importing) addChartFolders(charts []string) {
	for _, folder := range charts {
		c := &checkout{url: folder, folder: folder, known: map[string]bool{}}
		if c.list() != nil || !givesApplications(c, ".") {
			continue
		}
		if slices.ContainsFunc(l.apps, func(a *app) bool { return l.reads(a, folder) }) {
			continue
		}
		made := &app{place: folder}
		made.Metadata.Name = segment(baseName(folder))
		made.Metadata.Namespace = l.controlNamespace
		made.Spec.Source = &appSource{RepoURL: folder, Path: "."}
		made.Spec.Destination = destination{Server: inCluster, Namespace: cmp.Or(l.controlNamespace, "argocd")}
		l.checkouts.byURL[normalURL(folder)] = c
		l.apps = append(l.apps, made)
	}
}

func baseName(folder string) string {
	folder = strings.TrimRight(folder, "/")
	return folder[strings.LastIndex(folder, "/")+1:]
}

// reads says whether an Application reads a folder of this machine.
func (l *importing) reads(a *app, folder string) bool {
	for _, s := range a.sourcesOf() {
		c := l.checkouts.byURL[normalURL(s.RepoURL)]
		if c != nil && strings.HasSuffix(strings.TrimRight(folder, "/"), "/"+strings.Trim(s.Path, "/")) {
			return true
		}
	}
	return false
}

// givesApplications says whether files name resources of Argo CD.
func givesApplications(c *checkout, folder string) bool {
	return slices.ContainsFunc(c.below(folder), func(name string) bool {
		text := string(c.read(name))
		return strings.Contains(text, "argoproj.io/v1alpha1") && applicationKind.MatchString(text)
	})
}

var applicationKind = regexp.MustCompile(`kind:\s*["']?(Application|ApplicationSet|AppProject)\b`)

// expandSets makes the Applications of sets. Those that are given in files already stay as they are.
func (l *importing) expandSets() {
	sets := l.sets
	l.sets = nil
	for _, set := range sets {
		e := &expansion{ctx: l.ctx, set: set.applicationSet, clusters: l.clusters, checkouts: l.checkouts}
		subject := "ApplicationSet " + set.Metadata.Name
		l.setCount++
		if s := set.Spec.Strategy; s != nil && s.Type == "RollingSync" {
			l.addHint(subject + " syncs in steps (RollingSync): write a rollout with the same stages, docs/use/rollouts.md")
		}
		if l.isLive && l.hasOwned(set.Metadata.Name) {
			continue // What a cluster has of a set is what it makes.
		}
		made, err := e.expandSet()
		switch {
		case err != nil && l.hasOwned(set.Metadata.Name):
			continue // What it made was given beside it.
		case err != nil:
			l.leave(subject, set.place+": "+err.Error(), true)
			continue
		case len(made) == 0:
			l.leave(subject, set.place+": its generators give nothing", false)
		}
		for _, fields := range made {
			head, _ := fields["metadata"].(map[string]any)
			isGiven := slices.ContainsFunc(l.apps, func(a *app) bool { return a.owner == set.Metadata.Name && a.Metadata.Name == head["name"] })
			if !isGiven {
				l.addApp(fields, set.place, nil)
			}
		}
	}
}

// hasOwned says whether an Application says that a set made it.
func (l *importing) hasOwned(set string) bool {
	return slices.ContainsFunc(l.apps, func(a *app) bool { return a.owner == set })
}

var notInSegment = regexp.MustCompile(`[^a-z0-9._-]+`)

// segment is a text as a part of an id.
func segment(text string) string {
	text = strings.Trim(notInSegment.ReplaceAllString(strings.ToLower(text), "-"), "._-")
	return cmp.Or(text, "cluster")
}

// nameCluster gives the name of the cluster of a destination.
func (l *importing) nameCluster(d destination) string {
	server := strings.TrimSuffix(d.Server, "/")
	for _, c := range l.clusters {
		if server == "" && d.Name != "" && c.name == d.Name {
			server = c.server
		}
	}
	if server == "" && (d.Name == "in-cluster" || d.Name == "") {
		server = inCluster
	}
	key := cmp.Or(server, d.Name)
	if name, ok := l.clusterNames[key]; ok {
		return name
	}
	name := d.Name
	for _, c := range l.clusters {
		if c.server == server {
			name = c.name
		}
	}
	switch {
	case name != "":
	case server == inCluster:
		name = "in-cluster"
	default:
		name = strings.TrimPrefix(strings.TrimPrefix(server, "https://"), "http://")
	}
	l.clusterNames[key] = segment(name)
	return l.clusterNames[key]
}
