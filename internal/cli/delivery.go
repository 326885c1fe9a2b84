package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

func (s *session) deliveryCommand() *cobra.Command {
	command := family("delivery", "Say which versions environments may have, or must")
	command.Long = `Delivery moves versions of an application through its environments, as lehr.yaml says.
These commands say something of it, each with a reason, and show first with --dry-run what
that would change. lehr get environments and lehr get versions show how it stands, and
lehr why ENVIRONMENT or lehr why VERSION what a version waits for.`
	for _, act := range deliveryActs {
		command.AddCommand(s.deliveryActCommand(act))
	}
	command.AddCommand(s.deliveryVoteCommand(true), s.deliveryVoteCommand(false), s.deliveryVerdictCommand(), s.deliveryHistoryCommand(), s.deliveryFiguresCommand(), s.deliveryChangesCommand())
	return command
}

// deliveryAct is what a person may ask of delivery.
type deliveryAct struct {
	kind, use   string
	short, long string
	// environment and version are the places of these among the arguments; -1: it has none.
	// Those that are everywhere take the environment as --in.
	environment, version int
	everywhere           bool
	// past is the flag that names a constraint; empty: none does.
	past string
}

var deliveryActs = []deliveryAct{
	{
		kind: intent.ActPin, use: "pin ENVIRONMENT VERSION", environment: 0, version: 1, short: "Keep an environment at a version",
		long: `Keeps an environment at a version until lehr delivery unpin. A version that was good there
before comes back; another must be let in by its constraints still, or forced past them.`,
	},
	{kind: intent.ActUnpin, use: "unpin ENVIRONMENT", environment: 0, version: -1, short: "End the pin of an environment"},
	{
		kind: intent.ActMarkBad, use: "mark-bad VERSION", environment: -1, version: 0, everywhere: true, short: "Keep a version out of all environments, or of one, and take it away",
		long: `Keeps a version out of all environments, or with --in of one. Where it is, the environment
goes back to what was good there last, unless lehr.yaml says on_bad: stay.`,
	},
	{
		kind: intent.ActMarkGood, use: "mark-good VERSION", environment: -1, version: 0, everywhere: true, short: "Take back what was found bad of a version",
		long: "Takes back marks, verdicts of rollouts and verifications, and failed attempts of a version.",
	},
	{
		kind: intent.ActSkipTo, use: "skip-to ENVIRONMENT VERSION", environment: 0, version: 1, short: "Pass by what is older than a version",
		long: "Makes a version the oldest that may come to an environment. It must be let in still.",
	},
	{
		kind: intent.ActRollBack, use: "roll-back ENVIRONMENT VERSION", environment: 0, version: 1, short: "Give an environment a version that was good there",
		long: `Gives an environment a version that was good there. All that is newer and known now stays
out of it until lehr delivery mark-good.`,
	},
	{
		kind: intent.ActPause, use: "pause [ENVIRONMENT]", environment: 0, version: -1, short: "Set no more versions, in an environment or in all",
		long: "Sets no more versions until lehr delivery resume: in an environment, or in all of the application.",
	},
	{
		kind: intent.ActResume, use: "resume [ENVIRONMENT]", environment: 0, version: -1, short: "Go on with what is paused, or was set by somebody else",
		long: `Goes on with an environment that is paused, or whose field somebody else set. Without an
environment it ends the pause of the whole application, and none of an environment.`,
	},
	{
		kind: intent.ActForce, use: "force ENVIRONMENT VERSION --past CONSTRAINT", environment: 0, version: 1, past: "past", short: "Pass over one constraint for a version",
	},
	{
		kind: intent.ActRestart, use: "restart ENVIRONMENT VERSION --of CONSTRAINT", environment: 0, version: 1, past: "of", short: "Have a constraint or a verification judged anew",
		long: `Has a constraint or a verification judged anew for a version: what was said of it before
counts no longer. A task runs for the version once more with --of run.`,
	},
	{
		kind: intent.ActHotfix, use: "hotfix VERSION", environment: -1, version: 0, everywhere: true, short: "Pass over constraints that do not hold hotfixes",
		long: "Calls a version a hotfix: constraints for which lehr.yaml says hotfixes: false do not hold it.",
	},
}

