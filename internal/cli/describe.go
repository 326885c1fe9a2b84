package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

func (s *session) describeCommand() *cobra.Command {
	var everywhere bool
	var q query
	command := &cobra.Command{
		Use:   "describe KIND NAME",
		Short: "Show one thing in full",
		Example: `  lehr describe asset web/a
  lehr describe asset db --uses      # what would be touched, through others too
  lehr describe asset web/a --incarnation ~f11f0140  # as a candidate has it
  lehr describe candidate            # the newest
  lehr describe incarnation shop@3
  lehr describe audit                # is the record intact?`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeNouns,
		RunE: func(command *cobra.Command, args []string) error {
			noun, err := findNoun(args[0])
			if err != nil {
				return err
			}
			if len(args) == 1 && noun.named {
				return fault.New(fault.Invalid, "which %s?", args[0]).WithHint("write lehr describe %s NAME; lehr get %s lists them", args[0], noun.names[0])
			}
			if noun.describeAsOf == nil && (q.at != "" || q.incarnation != "" || q.label != "") {
				return fault.New(fault.Invalid, "%s are not described as of an incarnation", noun.names[0]).WithHint("lehr describe asset NAME takes --at, --incarnation and --label")
			}
			if noun.describeAsOf == nil && q.uses {
				return fault.New(fault.Invalid, "only assets refer to each other").WithHint("lehr describe asset NAME takes --uses")
			}
			c, err := s.connectOrRead(command.Context())
			if err != nil {
				return err
			}
			partition := s.partition
			if everywhere {
				if s.partitionGiven {
					return fault.New(fault.Invalid, "both a partition and --global are named").WithHint("leave one of them out")
				}
				if noun.names[0] != "audit" {
					return fault.New(fault.Invalid, "--global is for the audit only").WithHint("lehr describe audit --global")
				}
				partition = ""
			} else if !noun.global || len(args) == 1 {
				if partition, err = s.choose(command.Context(), c); err != nil {
					return err
				}
			}
			name := strings.Join(args[1:], "")
			if q.at != "" || q.incarnation != "" || q.label != "" || q.uses {
				q.partition = partition
				return noun.describeAsOf(command.Context(), s, c, q, name)
			}
			return noun.describe(command.Context(), s, c, partition, name)
		},
	}
	flags := command.Flags()
	flags.StringVar(&q.at, "at", "", "an asset as of a time (2026-11-21T08:00:00Z, 2h ago as 2h), an id (12, or ~DIGEST of a candidate), or a label")
	flags.StringVar(&q.incarnation, "incarnation", "", "an asset as of this incarnation, or this candidate as ~DIGEST (default: head)")
	flags.StringVar(&q.label, "label", "", "an asset as of the newest incarnation with this label, as KEY or KEY=VALUE")
	flags.BoolVar(&q.uses, "uses", false, "who refers to an asset, also through others, as a tree")
	flags.BoolVar(&everywhere, "global", false, "the audit of what concerns all partitions, for example a stop of all")
	return command
}

// describeListed shows the entries of a list whose first column is the name.
func describeListed(list func(context.Context, *session, *client.Client, query) (listing, error)) func(context.Context, *session, *client.Client, string, string) error {
	return func(ctx context.Context, s *session, c *client.Client, partition, name string) error {
		const most = 1000
		result, err := list(ctx, s, c, query{partition: partition, limit: most})
		if err != nil {
			return err
		}
		var matching []proto.Message
		for i, row := range result.rows {
			if name != "" && !slices.Contains(row[:2], name) {
				continue
			}
			if matching = append(matching, result.messages[i]); s.json() {
				continue
			}
			if len(matching) > 1 {
				fmt.Fprintln(s.Out)
			}
			printFields(s, result.messages[i])
		}
		switch {
		case len(matching) == 0 && name != "":
			return fault.New(fault.NotFound, "there is none of %s", name)
		case s.json():
			return printMessages(s.Out, matching)
		case len(matching) == 0:
			fmt.Fprintln(s.Out, "There are none.")
		}
		return nil
	}
}

