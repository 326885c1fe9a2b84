package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

// query is what get was asked for.
type query struct {
	partition, prefix, kind, state, incarnation, asset string
	field, refersTo, filter, at, label, group          string
	actor, since                                       string
	limit                                              int
	// everywhere: the audit of what concerns all partitions at once.
	everywhere bool
	// usedBy is an asset: those that refer to it, through others too.
	usedBy string
	// uses: who refers to an asset through others, too.
	uses bool
}

// listing is a list in both forms.
type listing struct {
	header   []string
	rows     [][]string
	messages []proto.Message
	// more: the limit cut it off.
	more bool
	// notes for people, below the table.
	notes []string
}

func (l *listing) add(m proto.Message, cells ...string) {
	l.messages = append(l.messages, m)
	l.rows = append(l.rows, cells)
}

// noun is one kind of thing that get and describe know.
type noun struct {
	names []string
	// global: it is not listed by partition.
	global bool
	// named: describe needs a name.
	named bool
	// chosen lists the flags by which get chooses among them, beside --limit.
	chosen   []string
	list     func(ctx context.Context, s *session, c *client.Client, q query) (listing, error)
	describe func(ctx context.Context, s *session, c *client.Client, partition, name string) error
	// describeAsOf, if any, describes it as of an incarnation or a candidate.
	describeAsOf func(ctx context.Context, s *session, c *client.Client, q query, name string) error
}

// nouns, in the order in which help lists them.
func nouns() []noun {
	return []noun{
		{names: []string{"assets", "asset"}, named: true, chosen: []string{"prefix", "type", "field", "refers-to", "uses", "incarnation", "filter", "at", "label"}, list: listAssets, describe: describeAsset, describeAsOf: describeAssetAsOf},
		{names: []string{"partitions", "partition"}, global: true, list: listPartitions, describe: describePartition},
		{names: []string{"incarnations", "incarnation"}, chosen: []string{"at", "label"}, list: listIncarnations, describe: describeIncarnation},
		{names: []string{"candidates", "candidate"}, list: listCandidates, describe: describeCandidate},
		{names: []string{"reports", "report"}, named: true, chosen: []string{"prefix", "state", "group"}, list: listReports, describe: describeReport},
		{names: []string{"groups", "group"}, named: true, chosen: []string{"group"}, list: listGroups, describe: describeGroup},
		{names: []string{"pins", "pin"}, list: listPins, describe: describeListed(listPins)},
		{names: []string{"holds", "hold"}, list: listHolds, describe: describeListed(listHolds)},
		{names: []string{"stops", "stop"}, global: true, list: listStops, describe: describeListed(listStops)},
		{names: []string{"approvals", "approval"}, list: listApprovals, describe: describeListed(listApprovals)},
		{names: []string{"overrides", "override"}, list: listOverrides, describe: describeListed(listOverrides)},
		{names: []string{"rollouts", "rollout"}, named: true, list: listRollouts, describe: describeRollout},
		{names: []string{"environments", "environment"}, list: listEnvironments, describe: describeListed(listEnvironments)},
		{names: []string{"versions", "version"}, list: listVersions, describe: describeListed(listVersions)},
		{names: []string{"previews", "preview"}, list: listPreviews, describe: describeListed(listPreviews)},
		{names: []string{"windows", "window"}, chosen: []string{"asset"}, list: listWindows, describe: describeListed(listWindows)},
		{names: []string{"pushes", "push"}, chosen: []string{"asset"}, list: listPushes, describe: describePush},
		{names: []string{"plugins", "plugin"}, list: listPlugins, describe: describeListed(listPlugins)},
		{names: []string{"orphans", "orphan"}, list: listOrphans, describe: describeListed(listOrphans)},
		{names: []string{"notifications", "notification"}, list: listNotifications, describe: describeListed(listNotifications)},
		{names: []string{"audit"}, chosen: []string{"global", "asset", "actor", "since"}, list: listAudit, describe: describeAudit},
	}
}

func nounNames() []string {
	var names []string
	for _, n := range nouns() {
		names = append(names, n.names[0])
	}
	return names
}

func findNoun(name string) (noun, error) {
	for _, n := range nouns() {
		if slices.Contains(n.names, name) {
			return n, nil
		}
	}
	return noun{}, fault.New(fault.Invalid, "%q is no kind of thing", name).WithHint("known are: %s", strings.Join(nounNames(), ", "))
}

// usualLimit of a list.
const usualLimit = 1000