// deliveryFlags are those of all commands of delivery that change something.
type deliveryFlags struct {
	application, reason, digest string
	dryRun                      bool
}

func (f *deliveryFlags) add(command *cobra.Command, version bool) {
	flags := command.Flags()
	flags.StringVar(&f.application, "application", "", "the application, where the partition delivers several")
	flags.StringVar(&f.reason, "reason", "", "why, for whoever finds it")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what it would change, and change nothing")
	if version {
		flags.StringVar(&f.digest, "digest", "", "digest of the version or its first digits, where a tag was moved (default: what the source lists now)")
	}
}

func (s *session) deliveryActCommand(act deliveryAct) *cobra.Command {
	var flags deliveryFlags
	var in, past string
	most := 0
	for _, place := range []int{act.environment, act.version} {
		most = max(most, place+1)
	}
	arguments := cobra.ExactArgs(most)
	if strings.Contains(act.use, "[ENVIRONMENT]") {
		arguments = cobra.MaximumNArgs(1)
	}
	command := &cobra.Command{
		Use: act.use, Short: act.short, Long: act.long, Args: arguments, DisableFlagsInUseLine: act.past != "",
		RunE: func(command *cobra.Command, args []string) error {
			if err := reasoned(command, flags.reason); err != nil {
				return err
			}
			request := &apipb.ActOnDeliveryRequest{
				Application: flags.application, Kind: act.kind, Environment: in, Constraint: past, Reason: flags.reason, Digest: flags.digest, DryRun: flags.dryRun,
			}
			if act.environment >= 0 && act.environment < len(args) {
				request.Environment = args[act.environment]
			}
			if act.version >= 0 {
				request.Version = args[act.version]
			}
			if act.past != "" && past == "" {
				return fault.New(fault.Invalid, "%s needs a constraint", command.CommandPath()).WithHint("add --%s NAME; lehr why %s names them", act.past, request.Environment)
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				request.Partition = partition
				response, err := c.Deliveries.ActOnDelivery(command.Context(), request)
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				s.printEffects(response.Effects, request.DryRun)
				return nil
			})
		},
	}
	flags.add(command, act.version >= 0)
	if act.everywhere {
		command.Flags().StringVar(&in, "in", "", "only in this environment")
	}
	if act.past != "" {
		command.Flags().StringVar(&past, act.past, "", "the constraint, as lehr.yaml names it")
	}
	return command
}

// printEffects says what changes, or would.
func (s *session) printEffects(effects []*apipb.DeliveryEffect, dryRun bool) {
	if dryRun {
		fmt.Fprintln(s.Out, "Nothing is changed. It would come to this:")
	} else {
		fmt.Fprintln(s.Out, "Kept. It comes to this, within a second:")
	}
	if len(effects) == 0 {
		fmt.Fprintln(s.Out, "  no environment gets another version by it now")
	}
	for _, effect := range effects {
		fmt.Fprintf(s.Out, "  %s: %s, before: %s\n", plain(effect.Environment), plain(comesTo(effect.After)), plain(comesTo(effect.Before)))
	}
}

// comesTo says what becomes of an environment.
func comesTo(e *apipb.DeliveredEnvironment) string {
	text := "keeps " + versionText(e.Has)
	switch {
	case e.Wants != nil && e.Task != nil:
		text = "runs for " + versionText(e.Wants)
	case e.Wants != nil:
		text = "gets " + versionText(e.Wants)
	case e.GetTask().GetBegins():
		text = "runs for " + versionText(e.Has) + " again"
	}
	if e.Why != "" {
		text += " (" + e.Why + ")"
	}
	if e.Hold != "" {
		text += ", held: " + e.Hold
	}
	return text
}

func versionText(v *apipb.VersionName) string {
	if v == nil {
		return "no version"
	}
	return v.Name
}

