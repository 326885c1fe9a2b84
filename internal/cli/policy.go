package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

func (s *session) policyCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "policy",
		Short: "Show the server's common policy, and what another one would change",
		Args:  cobra.NoArgs,
	}
	var most int
	plan := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what a common policy would hold and refuse; changes nothing",
		Long: `Compare a lehr-policy.yaml with the common policy in force, for every registered
partition: which rules are new, gone or changed; which served assets they would refuse;
which checks are closed to every push now; and which assets that are not in sync would
wait, for a check or for each other, under a budget or a rate. The exit code is 2 when
anything would change, and 1 when the file cannot be used.`,
		Example: "  lehr policy plan lehr-policy.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return s.planPolicy(command.Context(), args[0], most)
		},
	}
	plan.Flags().IntVar(&most, "first", 10, "how many partitions to list by name")
	command.AddCommand(
		&cobra.Command{
			Use:   "show",
			Short: "Show the common policy in force, with owners and lines, of one partition with -p",
			Args:  cobra.NoArgs,
			RunE:  func(command *cobra.Command, _ []string) error { return s.showPolicy(command.Context()) },
		},
		plan,
	)
	return command
}

func (s *session) showPolicy(ctx context.Context) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	response, err := c.Partitions.GetCommonPolicy(ctx, &apipb.GetCommonPolicyRequest{Partition: s.partition})
	if err != nil {
		return err
	}
	policy, err := commonpolicy.Decode(response.Policy)
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, policy)
	}
	for _, f := range response.Problems {
		fmt.Fprintf(s.Out, "CANNOT BE USED since %s, so the last that could be counts: %s:%d: %s\n", instantText(response.ProblemsSince), plain(f.File), f.Line, plain(f.Message))
	}
	if len(policy.Rules) == 0 {
		fmt.Fprintln(s.Out, "No common rule asks anything here.")
		return nil
	}
	fmt.Fprintf(s.Out, "From %s, in force since %s.\n", plain(response.Place), instantText(response.Since))
	for _, rule := range policy.Rules {
		s.printRule(policy, rule)
	}
	return nil
}

func (s *session) printRule(policy *intentpb.CommonPolicy, rule *intentpb.CommonRule) {
	mode := "required"
	if !commonpolicy.Required(rule) {
		mode = "observed only"
	}
	fmt.Fprintf(s.Out, "\n%s (%s) of %s, %s:%d%s\n", rule.Name, mode, plain(rule.Owner), plain(policy.File), rule.Line, forWhom(rule.Select))
	if rule.Reason != "" {
		fmt.Fprintf(s.Out, "  %s\n", plain(rule.Reason))
	}
	line := func(part, text string) {
		fmt.Fprintf(s.Out, "  %s: %s (line %d)\n", part, plain(text), commonpolicy.LineOf(rule, part))
	}
	for _, c := range rule.GetPolicy().GetChecks() {
		text := c.Name
		if slices.Contains(rule.Overridable, c.Name) {
			text += ", which people may override"
		}
		line("checks."+strings.TrimPrefix(c.Name, commonpolicy.CheckName(rule.Name, "")), text)
	}
	for _, b := range rule.GetPolicy().GetBudgets() {
		line("checks.budget", fmt.Sprintf("%d in flight for each %s", b.InFlight, b.Scope))
	}
	if a := rule.GetPolicy().GetApproval(); a != nil {
		line("checks.approval", fmt.Sprintf("%d must approve", max(a.Quorum, 1)))
	}
	if n := rule.GetPolicy().GetTurndowns(); n > 0 {
		line("checks.turndown", fmt.Sprintf("%d in flight", n))
	}
	for _, r := range rule.GetPolicy().GetRules() {
		line("rules."+strings.TrimPrefix(r.Id, commonpolicy.CheckName(rule.Name, "")), r.Must)
	}
	for _, program := range rule.GetPolicy().GetCheckingPrograms() {
		line(commonpolicy.PartOfProgram(rule, program.Name), program.Program+" reads all "+strings.Join(program.From, " and "))
	}
	if g := rule.GetPolicy().GetShrink(); g != nil {
		line("validate.shrink", fmt.Sprintf("at most %d %% may go, and %d %% change", g.MaxRemovedPercent, g.MaxChangedPercent))
	}
	for _, list := range []struct {
		name   string
		values []string
	}{{"plugins", rule.GetAllow().GetPlugins()}, {"programs", rule.GetAllow().GetPrograms()}, {"addresses", rule.GetAllow().GetAddresses()}, {"secrets", rule.GetAllow().GetSecrets()}} {
		if len(list.values) > 0 {
			line("allow", list.name+" "+strings.Join(list.values, ", "))
		}
	}
	if rule.Defaults != "" {
		line("defaults", rule.Defaults)
	}
}

// forWhom says which partitions a rule selects; empty: it is told of one partition.
func forWhom(selector *intentpb.Selector) string {
	if selector == nil {
		return ""
	}
	var parts []string
	if len(selector.Names) > 0 {
		parts = append(parts, "named "+strings.Join(selector.Names, " or "))
	}
	if len(selector.Owners) > 0 {
		parts = append(parts, "owned by "+strings.Join(selector.Owners, " or "))
	}
	for key, value := range selector.Labels {
		parts = append(parts, key+"="+value)
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return ", for all partitions"
	}
	return ", for partitions " + plain(strings.Join(parts, ", "))
}

