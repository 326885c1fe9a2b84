package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/kubekind"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/sdk/client"
)

const (
	// findPage is how many assets one request lists.
	findPage = 1000
	// mostCompared objects are compared with a name that nothing has.
	mostCompared = 20_000
	// mostNear of them are named.
	mostNear = 5
)

// OwnerQuery asks a live cluster which objects own another one.
type OwnerQuery struct {
	// Kubeconfig, and its context; empty: the usual ones of kubectl.
	Kubeconfig, Context string
	// Kinds that the object may be of, its namespace and name.
	Kinds           []kubekind.Kind
	Namespace, Name string
}

// LiveObject is one of a cluster, by name.
type LiveObject struct {
	Kind      string `json:"kind"`
	Group     string `json:"group,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func (o LiveObject) String() string {
	text := strings.ToLower(kubekind.FullName(o.Kind, o.Group)) + "/" + o.Name
	if o.Namespace != "" {
		text += " -n " + o.Namespace
	}
	return text
}

// findFlags narrow what lehr find looks for.
type findFlags struct {
	namespace, cluster, kubeconfig, context string
	owners                                  bool
}

func (s *session) findCommand() *cobra.Command {
	var flags findFlags
	command := &cobra.Command{
		Use:   "find KIND/NAME",
		Short: "Show which asset a Kubernetes object is, and where it comes from",
		Long: `Find the assets of Kubernetes objects in all partitions, by the names that kubectl uses:
deployment/web, deploy/web, deployments.apps/web. Each asset is shown with its incarnation,
the file and line that it comes from, the commit that changed it, and the rollout that
decides which incarnation it follows. The search covers what is intended. For an object that
a controller made, such as a pod, --owners asks the cluster of a kubeconfig who owns it, and
shows the owner's asset.`,
		Example: `  lehr find deployment/web -n shop
  lehr find sts/db -n shop --cluster eu
  lehr find pod/web-7d4b9c-x2x -n shop --owners`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(command *cobra.Command, args []string) error {
			word, name, err := objectNamed(args)
			if err != nil {
				return err
			}
			if !flags.owners && (flags.kubeconfig != "" || flags.context != "") {
				return fault.New(fault.Invalid, "--kubeconfig and --context say whom --owners asks, and it is not there").WithHint("add --owners")
			}
			c, err := s.connectOrRead(command.Context())
			if err != nil {
				return err
			}
			return s.find(command.Context(), c, word, name, flags)
		},
	}
	f := command.Flags()
	f.StringVarP(&flags.namespace, "namespace", "n", "", "only in this namespace; objects without a namespace are found too")
	f.StringVar(&flags.cluster, "cluster", "", "only in this cluster, as lehr.yaml names it")
	f.BoolVar(&flags.owners, "owners", false, "ask the cluster who owns the object, by its owner references")
	f.StringVar(&flags.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster that --owners asks (env KUBECONFIG; default ~/.kube/config)")
	f.StringVar(&flags.context, "context", "", "context in the kubeconfig (default: its current one)")
	return command
}

// objectNamed reads KIND/NAME, or both as two arguments.
func objectNamed(args []string) (word, name string, err error) {
	word, name, ok := strings.Cut(args[0], "/")
	if len(args) == 2 && !ok {
		name, ok = args[1], true
	} else if len(args) == 2 {
		ok = false
	}
	if !ok || word == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fault.New(fault.Invalid, "%q names no object", strings.Join(args, " ")).WithHint("write KIND/NAME as kubectl takes it: lehr find deployment/web")
	}
	return word, name, nil
}

// finder looks for objects in partitions.
type finder struct {
	*session
	client     *client.Client
	partitions []string
	flags      findFlags
	table      *kubekind.Table
}

func (s *session) find(ctx context.Context, c *client.Client, word, name string, flags findFlags) error {
	f := &finder{session: s, client: c, flags: flags, table: kubekind.NewTable()}
	var err error
	if f.partitions, err = s.choosePartitions(ctx, c); err != nil {
		return err
	}
	if len(f.table.Match(word)) == 0 {
		if err := f.learnKinds(ctx); err != nil {
			return err
		}
	}
	kinds := f.table.Match(word)
	hits, err := f.findNamed(ctx, word, kinds, flags.namespace, name)
	if err != nil {
		return err
	}
	var owners []LiveObject
	if len(hits) == 0 && flags.owners {
		if len(kinds) == 0 {
			return fault.New(fault.Invalid, "no kind %q is known, so its owners cannot be asked for", word).WithHint("write the kind as KIND.GROUP of a definition in the partition, or one that every cluster has")
		}
		if hits, owners, err = f.findOwners(ctx, kinds, name); err != nil {
			return err
		}
	}
	if len(hits) == 0 {
		return f.reportNothing(ctx, word, name, owners)
	}
	return f.show(ctx, hits, owners)
}

// choosePartitions returns the partitions to look in: the one that is named, or all.
func (s *session) choosePartitions(ctx context.Context, c *client.Client) (names []string, err error) {
	if s.partition != "" {
		return []string{s.partition}, nil
	}
	response, err := c.Partitions.ListPartitions(ctx, &apipb.ListPartitionsRequest{})
	if err != nil {
		return nil, err
	}
	for _, p := range response.Partitions {
		names = append(names, p.Id)
	}
	if len(names) == 0 {
		return nil, fault.New(fault.NotFound, "no partition is registered").WithHint("register one with: lehr partition add lehr.yaml")
	}
	return names, nil
}

// hit is an asset of an object.
type hit struct {
	LiveObject
	Partition string `json:"partition"`
	Asset     string `json:"asset"`
	Cluster   string `json:"cluster"`
	State     string `json:"state,omitempty"`
	// head is the incarnation that was searched.
	head string
}