func (s *session) deliveryVoteCommand(approve bool) *cobra.Command {
	var flags deliveryFlags
	var constraint string
	verb, short, example := "approve", "Approve a version for an environment", `  lehr delivery approve production 1.8.2 --reason "tried it on staging"`
	if !approve {
		verb, short, example = "reject", "Reject a version for an environment", `  lehr delivery reject production 1.8.2 --reason "it loses writes"`
	}
	command := &cobra.Command{
		Use: verb + " ENVIRONMENT VERSION", Short: short, Example: example, Args: cobra.ExactArgs(2),
		Long: `Accept or reject a version, by its name and digest, for a manual judgement of an
environment. Each person's last answer counts. One rejection keeps the version out.`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := reasoned(command, flags.reason); err != nil {
				return err
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				response, err := c.Deliveries.VoteOnVersion(command.Context(), &apipb.VoteOnVersionRequest{
					Partition: partition, Application: flags.application, Environment: args[0], Version: args[1], Digest: flags.digest, Constraint: constraint,
					Approve: approve, Reason: flags.reason, DryRun: flags.dryRun,
				})
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				s.printEffects(response.Effects, flags.dryRun)
				fmt.Fprintf(s.Out, "  %s\n", plain(response.Verdict.GetText()))
				return nil
			})
		},
	}
	flags.add(command, true)
	command.Flags().StringVar(&constraint, "constraint", "", "the judgement, where the environment has several")
	return command
}

func (s *session) deliveryVerdictCommand() *cobra.Command {
	var flags deliveryFlags
	var version string
	command := &cobra.Command{
		Use: "verdict ENVIRONMENT NAME good|bad", Short: "Hand in the result of a verification or an outside constraint", Args: cobra.ExactArgs(3),
		Long: `Hand in the result of a verification of an environment, by its name under verify: in
lehr.yaml, or of a constraint with verdict: outside. A verification is about the
version that the environment has now.`,
		Example: `  lehr delivery verdict staging smoke good --reason "112 of 112 passed"
  lehr delivery verdict production canary bad --version 1.8.2 --reason "errors doubled"`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := reasoned(command, flags.reason); err != nil {
				return err
			}
			if args[2] != "good" && args[2] != "bad" {
				return fault.New(fault.Invalid, "%q is no verdict", args[2]).WithHint("write good or bad")
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				response, err := c.Deliveries.RecordVerdict(command.Context(), &apipb.RecordVerdictRequest{
					Partition: partition, Application: flags.application, Environment: args[0], Name: args[1], Version: version, Digest: flags.digest,
					Good: args[2] == "good", Reason: flags.reason,
				})
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				fmt.Fprintf(s.Out, "Kept: %s finds %s %s in %s.\n", plain(args[1]), plain(response.Version.GetName()), args[2], plain(args[0]))
				return nil
			})
		},
	}
	flags.add(command, true)
	command.Flags().Lookup("dry-run").Hidden = true
	command.Flags().StringVar(&version, "version", "", "the version; for a verification: refuse unless the environment has it")
	return command
}

func listEnvironments(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"APPLICATION", "ENVIRONMENT", "VERSION", "SINCE", "GOOD", "NEXT", "NOTE"}}
	response, err := c.Deliveries.ListEnvironments(ctx, &apipb.ListEnvironmentsRequest{Partition: q.partition})
	if err != nil {
		return result, err
	}
	for _, e := range response.Environments[:min(len(response.Environments), q.limit)] {
		good, next := fmt.Sprintf("%d of %d", e.GoodAssets, e.Assets), "-"
		if e.GoodSince != nil {
			good = "for " + s.age(e.GoodSince)
		}
		if e.Wants != nil {
			next = e.Wants.Name + " (" + e.Why + ")"
		}
		note := e.Text
		switch {
		case e.Landing != nil && (note == "" || e.Landing.Trouble != ""):
			note = e.Landing.Text
		case note != "":
		case e.Pinned != nil:
			note = "pinned to " + e.Pinned.Name
		case e.Verification != nil:
			note = e.Verification.Text
		case len(e.Verify) > 0:
			note = "awaits the verdict of " + strings.Join(e.Verify, ", ")
		case e.Task != nil:
			note = e.Task.Text
		}
		result.add(e, e.Application, e.Name, versionText(e.Has), s.age(e.Since), good, next, note)
	}
	for _, selected := range response.Selected {
		result.notes = append(result.notes, selectedText(selected))
	}
	result.more = len(response.Environments) > q.limit
	return result, nil
}