// describeAudit recomputes the chain of a partition's record.
func describeAudit(ctx context.Context, s *session, c *client.Client, partition, _ string) error {
	response, err := c.Audit.VerifyAudit(ctx, &apipb.VerifyAuditRequest{Partition: partition})
	if err != nil {
		return err
	}
	subject := "partition " + partition
	if partition == "" {
		subject = "what concerns all partitions"
	}
	switch {
	case s.json():
		err = printMessage(s.Out, response)
	case response.Intact:
		fmt.Fprintf(s.Out, "The audit of %s is intact: each record follows from the one before.\n", plain(subject))
	default:
		fmt.Fprintf(s.Out, "The audit of %s is NOT intact: %s\n", plain(subject), plain(response.Problem))
	}
	if err == nil && !response.Intact {
		return exit{exitError}
	}
	return err
}

// printFields prints whatever a small message holds.
func printFields(s *session, m proto.Message) {
	text, err := messageJSON(m)
	if err != nil {
		return
	}
	var values map[string]any
	if err := json.Unmarshal(text, &values); err != nil {
		return
	}
	var pairs []string
	descriptors := m.ProtoReflect().Descriptor().Fields()
	for i := range descriptors.Len() {
		value, isSet := values[descriptors.Get(i).JSONName()]
		if !isSet {
			continue
		}
		rendered := fmt.Sprint(value)
		if actor, ok := value.(map[string]any); ok && actor["name"] != nil {
			rendered = fmt.Sprintf("%v (%v)", actor["name"], actor["origin"])
		}
		pairs = append(pairs, strings.ReplaceAll(string(descriptors.Get(i).Name()), "_", " "), rendered)
	}
	fields(s.Out, pairs...)
}

func describeAsset(ctx context.Context, s *session, c *client.Client, partition, name string) error {
	return describeAssetAsOf(ctx, s, c, query{partition: partition}, name)
}

func describeAssetAsOf(ctx context.Context, s *session, c *client.Client, q query, name string) error {
	asOf, err := s.asOf(q)
	if err != nil {
		return err
	}
	partition := q.partition
	a, err := c.Assets.GetAsset(ctx, &apipb.GetAssetRequest{Partition: partition, Asset: name, Incarnation: asOf.incarnation, At: asOf.time, Label: asOf.label, Uses: q.uses})
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, a)
	}
	fields(s.Out,
		"asset", a.Asset.Id, "type", a.Asset.Type, "incarnation", a.Incarnation, "unchanged since", a.Asset.Since,
		"digest", a.Asset.Digest, "state", a.Asset.State)
	s.printResolved(ctx, c, partition, name, a.Incarnation, "")
	fmt.Fprintln(s.Out, "\npayload:")
	printStruct(s, a.Payload)
	for _, addon := range slices.Sorted(maps.Keys(a.Addons)) {
		fmt.Fprintf(s.Out, "\naddon %s:\n", plain(addon))
		printStruct(s, a.Addons[addon])
	}
	printReferences(s, "refers to", a.References, func(r *apipb.Reference) string { return r.To })
	if q.uses {
		printUses(s, a)
	} else {
		printReferences(s, "referred to by", a.ReferencedBy, func(r *apipb.Reference) string { return r.From })
	}
	if a.Report != nil {
		fmt.Fprintln(s.Out, "\nlast report:")
		s.printReport(a.Report, "  ")
	}
	fmt.Fprintf(s.Out, "\nlehr why %s says why it is so.\n", plain(a.Asset.Id))
	return nil
}

// printStruct prints a decoded message, two spaces in.
func printStruct(s *session, content *structpb.Struct) {
	var b strings.Builder
	if err := printJSON(&b, content.AsMap()); err != nil {
		return
	}
	fmt.Fprintf(s.Out, "  %s\n", strings.ReplaceAll(strings.TrimSpace(b.String()), "\n", "\n  "))
}

