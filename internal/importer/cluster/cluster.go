// Package cluster reads the objects of a live Kubernetes cluster as manifests
// for the renderer kubernetes. It only lists; of Secrets it asks for nothing but
// their names (S13). Of programs it runs those by which a kubeconfig's user logs in. cmd/lehr lists its kind.
package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/importer"
	"lehr.dev/sdk/generator/kubernetes"
)

// Kind imports a cluster.
func Kind() importer.Kind {
	kind := importer.Kind{
		Name: "kubernetes", Short: "Objects of a live Kubernetes cluster, as manifests",
		Long: `List the objects of a Kubernetes cluster, as a kubeconfig leads to it, and write them
as manifests: without what the cluster wrote into them, and without those that other
objects own, that Kubernetes makes by itself, or that hold secrets. Nothing is changed
there, and of Secrets only the names are asked for. What Helm, Flux or Argo CD apply is
left out, and told with where it comes from: import it from there. A program by which the
kubeconfig's user logs in is run, as kubectl runs it.`,
	}
	kind.Bind = func(flags *pflag.FlagSet) importer.Reader {
		path := flags.String("kubeconfig", "", "the kubeconfig (env KUBECONFIG; default ~/.kube/config)")
		name := flags.String("context", "", "its context (default: its current one)")
		namespaces := flags.StringSlice("namespace", nil, "only what is in these namespaces (default: all but Kubernetes' own)")
		all := flags.Bool("all-contexts", false, "the clusters of all contexts; one that does not answer is told")
		managed := flags.Bool("managed", false, "also what Helm, Flux or Argo CD apply")
		return func(ctx context.Context, _ []string) (importer.Import, error) {
			options := surveyOptions{namespaces: *namespaces, managed: *managed}
			if *all && *name != "" {
				return importer.Import{}, fault.New(fault.Invalid, "--all-contexts and --context %s contradict each other", *name).WithHint("leave one of them out")
			}
			if *all {
				return several(ctx, usual(*path), options)
			}
			server, err := connect(ctx, usual(*path), *name, true)
			if err != nil {
				return importer.Import{}, err
			}
			defer server.client.CloseIdleConnections()
			s := survey{server: server, surveyOptions: options, omissions: map[string]int{}}
			if err := s.read(ctx); err != nil {
				return importer.Import{}, err
			}
			return s.write()
		}
	}
	return kind
}

func usual(path string) string {
	if path != "" {
		return path
	}
	if listed := filepath.SplitList(os.Getenv("KUBECONFIG")); len(listed) > 0 {
		return listed[0]
	}
	home, _ := os.UserHomeDir()
	return filepath.Join(home, ".kube", "config")
}

// resource is a kind that can be listed.
type resource struct {
	Name, Kind string
	Namespaced bool
	Verbs      []string
	// version is GROUP/VERSION, or VERSION of the oldest group.
	version string
}

func (r resource) group() string {
	group, _, grouped := strings.Cut(r.version, "/")
	if !grouped {
		return ""
	}
	return group
}

// full is KIND[.GROUP].
func (r resource) full() string {
	if r.group() == "" {
		return r.Kind
	}
	return r.Kind + "." + r.group()
}

// surveyOptions say what is looked for.
type surveyOptions struct {
	namespaces []string
	// managed takes also what other tools apply.
	managed bool
}

// survey is what is found.
type survey struct {
	*server
	surveyOptions
	// manifests by path, and how many there are of each kind.
	manifests map[string][]byte
	kinds     map[string]int
	// scoped are kinds without a namespace that only the cluster knows so.
	scoped  []string
	leftOut []importer.LeftOut
	// each takes an object in place of take; nil: take does.
	each func(item map[string]any)
	// omissions counts what is left out, by why.
	omissions map[string]int
}

func (s *survey) read(ctx context.Context) error {
	resources, err := s.discover(ctx)
	if err != nil {
		return err
	}
	s.manifests, s.kinds = map[string][]byte{}, map[string]int{}
	for _, r := range resources {
		if !slices.Contains(r.Verbs, "list") || strings.Contains(r.Name, "/") || live[r.full()] || strings.HasSuffix(r.group(), "metrics.k8s.io") {
			continue
		}
		if len(s.namespaces) > 0 && !r.Namespaced && r.full() != "Namespace" {
			continue
		}
		if err := s.list(ctx, r); err != nil {
			return err
		}
	}
	for _, name := range s.namespaces {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(s.manifests)), func(path string) bool { return strings.HasPrefix(path, "manifests/"+segment(name)+"/") }) {
			return fault.New(fault.NotFound, "namespace %q has no objects to import", name).WithHint("kubectl get namespaces lists those that there are")
		}
	}
	return nil
}