// eachObject calls do for the objects of all partitions that have an indexed field of a value, or
// for all where no field is named, until it says to stop.
func (f *finder) eachObject(ctx context.Context, field, value string, do func(h hit, content map[string]any) (goOn bool)) error {
	for _, partition := range f.partitions {
		request := &apipb.ListAssetsRequest{Partition: partition, Type: string(objectType), Field: field, Value: value, Limit: findPage, Content: true}
		for {
			page, err := f.client.Assets.ListAssets(ctx, request)
			if fault.Is(client.Fault(err), fault.NotFound) && f.partition == "" {
				break // It has no head yet.
			}
			if err != nil {
				return err
			}
			for _, asset := range page.Assets {
				fields := asset.Payload.AsMap()
				text := func(name string) string { value, _ := fields[name].(string); return value }
				h := hit{Partition: partition, Asset: asset.Id, Cluster: text("cluster"), State: asset.State, head: page.Incarnation}
				h.LiveObject = LiveObject{Kind: text("kind"), Group: kubekind.GroupOf(text("api_version")), Namespace: text("namespace"), Name: text("name")}
				if !do(h, fields) {
					return nil
				}
			}
			if request.After = page.Next; page.Next == "" {
				break
			}
		}
	}
	return nil
}

// findNamed returns the assets of objects with a name that are of one of the kinds; where no kind is
// known by that word, of one that is called like it.
func (f *finder) findNamed(ctx context.Context, word string, kinds []kubekind.Kind, namespace, name string) (hits []hit, err error) {
	err = f.eachObject(ctx, "Object.name", name, func(h hit, _ map[string]any) bool {
		if f.isWithin(h, namespace) && isOfKind(h.LiveObject, word, kinds) {
			hits = append(hits, h)
		}
		return true
	})
	return hits, err
}

func (f *finder) isWithin(h hit, namespace string) bool {
	return (f.flags.cluster == "" || h.Cluster == f.flags.cluster) && (namespace == "" || h.Namespace == "" || h.Namespace == namespace)
}

func isOfKind(o LiveObject, word string, kinds []kubekind.Kind) bool {
	if len(kinds) > 0 {
		return slices.ContainsFunc(kinds, func(k kubekind.Kind) bool { return k.Name == o.Kind && k.Group == o.Group })
	}
	called := kubekind.Kind{Name: o.Kind, Group: o.Group, Plural: strings.ToLower(o.Kind) + "s"}
	return len(kubekind.NewTable(called).Match(word)) > 0
}

// reportNothing says that nothing was found, with the names that are nearest.
func (f *finder) reportNothing(ctx context.Context, word, name string, owners []LiveObject) error {
	near, err := f.findNearest(ctx, word, name)
	if err != nil {
		return err
	}
	place := "partition " + strings.Join(f.partitions, ", ")
	if len(f.partitions) > 1 {
		place = "the partitions " + strings.Join(f.partitions, ", ")
	}
	problem := fault.New(fault.NotFound, "no asset of %s is the object %s/%s%s", place, word, name, f.describeScope())
	var hints []string
	if len(near) > 0 {
		hints = append(hints, "the nearest are: "+strings.Join(near, "; "))
	}
	switch {
	case len(owners) > 0:
		hints = append(hints, "in the cluster it is owned by "+joinNames(owners)+", of which none is an asset")
	case f.flags.owners:
		hints = append(hints, "in the cluster nothing owns it")
	default:
		hints = append(hints, "only names of intent were searched: for an object that a controller made, add --owners")
	}
	return problem.WithHint("%s", strings.Join(hints, ". "))
}

func (f *finder) describeScope() (text string) {
	if f.flags.namespace != "" {
		text += " in the namespace " + f.flags.namespace
	}
	if f.flags.cluster != "" {
		text += " of the cluster " + f.flags.cluster
	}
	return text
}

func joinNames(objects []LiveObject) string {
	var names []string
	for _, o := range objects {
		names = append(names, o.String())
	}
	return strings.Join(names, ", ")
}

// findNearest returns the objects whose names differ least: those of the same name first, whatever
// their kind and namespace.
func (f *finder) findNearest(ctx context.Context, word, name string) (names []string, err error) {
	type candidate struct {
		text     string
		distance int
	}
	var near []candidate
	kinds := f.table.Match(word)
	compared := 0
	err = f.eachObject(ctx, "", "", func(h hit, _ map[string]any) bool {
		compared++
		isOfThatKind := isOfKind(h.LiveObject, word, kinds)
		distance := spell.Distance(name, h.Name)
		if distance == 0 || isOfThatKind && spell.Nearest(name, []string{h.Name}) != "" {
			if !isOfThatKind {
				distance++
			}
			near = append(near, candidate{h.String() + " (cluster " + h.Cluster + ")", distance})
		}
		return compared < mostCompared
	})
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.text, b.text))
	})
	for _, one := range near[:min(len(near), mostNear)] {
		names = append(names, plain(one.text))
	}
	return names, err
}

// show prints what is known of each asset.
func (f *finder) show(ctx context.Context, hits []hit, owners []LiveObject) error {
	if len(owners) > 0 && !f.json() {
		fmt.Fprintf(f.Out, "In the cluster it is owned by %s.\n\n", plain(joinNames(owners)))
	}
	shown := []foundAsset{}
	for i, h := range hits {
		o, err := f.readOrigin(ctx, h)
		if err != nil {
			return err
		}
		if f.json() {
			shown = append(shown, o)
			continue
		}
		if i > 0 {
			fmt.Fprintln(f.Out)
		}
		f.printOrigin(o)
	}
	if f.json() {
		return printJSON(f.Out, map[string]any{"found": shown, "owners": append([]LiveObject{}, owners...)})
	}
	return nil
}
