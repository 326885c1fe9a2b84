package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

// turndownOptions are what lehr turndown was asked with.
type turndownOptions struct {
	reason            string
	yes, dryRun, undo bool
}

func (s *session) turndownCommand() *cobra.Command {
	var o turndownOptions
	command := &cobra.Command{
		Use:   "turndown ASSET...",
		Short: "Remove assets from production, also orphans, after approval",
		Long: `Show what removing assets would do, ask for confirmation, and write the assets into the
partition's document turndown. The next incarnation gives each of them a Turndown with
your reason. Sources are not changed. An orphan is part of intent again, as it was
enforced last, until it is removed.

This command alone removes nothing. The push that removes an asset waits for its
approval, until nothing depends on the asset any more, and for its turn. --undo takes
assets out of the document again: a generated asset is then made again, and an orphan
leaves intent.`,
		Example: `  lehr turndown web/a --reason "moved to partition web" --dry-run
  lehr turndown web/a web/b --reason "moved to partition web"
  lehr turndown web/a --undo --reason "not yet"`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if o.undo && o.dryRun {
				return fault.New(fault.Invalid, "--undo has nothing to show first").WithHint("leave --dry-run out")
			}
			if !o.dryRun {
				if err := reasoned(command, o.reason); err != nil {
					return err
				}
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				if o.undo {
					return s.undoTurndown(command.Context(), c, partition, args, o.reason)
				}
				return s.turnDown(command.Context(), c, partition, args, o)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.reason, "reason", "", "why, for the audit and for whoever approves the removal")
	flags.BoolVar(&o.yes, "yes", false, "do not ask")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what it would do, and change nothing")
	flags.BoolVar(&o.undo, "undo", false, "take the assets out of the document again")
	return command
}

func (s *session) turnDown(ctx context.Context, c *client.Client, partition string, assets []string, o turndownOptions) error {
	preview, err := c.Turndowns.PreviewTurndown(ctx, &apipb.PreviewTurndownRequest{Partition: partition, Assets: assets})
	if err != nil {
		return err
	}
	if o.dryRun && s.json() {
		return printMessage(s.Out, preview)
	}
	if !s.json() {
		s.printTurndowns(preview)
	}
	if o.dryRun {
		fmt.Fprintln(s.Out, "Nothing was changed.")
		return nil
	}
	if err := neededBy(preview); err != nil {
		return err
	}
	if !o.yes {
		if err := s.confirm(fmt.Sprintf("Have %s removed from production?", count(len(preview.Assets), "asset"))); err != nil {
			return err
		}
	}
	response, err := c.Turndowns.TurnDown(ctx, &apipb.TurnDownRequest{Partition: partition, Assets: assets, Reason: o.reason, Base: preview.Base})
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, response)
	}
	fmt.Fprintf(s.Out, "Document turndown of partition %s is at revision %s. The next incarnation has the Turndown.\n", plain(partition), plain(response.Revision))
	fmt.Fprintf(s.Out, "Then read the plan, and approve it: lehr describe report %s; lehr approve %[1]s\n", plain(preview.Assets[0].Asset))
	return nil
}

// neededBy refuses what the server would: before anybody is asked.
func neededBy(preview *apipb.PreviewTurndownResponse) error {
	for _, a := range preview.Assets {
		if len(a.NeededBy) > 0 {
			return fault.New(fault.Conflict, "%s is not turned down: %s needs it, and stays", a.Asset, strings.Join(a.NeededBy, ", ")).
				WithHint("take the reference out first, or turn both down in one command")
		}
	}
	return nil
}

func (s *session) undoTurndown(ctx context.Context, c *client.Client, partition string, assets []string, reason string) error {
	response, err := c.Turndowns.UndoTurndown(ctx, &apipb.UndoTurndownRequest{Partition: partition, Assets: assets, Reason: reason})
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, response)
	}
	fmt.Fprintf(s.Out, "Not turned down any more: %s. Document turndown of partition %s is at revision %s.\n", plain(strings.Join(assets, ", ")), plain(partition), plain(response.Revision))
	return nil
}

// printTurndowns shows what removing assets does, and what it waits for.
func (s *session) printTurndowns(preview *apipb.PreviewTurndownResponse) {
	for _, a := range preview.Assets {
		now, origin := "nothing was seen of it yet", ""
		if a.OrphanOf != "" {
			now, origin = "an orphan: what is there now is not known", "comes back into intent as it was in "+a.OrphanOf
		}
		if r := a.Report; r != nil {
			now = fmt.Sprintf("%s, seen %s", r.State, s.ago(r.At))
		}
		people := "person"
		if preview.Quorum > 1 {
			people = "people"
		}
		fmt.Fprintf(s.Out, "%s (%s)\n", plain(a.Asset), plain(lastName(a.Type)))
		var b strings.Builder
		fields(&b, "now", now, "removes", cmp.Or(a.ResourceKey, "what its plugin finds of it"), "as", origin, "mode", removalMode(a.Mode),
			"approval", fmt.Sprintf("of %d %s, of the plan that is then shown", preview.Quorum, people),
			"needed by", strings.Join(a.NeededBy, ", "), "waits for", strings.Join(a.WaitsFor, ", "),
			"left out", leftOutText(a.LeftOut))
		for line := range strings.Lines(b.String()) {
			fmt.Fprint(s.Out, "  ", line)
		}
	}
}

// removalMode says that nothing is removed now; empty: it is.
func removalMode(mode string) string {
	if mode == "enforce" {
		return ""
	}
	return mode + ": nothing is removed until it is enforced"
}

func leftOutText(assets []string) string {
	if len(assets) == 0 {
		return ""
	}
	return "its dependencies on " + strings.Join(assets, ", ") + ", not in intent any more"
}

// confirm asks a person. Anything but yes, and the end of the input, is a no.
func (s *session) confirm(question string) error {
	fmt.Fprintf(s.Err, "%s Type yes: ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n') // An end without an answer is a no.
	if strings.TrimSpace(answer) != "yes" {
		return fault.New(fault.Invalid, "nobody said yes; nothing was changed").WithHint("type yes, or say --yes in the command")
	}
	return nil
}