// discover lists what the cluster serves, each group in the version that it
// prefers.
func (s *survey) discover(ctx context.Context) ([]resource, error) {
	versions := []string{"v1"}
	var groups struct {
		Groups []struct {
			PreferredVersion struct{ GroupVersion string }
		}
	}
	if err := s.get(ctx, "/apis", nil, "", &groups); err != nil {
		return nil, err
	}
	for _, g := range groups.Groups {
		versions = append(versions, g.PreferredVersion.GroupVersion)
	}
	var all []resource
	for _, version := range versions {
		path := "/apis/" + version
		if version == "v1" {
			path = "/api/v1"
		}
		var list struct{ Resources []resource }
		if err := s.get(ctx, path, nil, "", &list); err != nil {
			return nil, err
		}
		for _, r := range list.Resources {
			r.version = version
			all = append(all, r)
		}
	}
	return all, nil
}

// list reads all objects of a kind, a page at a time. What this user may not
// list is left out with a word.
func (s *survey) list(ctx context.Context, r resource) error {
	prefix := "/apis/" + r.version
	if r.group() == "" {
		prefix = "/api/" + r.version
	}
	places := []string{prefix + "/" + r.Name}
	if r.Namespaced && len(s.namespaces) > 0 {
		places = nil
		for _, namespace := range s.namespaces {
			places = append(places, prefix+"/namespaces/"+url.PathEscape(namespace)+"/"+r.Name)
		}
	}
	accept := ""
	if r.full() == "Secret" {
		accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	}
	for _, place := range places {
		query := url.Values{"limit": {"500"}}
		for {
			var page struct {
				Metadata struct{ Continue string }
				Items    []map[string]any
			}
			err := s.get(ctx, place, query, accept, &page)
			if fault.Is(err, fault.Denied) || fault.Is(err, fault.NotFound) {
				s.leave(r.full(), "this user may not list it: %v", err)
				break
			}
			if err != nil {
				return err
			}
			for _, item := range page.Items {
				if s.each != nil {
					s.each(item)
					continue
				}
				if err := s.take(r, item); err != nil {
					return err
				}
			}
			if page.Metadata.Continue == "" {
				break
			}
			query.Set("continue", page.Metadata.Continue)
		}
	}
	return nil
}

// maxAnswer bounds one answer of a cluster, in bytes.
const maxAnswer = 256 << 20

func (s *server) get(ctx context.Context, path string, query url.Values, accept string, target any) error {
	address := *s.base
	address.Path, address.RawQuery = address.Path+path, query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return fault.New(fault.Invalid, "asking %s: %w", path, err)
	}
	request.Header.Set("Accept", "application/json")
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := s.client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fault.New(fault.Unavailable, "asking the cluster for %s: %w", path, err).WithHint("is it reachable from here, as the kubeconfig says?")
	}
	defer response.Body.Close()
	kind := fault.Unavailable
	switch response.StatusCode {
	case http.StatusOK:
		decoder := json.NewDecoder(io.LimitReader(response.Body, maxAnswer))
		decoder.UseNumber() // Large integers stay what they are.
		if err := decoder.Decode(target); err != nil {
			return fault.New(fault.Unavailable, "reading the cluster's answer to %s: %w", path, err).WithHint("try again; a part of a list is never taken for all of it")
		}
		return nil
	case http.StatusUnauthorized:
		return fault.New(fault.Invalid, "the cluster does not know this user: it answered %s to %s", response.Status, path).
			WithHint("the kubeconfig's token or certificate may have ended; choose another --context, or make a new one")
	case http.StatusForbidden:
		kind = fault.Denied
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		kind = fault.NotFound
	}
	return fault.New(kind, "the cluster answered %s to %s", response.Status, path).WithHint("try again, or give that user a role that may list it")
}

func (s *survey) leave(subject, reason string, arguments ...any) {
	s.leftOut = append(s.leftOut, importer.LeftOut{What: subject, Why: fmt.Sprintf(reason, arguments...)})
}