// selectedText says which environments an entry of the file stands for now.
func selectedText(s *apipb.SelectedEnvironments) string {
	text := fmt.Sprintf("%s of %s is an environment for each %s", s.Name, s.Application, s.By)
	if s.Where != "" {
		text += " where " + s.Where
	}
	if len(s.Values) == 0 {
		return text + ". No asset of " + s.Incarnation + " has one"
	}
	return text + ", in " + s.Incarnation + ": " + strings.Join(s.Values, ", ")
}

func listVersions(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	environments, err := c.Deliveries.ListEnvironments(ctx, &apipb.ListEnvironmentsRequest{Partition: q.partition})
	if err != nil {
		return listing{}, err
	}
	var applications []string
	for _, e := range environments.Environments {
		if n := len(applications); n == 0 || applications[n-1] != e.Application {
			applications = append(applications, e.Application)
		}
	}
	result := listing{header: []string{"APPLICATION", "VERSION", "SEEN"}}
	columns := map[string]int{}
	for _, application := range applications {
		request := &apipb.ListVersionsRequest{Partition: q.partition, Application: application}
		more, err := pages(q.limit, func(most int32) (int, bool, error) {
			request.Limit = most
			response, err := c.Deliveries.ListVersions(ctx, request)
			if err != nil {
				return 0, false, err
			}
			for _, name := range response.Environments {
				if _, ok := columns[name]; !ok {
					columns[name] = len(result.header)
					result.header = append(result.header, strings.ToUpper(name))
				}
			}
			for _, v := range response.Versions {
				result.add(v, s.versionRow(v, columns)...)
			}
			request.Offset = response.Next
			return len(response.Versions), response.Next != 0, nil
		})
		if err != nil {
			return result, err
		}
		result.more = result.more || more
	}
	for i := range result.rows {
		for len(result.rows[i]) < len(result.header) {
			result.rows[i] = append(result.rows[i], "")
		}
	}
	return result, nil
}

// versionRow says where a version stands in each environment, and for how long.
func (s *session) versionRow(v *apipb.DeliveredVersion, columns map[string]int) []string {
	seen := s.age(v.Seen)
	if v.Gone != nil {
		seen += ", gone"
	}
	row := make([]string, 3, 3+len(columns))
	row[0], row[1], row[2] = v.Application, v.Version.GetName(), seen
	for _, standing := range v.Standings {
		for len(row) <= columns[standing.Environment] {
			row = append(row, "")
		}
		cell := standing.State
		if standing.Since != nil {
			cell += " " + s.age(standing.Since)
		}
		row[columns[standing.Environment]] = cell
	}
	return row
}

// whyVersion says what a version waits for in an environment; the name is of either.
func (s *session) whyVersion(ctx context.Context, c *client.Client, partition, name, subject string) error {
	request := &apipb.ExplainVersionRequest{Partition: partition, Environment: name}
	if subject == "version" {
		request.Environment, request.Version = "", name
	}
	response, err := c.Deliveries.ExplainVersion(ctx, request)
	if fault.Is(err, fault.NotFound) && subject == "" {
		response, err = c.Deliveries.ExplainVersion(ctx, &apipb.ExplainVersionRequest{Partition: partition, Version: name})
	}
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, response)
	}
	for i, x := range response.Explanations {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		fmt.Fprintf(s.Out, "%s.\n", plain(strings.TrimSuffix(x.Text, ".")))
		if x.State == "current" {
			continue // They are of a version that is to come.
		}
		for _, v := range x.Verdicts {
			fmt.Fprintf(s.Out, "  %-8s %s%s\n", v.Status, plain(v.Text), s.untilVerdict(v.Until))
		}
	}
	return nil
}

func (s *session) untilVerdict(end *timestamppb.Timestamp) string {
	if end == nil {
		return ""
	}
	return ", " + s.remaining(end) + " at the latest"
}