func printReferences(s *session, title string, references []*apipb.Reference, describe func(*apipb.Reference) string) {
	if len(references) == 0 {
		return
	}
	fmt.Fprintf(s.Out, "\n%s:\n", title)
	for _, r := range references {
		read := ""
		if r.Read {
			read = ", read by its plugin"
		}
		fmt.Fprintf(s.Out, "  %s (%s%s)\n", plain(describe(r)), plain(r.Field), read)
	}
}

// printUses prints who refers to an asset, also through others, as a tree.
func printUses(s *session, a *apipb.GetAssetResponse) {
	if len(a.Uses) == 0 {
		fmt.Fprintln(s.Out, "\nreferred to by none.")
		return
	}
	fmt.Fprintln(s.Out, "\nreferred to by, also through others:")
	for _, use := range a.Uses {
		again := ""
		if use.Again {
			again = ", told elsewhere"
		}
		fmt.Fprintf(s.Out, "%s%s (%s%s)\n", strings.Repeat("  ", int(use.Depth)), plain(usedName(use)), plain(strings.Join(use.Fields, ", ")), again)
	}
	if a.MoreUses {
		fmt.Fprintf(s.Out, "  and others: these are the first %d\n", len(a.Uses))
	}
}

func describePartition(ctx context.Context, s *session, c *client.Client, partition, name string) error {
	if name == "" {
		name = partition
	}
	name, err := s.namedPartition(name)
	if err != nil {
		return err
	}
	response, err := c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: name})
	if err != nil {
		return err
	}
	p := response.Partition
	if s.json() {
		return printMessage(s.Out, p)
	}
	fields(s.Out,
		"partition", p.Id, "owner", p.Owner, "definition", p.Definition, "mode", p.Mode, "head", p.Head,
		"assets", fmt.Sprint(p.Assets), "states", states(p.States), "covers", sources(p.Covered),
		"registered", s.ago(p.Created), "replica", p.Replica, "epoch", fmt.Sprint(p.Epoch))
	if p.Stop != nil {
		fmt.Fprintf(s.Out, "\nstopped by %s%s: %s; %s ends it\n", plain(p.Stop.Owner.GetName()), withLeadingSpace(s.ago(p.Stop.Since)), plain(p.Stop.Reason), plain(p.Stop.Ending))
	}
	if p.Orphans > 0 {
		fmt.Fprintf(s.Out, "\n%s: enforced once, not in intent any more, and left as they are. lehr get orphans lists them.\n", count(int(p.Orphans), "orphan"))
	}
	problems, turns, _ := problemsOf(ctx, c)
	if turn := turns[p.Id]; turn != "" {
		fmt.Fprintf(s.Out, "\nNewer sources %s.\n", plain(turn))
	}
	if problem := problems[p.Id]; problem != "" {
		fmt.Fprintf(s.Out, "\nNot all of it works: %s\n", plain(problem))
	}
	for _, r := range p.Covered {
		if r.Failing != nil {
			fmt.Fprintf(s.Out, "\nThe source %s is as it was read last; it cannot be read since %s (%s): %s\n",
				plain(r.Source), r.Failing.Since.AsTime().UTC().Format(time.RFC3339), s.ago(r.Failing.Since), plain(r.Failing.Reason))
		}
	}
	if p.BlockedBy != nil {
		fmt.Fprintf(s.Out, "\nThe newest sources are not served: candidate %s is %s.\n", plain(p.BlockedBy.Id), p.BlockedBy.State)
		s.printFindings(p.BlockedBy.Findings, "  ")
	}
	return nil
}