// take writes an object, or says why not.
func (s *survey) take(r resource, item map[string]any) error {
	item["apiVersion"], item["kind"] = r.version, r.Kind // Lists leave them out.
	metadata, _ := item["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	subject := r.full() + " " + strings.TrimPrefix(namespace+"/"+name, "/")
	if tools := appliersOf(item); len(tools) > 1 && metadata["ownerReferences"] == nil {
		s.leave(subject, "%s apply it, and each may undo what the other does: let all but one rest before Lehr enforces it", strings.Join(tools, " and "))
	}
	switch {
	case r.full() == "Namespace" && len(s.namespaces) > 0 && !slices.Contains(s.namespaces, name):
		return nil
	case len(s.namespaces) == 0 && (own[namespace] || r.full() == "Namespace" && (own[name] || name == "default")):
		s.omissions["Kubernetes' own namespaces: name one with --namespace to import it"]++
		return nil
	case metadata["ownerReferences"] != nil:
		s.omissions["objects that others own, which make them again"]++
		return nil
	case metadata["deletionTimestamp"] != nil:
		s.leave(subject, "it is being deleted")
		return nil
	case isGenerated(r, name, item):
		s.omissions["objects that Kubernetes makes by itself"]++
		return nil
	case s.isMade(item):
		return nil
	case r.full() == "Secret":
		s.leave(subject, "what it holds is secret, and was not read: let what holds secrets make it (External Secrets, Sealed Secrets, a Secrets Store driver), or leave it made by hand")
		return nil
	}
	bare(r, item)
	text, err := yaml.Marshal(numbers(item))
	if err != nil {
		return fault.New(fault.Internal, "writing %s: %w", subject, err)
	}
	path := fmt.Sprintf("manifests/%s/%s-%s.yaml", segment(orCluster(namespace)), strings.ToLower(r.Kind), segment(name))
	for n := 2; s.manifests[path] != nil; n++ {
		path = fmt.Sprintf("manifests/%s/%s-%s-%d.yaml", segment(orCluster(namespace)), strings.ToLower(r.Kind), segment(name), n)
	}
	// What the renderer would refuse, or suspect of a secret, is not written.
	settings := kubernetes.Settings{Cluster: s.name, Namespace: "default"}
	if !r.Namespaced {
		settings.ClusterScoped = []string{r.full()}
	}
	_, findings := kubernetes.Read([]kubernetes.Manifest{{File: path, Text: text}}, settings)
	for _, f := range findings {
		if !f.Warning || f.Secret {
			s.leave(subject, "%s", f.Message)
			return nil
		}
	}
	s.manifests[path] = text
	s.kinds[r.full()]++
	if group := r.group(); !r.Namespaced && strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") && !slices.Contains(s.scoped, r.full()) {
		s.scoped = append(s.scoped, r.full())
	}
	return nil
}

// isMade counts an object that another tool applies, unless all are taken.
func (s *survey) isMade(item map[string]any) bool {
	if s.managed {
		return false
	}
	m, ok := makerOf(item)
	if ok {
		s.omissions[m.reason()]++
	}
	return ok
}

// numbers makes JSON's numbers those that YAML writes.
func numbers(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		if whole, err := strconv.ParseUint(value.String(), 10, 64); err == nil {
			return whole
		}
		float, _ := value.Float64()
		return float
	case []any:
		for i := range value {
			value[i] = numbers(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = numbers(value[key])
		}
	}
	return value
}

func orCluster(namespace string) string {
	if namespace == "" {
		return "cluster"
	}
	return namespace
}

func (s *survey) write() (importer.Import, error) {
	result := importer.Import{Files: s.manifests, LeftOut: s.leftOut}
	if len(s.manifests) == 0 {
		return result, fault.New(fault.NotFound, "the cluster has no objects to import").WithHint("is it the right context, and may its user list anything? --namespace NAME looks into one of Kubernetes' own")
	}
	result.Definition = `sources:
  manifests: {dir: manifests, files: ["**/*.yaml"]}

generate:
  objects: {render: kubernetes, from: [manifests]` + s.with() + `}
`
	result.Read = []string{"cluster " + s.base.Host}
	for _, kind := range slices.Sorted(maps.Keys(s.kinds)) {
		result.Read = append(result.Read, fmt.Sprintf("%s: %d", kind, s.kinds[kind]))
	}
	for _, reason := range slices.Sorted(maps.Keys(s.omissions)) {
		result.LeftOut = append(result.LeftOut, importer.LeftOut{What: fmt.Sprintf("objects, %d in all", s.omissions[reason]), Why: reason})
	}
	result.Hints = []string{"no plugin is bound to Kubernetes objects: they are read and validated, and compared with the cluster once one is bound under plugins"}
	return result, nil
}

// with is what the generator says of the cluster.
func (s *survey) with() string {
	options := ", with: {cluster: " + s.name
	if len(s.scoped) > 0 {
		options += ", cluster_scoped: [" + strings.Join(s.scoped, ", ") + "]"
	}
	return options + "}"
}