func (s *session) planPolicy(ctx context.Context, file string, most int) error {
	text, err := files.Read(file, files.MostGiven)
	if err != nil {
		return fault.New(fault.NotFound, "reading a common policy: %w", err).WithHint("docs/operate/policy.md shows one")
	}
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	response, err := c.Partitions.PlanCommonPolicy(ctx, &apipb.PlanCommonPolicyRequest{Text: string(text), File: file})
	if err != nil {
		return err
	}
	switch {
	case s.json():
		err = printMessage(s.Out, response)
	case len(response.Findings) > 0:
		s.printFindings(response.Findings, "")
	default:
		s.printPolicyPlan(response, most)
	}
	switch {
	case err != nil:
		return err
	case len(response.Findings) > 0:
		return exit{exitError}
	case len(response.Partitions) > 0:
		return exit{exitDiffers}
	}
	return nil
}

func (s *session) printPolicyPlan(response *apipb.PlanCommonPolicyResponse, most int) {
	var refused, waiting int64
	for _, p := range response.Partitions {
		refused, waiting = refused+p.RefusedCount, waiting+p.WaitingCount
	}
	fmt.Fprintf(s.Out, "Changes what is asked of %d of %d partitions: %d are closed to every push now, %s would wait, %s of what is served would be refused.\n",
		len(response.Partitions), response.Registered, response.Held, count(int(waiting), "asset"), count(int(refused), "finding"))
	if response.Held > 0 && response.Held == response.Registered {
		fmt.Fprintln(s.Out, "IT WOULD HOLD EVERYBODY: no partition could push anything now.")
	}
	for i, p := range response.Partitions {
		if i == most {
			fmt.Fprintf(s.Out, "and %d more partitions\n", len(response.Partitions)-most)
			break
		}
		fmt.Fprintf(s.Out, "\n%s\n", plain(p.Partition))
		for _, list := range []struct {
			verb  string
			names []string
		}{{"new", p.Added}, {"changed", p.Changed}, {"gone", p.Removed}} {
			if len(list.names) > 0 {
				fmt.Fprintf(s.Out, "  %s: %s\n", list.verb, plain(strings.Join(list.names, ", ")))
			}
		}
		for _, text := range p.Closed {
			fmt.Fprintf(s.Out, "  closed now: %s\n", plain(text))
		}
		if p.WaitingCount > 0 {
			fmt.Fprintf(s.Out, "  would wait: %d of %s not in sync, such as %s\n", p.WaitingCount, count(int(p.Differing), "asset"), plain(strings.Join(p.Waiting, ", ")))
		}
		for _, text := range p.Queued {
			fmt.Fprintf(s.Out, "  would wait for each other: %s\n", plain(text))
		}
		for _, text := range p.Untried {
			fmt.Fprintf(s.Out, "  not tried: %s\n", plain(text))
		}
		if p.RefusedCount > 0 {
			fmt.Fprintf(s.Out, "  would be refused: %s, such as %s\n", count(int(p.RefusedCount), "finding"), plain(p.Refused[0].Message))
		}
	}
}

// commonPolicyFlag lets a common policy be named that is asked of what is built here; else that
// of the server is, where there is one.
func (s *session) commonPolicyFlag(command *cobra.Command, options *BuildOptions) {
	var place string
	command.Flags().StringVar(&place, "common-policy", os.Getenv("LEHR_COMMON_POLICY"), "common policy to apply, a lehr-policy.yaml (env LEHR_COMMON_POLICY; default: that of the server, where one answers)")
	run := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		if place != "" {
			options.Common = func(ctx context.Context) (*intentpb.CommonPolicy, error) {
				return s.readCommonPolicy(ctx, place, options.Sources)
			}
		} else if definition, err := definitionOf(command, args); err == nil {
			if policy := s.servedCommonPolicy(command.Context(), definition, options.Sources); policy != nil {
				options.Common = func(context.Context) (*intentpb.CommonPolicy, error) { return policy, nil }
			}
		}
		return run(command, args)
	}
}

func (s *session) readCommonPolicy(ctx context.Context, place, sources string) (*intentpb.CommonPolicy, error) {
	absolute, err := definitionPath(place)
	if err != nil {
		return nil, err
	}
	policy, findings, err := s.local.ReadCommonPolicy(ctx, absolute, sources)
	if err != nil || len(findings) == 0 {
		return policy, err
	}
	f := findings[0]
	return nil, fault.New(fault.Invalid, "%s:%d: %s", place, f.Line, f.Message).WithHint("%s", f.Hint)
}

// servedCommonPolicy is what the server that answers here asks of a definition's partition; nil:
// none answers, or it is not told.
func (s *session) servedCommonPolicy(ctx context.Context, definition, sources string) *intentpb.CommonPolicy {
	c, err := s.connect(ctx)
	if err != nil {
		return nil
	}
	partition, err := s.partitionOf(ctx, definition, sources)
	if err != nil {
		return nil
	}
	return askCommonPolicy(ctx, c, intent.PartitionID(partition), s)
}

func askCommonPolicy(ctx context.Context, c *client.Client, partition intent.PartitionID, s *session) *intentpb.CommonPolicy {
	response, err := c.Partitions.GetCommonPolicy(ctx, &apipb.GetCommonPolicyRequest{Partition: string(partition)})
	if err != nil {
		return nil
	}
	for _, f := range response.Problems {
		fmt.Fprintf(s.Err, "The server's common policy cannot be used since %s, and the last that could be counts: %s:%d: %s\n", instantText(response.ProblemsSince), plain(f.File), f.Line, plain(f.Message))
	}
	policy := &intentpb.CommonPolicy{}
	if proto.Unmarshal(response.Policy, policy) != nil || len(policy.Rules) == 0 {
		return nil
	}
	return policy
}

// instantText writes a moment for people.
func instantText(at *timestamppb.Timestamp) string { return at.AsTime().UTC().Format(time.RFC3339) }
