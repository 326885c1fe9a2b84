package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

func (s *session) whereCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "where COMMIT",
		Short: "Show which versions were made of a commit, and where they are",
		Long: `Show the versions that were made of a commit, in which environments they are and since
when, and what is in their way to the others. A beginning of the commit is enough, of 4
digits or more. It looks at the applications of all partitions, or of --partition.

A version is found by the commit that its source tells of it: the revision that an image
names, what a tag names. A later version may have the commit as well, which is not known.`,
		Example: "  lehr where 3f2a91c",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			c, err := s.connectOrRead(command.Context())
			if err != nil {
				return err
			}
			return s.where(command.Context(), c, args[0])
		},
	}
}

// where shows the versions that were made of a commit.
func (s *session) where(ctx context.Context, c *client.Client, commit string) error {
	partitions, err := s.choosePartitions(ctx, c)
	if err != nil {
		return err
	}
	var messages []proto.Message
	var searched, without int32
	for _, partition := range partitions {
		response, err := c.Deliveries.LocateCommit(ctx, &apipb.LocateCommitRequest{Partition: partition, Commit: commit})
		if err != nil {
			return err
		}
		searched, without = searched+response.Searched, without+response.WithoutCommit
		for _, located := range response.Versions {
			if !s.json() {
				s.printLocated(partition, located, len(messages) > 0)
			}
			messages = append(messages, located)
		}
	}
	switch {
	case len(messages) == 0:
		return notLocated(commit, partitions, searched, without)
	case s.json():
		return printMessages(s.Out, messages)
	}
	return nil
}

// printLocated says of a version where it is, and what is in its way.
func (s *session) printLocated(partition string, located *apipb.LocatedVersion, further bool) {
	if further {
		fmt.Fprintln(s.Out)
	}
	v := located.Version
	fmt.Fprintf(s.Out, "%s of %s, partition %s, was made of %s.\n", plain(v.Version.GetName()), plain(v.Application), plain(partition), plain(v.Commit))
	for _, x := range located.Explanations {
		fmt.Fprintf(s.Out, "  %s.\n", plain(strings.TrimSuffix(x.Text, ".")))
	}
}

// notLocated says what was looked at where nothing was found.
func notLocated(commit string, partitions []string, searched, without int32) error {
	among := count(len(partitions), "partition")
	if len(partitions) == 1 {
		among = "partition " + partitions[0]
	}
	err := fault.New(fault.NotFound, "no version was made of the commit %s, among %d of %s", commit, searched, among)
	switch {
	case searched == 0:
		return err.WithHint("delivery: in a lehr.yaml names applications and the source of their versions")
	case without == searched:
		return err.WithHint("their sources tell no commits; an image tells it by the annotation org.opencontainers.image.revision")
	case without > 0:
		return err.WithHint("of %d of them no commit is known; a version of a later commit may have it, too", without)
	}
	return err.WithHint("a version of a later commit may have it, too; lehr get versions lists them")
}
