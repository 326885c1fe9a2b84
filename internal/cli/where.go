package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

func (s *session) whereCommand() *cobra.Command {
	var application string
	command := &cobra.Command{
		Use: "where COMMIT", Short: "Show which versions and environments have a commit", Args: cobra.ExactArgs(1),
		Long: `Show which versions have a commit, which environments have it and since when, what keeps it
out of the others, and the earliest time at which it can be there. The command looks at the
applications of all partitions, or of --partition.

Where versions come from a git repository, Lehr knows the newest 2000 commits before each.
Other sources name one commit for each version; lehr where says what it does not know.`,
		Example: `  lehr where 3f2c1aa
  lehr where 3f2c1aa --application web -o json`,
		RunE: func(command *cobra.Command, args []string) error {
			c, err := s.connectOrRead(command.Context())
			if err != nil {
				return err
			}
			return s.where(command.Context(), c, application, args[0])
		},
	}
	command.Flags().StringVar(&application, "application", "", "the application (default: all)")
	return command
}

// where shows the places of a commit in the partition that is named, or in all.
func (s *session) where(ctx context.Context, c *client.Client, application, commit string) error {
	partitions, err := s.choosePartitions(ctx, c)
	if err != nil {
		return err
	}
	var messages []proto.Message
	var missing error
	for _, partition := range partitions {
		response, err := c.Deliveries.LocateCommit(ctx, &apipb.LocateCommitRequest{Partition: partition, Application: application, Commit: commit})
		if fault.Is(err, fault.NotFound) {
			missing = cmp.Or(missing, err)
			continue
		}
		if err != nil {
			return err
		}
		for _, location := range response.Locations {
			if !s.json() {
				if len(messages) > 0 {
					fmt.Fprintln(s.Out)
				}
				s.printLocation(partition, location)
			}
			messages = append(messages, location)
		}
	}
	switch {
	case len(messages) == 0 && len(partitions) == 1:
		return missing
	case len(messages) == 0:
		return fault.New(fault.NotFound, "no version has the commit %s, in %d partitions", commit, len(partitions)).
			WithHint("name one to hear what is known there: lehr where %s --partition %s", commit, partitions[0])
	case s.json():
		return printMessages(s.Out, messages)
	}
	return nil
}

func (s *session) printLocation(partition string, l *apipb.CommitLocation) {
	fmt.Fprintf(s.Out, "%s\n", plain(s.commitText(l.Commit)))
	var names []string
	for _, v := range l.Versions {
		names = append(names, v.Name)
	}
	const most = 10
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	fmt.Fprintf(s.Out, "%s of partition %s has it in %s\n", plain(l.Application), plain(partition), plain(text))
	if l.Unknown > 0 {
		fmt.Fprintf(s.Out, "%s may have it too: their source gives no history that reaches from them to it.\n", count(int(l.Unknown), "other version"))
	}
	var rows [][]string
	for _, e := range l.Environments {
		note := ""
		if e.Next != nil {
			note = strings.TrimSuffix(e.Next.Text, ".")
		}
		rows = append(rows, []string{e.Environment, e.Has, versionText(e.Version), s.ageOrDash(e.Since), note})
	}
	table(s.Out, []string{"ENVIRONMENT", "HAS IT", "VERSION", "SINCE", "IN ITS WAY"}, rows)
}

func (s *session) ageOrDash(at *timestamppb.Timestamp) string {
	if at == nil {
		return "-"
	}
	return s.age(at)
}

// commitText is a commit in one line.
func (s *session) commitText(c *apipb.DeliveredCommit) string {
	const shown = 12
	text := c.Id[:min(shown, len(c.Id))]
	if c.Message != "" {
		text += "  " + c.Message
	}
	if c.Author != "" {
		text += ", by " + c.Author
	}
	if c.At != nil {
		text += ", " + s.ago(c.At)
	}
	if c.PullRequest != "" && !strings.Contains(c.Message, c.PullRequest) {
		text += ", request " + c.PullRequest
	}
	return text
}

func (s *session) deliveryChangesCommand() *cobra.Command {
	var application string
	command := &cobra.Command{
		Use: "changes FROM TO", Short: "List the changes between two environments or versions", Args: cobra.ExactArgs(2),
		Long: `List the changes from one version to another. Name each version, or an environment that has
it. Where versions come from a git repository, the list has commits with their authors and
pull requests. It also has the versions between the two, with what their source says about
them.`,
		Example: `  lehr delivery changes production staging   # what the next promotion brings
  lehr delivery changes 1.7.0 1.8.2 -o json`,
		RunE: func(command *cobra.Command, args []string) error {
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				response, err := c.Deliveries.CompareVersions(command.Context(), &apipb.CompareVersionsRequest{Partition: partition, Application: application, From: args[0], To: args[1]})
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				s.printVersionChanges(response)
				return nil
			})
		},
	}
	command.Flags().StringVar(&application, "application", "", "the application, where the partition delivers several")
	return command
}

func (s *session) printVersionChanges(r *apipb.CompareVersionsResponse) {
	fmt.Fprintf(s.Out, "%s from %s to %s\n", plain(r.Application), plain(versionText(r.From)), plain(versionText(r.To)))
	list := func(label string, commits []*apipb.DeliveredCommit) {
		if len(commits) == 0 {
			return
		}
		fmt.Fprintf(s.Out, "\n%s:\n", label)
		for _, c := range commits {
			fmt.Fprintf(s.Out, "  %s\n", plain(s.commitText(c)))
		}
	}
	list(fmt.Sprintf("%d commits come", len(r.Commits)), r.Commits)
	list(fmt.Sprintf("%d commits go away", len(r.Removed)), r.Removed)
	if !r.Whole {
		fmt.Fprintln(s.Out, "\nThere may be more commits: the history between both is not known to its end.")
	}
	if len(r.Versions) == 0 {
		return
	}
	if fmt.Fprintln(s.Out); r.Back {
		fmt.Fprintln(s.Out, "These versions go away:")
	}
	var rows [][]string
	for _, v := range r.Versions {
		const shown = 12
		rows = append(rows, []string{v.Version.GetName(), s.age(v.Seen), v.Commit[:min(shown, len(v.Commit))], v.Author, v.PullRequest, v.Message})
	}
	table(s.Out, []string{"VERSION", "SEEN", "COMMIT", "AUTHOR", "REQUEST", "MESSAGE"}, rows)
}