func describeIncarnation(ctx context.Context, s *session, c *client.Client, partition, name string) error {
	if name == "" {
		response, err := c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: partition})
		if err != nil {
			return err
		}
		name = response.Partition.Head
	}
	response, err := c.Incarnations.GetIncarnation(ctx, &apipb.GetIncarnationRequest{Id: incarnationID(partition, name)})
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, response)
	}
	i := response.Incarnation
	fields(s.Out,
		"incarnation", i.Id, "state", i.State, "parent", i.Parent, "created", s.ago(i.Created), "author", i.Author.GetName(),
		"let through by", i.Acknowledger.GetName(), "assets", fmt.Sprint(i.Count), "digest", i.Digest, "schema", i.Schema, "sources", sources(i.Sources), "labels", labels(i.Labels), "trace", i.Trace)
	s.printCommits(i.Sources)
	if len(i.Warnings) > 0 {
		fmt.Fprintln(s.Out, "\nwarnings:")
		s.printFindings(i.Warnings, "  ")
	}
	s.printChanges(response.Changes, response.MoreChanges)
	return nil
}

// printCommits tells whose commits the sources in git are.
func (s *session) printCommits(revisions []*apipb.SourceRevision) {
	s.printRevisions("commits:", revisions...)
}

func describeCandidate(ctx context.Context, s *session, c *client.Client, partition, name string) error {
	response, err := c.Candidates.GetCandidate(ctx, &apipb.GetCandidateRequest{Partition: partition, Digest: candidateDigest(name)})
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, response)
	}
	candidate := response.Candidate
	fields(s.Out,
		"candidate", candidate.Id, "state", candidate.State, "base", candidate.Base, "created", s.ago(candidate.Created),
		"assets", fmt.Sprint(candidate.Count), "sources", sources(candidate.Sources))
	s.printCommits(candidate.Sources)
	if len(candidate.Findings) > 0 {
		fmt.Fprintln(s.Out, "\nfindings:")
		s.printFindings(candidate.Findings, "  ")
	}
	s.printChanges(response.Changes, response.MoreChanges)
	if len(response.Changes) > 0 {
		s.printHowToRead(candidate)
	}
	switch {
	case candidate.Acknowledged:
		fmt.Fprintln(s.Out, "\nIt was let through its guards.")
	case candidate.State == "held":
		fmt.Fprintf(s.Out, "\nIf this is what you want: lehr approve --candidate %s --reason WHY\n", brief(candidate.Digest))
	}
	return nil
}

// printHowToRead leads to what a candidate consists of: whoever lets it through has
// read it.
func (s *session) printHowToRead(candidate *apipb.Candidate) {
	name := "~" + brief(candidate.Digest)
	fmt.Fprintln(s.Out, "\nread it first:")
	if candidate.Base != "" {
		fmt.Fprintf(s.Out, "  lehr diff %s %s   # field by field\n", plain(candidate.Base), name)
	}
	fmt.Fprintf(s.Out, "  lehr get assets --incarnation %s, lehr describe asset NAME --incarnation %s\n", name, name)
	if candidate.State == string(intent.CandidateHeld) {
		fmt.Fprintf(s.Out, "  lehr plan --candidate %s   # what plugins say that it would change\n", brief(candidate.Digest))
	}
}

func (s *session) printChanges(changes []*apipb.Change, more bool) {
	if len(changes) == 0 {
		return
	}
	fmt.Fprintln(s.Out, "\nchanges:")
	for _, change := range changes {
		fmt.Fprintf(s.Out, "  %-8s %s", change.What, plain(change.Asset))
		if change.Type != "" { // Of what is gone it is not known any more.
			fmt.Fprintf(s.Out, " (%s)", plain(lastName(change.Type)))
		}
		fmt.Fprintln(s.Out)
	}
	if more {
		fmt.Fprintln(s.Out, "  … and more")
	}
}

func (s *session) printFindings(findings []*apipb.Finding, indent string) {
	for _, f := range findings {
		fmt.Fprintf(s.Out, "%s%s: %s%s\n", indent, f.Severity, plain(location(f)), plain(f.Message))
		if alike := othersText(f); alike != "" {
			fmt.Fprintf(s.Out, "%s  %s\n", indent, alike)
		}
		if f.Hint != "" {
			fmt.Fprintf(s.Out, "%s  %s\n", indent, plain(f.Hint))
		}
	}
}