func (s *session) getCommand() *cobra.Command {
	var q query
	command := &cobra.Command{
		Use:   "get KIND [ASSET]",
		Short: "List assets, reports, incarnations, rollouts and everything else Lehr keeps",
		Long:  "List things of a KIND: " + strings.Join(nounNames(), ", ") + ".",
		Example: `  lehr get assets --prefix web/ --type Job
  lehr get assets --field Job.version=1.2
  lehr get assets --field 'ImpactedScope.scopes[cluster]=a' --refers-to db
  lehr get assets --filter 'type == "Job" && payload.replicas > 2'
  lehr get assets --uses db
  lehr get assets --at 2h --filter 'labels.team == "web"'
  lehr get assets --at release=spring
  lehr get incarnations --label release=spring
  lehr get reports --state waiting --group shop/a
  lehr get groups
  lehr get pushes --asset web/a -o json
  lehr get windows web/a
  lehr get audit --actor ann --since 2h`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeNouns,
		RunE: func(command *cobra.Command, args []string) error {
			noun, err := findNoun(args[0])
			if err == nil && len(args) == 2 {
				q.asset, err = noun.assetOf(args[1])
			}
			if err == nil {
				err = noun.takes(command, q.limit)
			}
			if err == nil && q.everywhere && s.partitionGiven {
				err = fault.New(fault.Invalid, "both a partition and --global are named").WithHint("leave one of them out")
			}
			if err != nil {
				return err
			}
			return s.get(command.Context(), noun, q)
		},
	}
	flags := command.Flags()
	flags.StringVar(&q.prefix, "prefix", "", "assets and reports whose id begins with this")
	flags.StringVar(&q.kind, "type", "", "assets of this protobuf type, for example Job")
	flags.StringVar(&q.field, "field", "", "assets with this indexed field, as PATH or PATH=VALUE, or with this addon")
	flags.StringVar(&q.refersTo, "refers-to", "", "assets with a reference to this asset")
	flags.StringVar(&q.usedBy, "uses", "", "assets that refer to this asset directly or through others: what a change of it may affect")
	flags.StringVar(&q.state, "state", "", "reports in this state: in-sync, waiting, pushing, off, unserved, model, gone")
	flags.StringVar(&q.incarnation, "incarnation", "", "assets as of this incarnation, or this candidate as ~DIGEST (default: head)")
	flags.StringVar(&q.filter, "filter", "", "assets for which this CEL expression is true")
	flags.StringVar(&q.at, "at", "", "assets, or the incarnation, as of a time (2026-11-21T08:00:00Z, \"2026-11-21 08:00\", 2h ago as 2h), an id (12, or ~DIGEST of a candidate), or a label")
	flags.StringVar(&q.label, "label", "", "the newest incarnation with this label, or its assets, as KEY or KEY=VALUE")
	flags.StringVar(&q.asset, "asset", "", "pushes, windows and audit records of this asset")
	flags.StringVar(&q.group, "group", "", "reports of the members of this service or instance, and its groups")
	flags.StringVar(&q.actor, "actor", "", "audit records of what this person or program did")
	flags.StringVar(&q.since, "since", "", "audit records since a time: 2026-11-21T08:00:00Z, or 2h ago as 2h")
	flags.BoolVar(&q.everywhere, "global", false, "audit records about all partitions, for example a stop of all")
	flags.IntVar(&q.limit, "limit", usualLimit, "at most this many; for windows: of each check (then usually 5)")
	return command
}

func completeNouns(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nounNames(), cobra.ShellCompDirectiveNoFileComp
}

// assetOf is the asset that get was asked for by its name alone.
func (n noun) assetOf(name string) (string, error) {
	if !slices.Contains(n.chosen, "asset") {
		return "", fault.New(fault.Invalid, "%s are not listed by asset", n.names[0]).
			WithHint("lehr describe %s NAME shows one, where it has a name; lehr get %s takes flags", n.names[len(n.names)-1], n.names[0])
	}
	return name, nil
}

// takes refuses flags that would choose nothing among things of this kind: a
// list that ignores its filter looks like an answer.
func (n noun) takes(command *cobra.Command, limit int) error {
	if limit < 0 {
		return fault.New(fault.Invalid, "--limit %d is below 0", limit)
	}
	for _, other := range nouns() {
		for _, flag := range other.chosen {
			if command.Flags().Changed(flag) && !slices.Contains(n.chosen, flag) {
				return fault.New(fault.Invalid, "--%s does not choose among %s", flag, n.names[0]).
					WithHint("they take --%s", strings.Join(append(slices.Clone(n.chosen), "limit"), ", --"))
			}
		}
	}
	return nil
}

func (s *session) get(ctx context.Context, noun noun, q query) error {
	c, err := s.connectOrRead(ctx)
	if err != nil {
		return err
	}
	if q.partition = s.partition; !noun.global && !q.everywhere {
		if q.partition, err = s.choose(ctx, c); err != nil {
			return err
		}
	}
	result, err := noun.list(ctx, s, c, q)
	if err != nil {
		return err
	}
	return s.printListing(result, noun.names[0])
}

// printListing prints a list of what has this name.
func (s *session) printListing(result listing, names string) error {
	if s.json() {
		if err := printMessages(s.Out, result.messages); err != nil {
			return err
		}
	} else if len(result.rows) == 0 {
		fmt.Fprintf(s.Out, "No %s.\n", names)
	} else {
		table(s.Out, result.header, result.rows)
	}
	if !s.json() {
		for _, note := range result.notes {
			fmt.Fprintln(s.Out, note)
		}
	}
	if result.more {
		fmt.Fprintf(s.Err, "There are more; --limit raises the number shown.\n")
	}
	return nil
}

// pages calls fetch until it has said that there is no more, or until the
// limit is reached, which it reports.
func pages(limit int, fetch func(most int32) (got int, more bool, err error)) (bool, error) {
	const mostPage = 1000
	for limit > 0 {
		got, more, err := fetch(int32(min(limit, mostPage)))
		if err != nil || !more {
			return false, err
		}
		limit -= max(got, 1)
	}
	return true, nil
}
