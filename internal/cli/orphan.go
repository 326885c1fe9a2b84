package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/sdk/client"
)

func listOrphans(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"ASSET", "TYPE", "RESOURCE", "LAST IN", "SEEN"}}
	request := &apipb.ListOrphansRequest{Partition: q.partition}
	more, err := pages(q.limit, func(most int32) (int, bool, error) {
		request.Limit = most
		response, err := c.Orphans.ListOrphans(ctx, request)
		if err != nil {
			return 0, false, err
		}
		for _, o := range response.Orphans {
			kind := lastName(o.Type)
			if s.wide() {
				kind = o.Type
			}
			result.add(o, o.Asset, kind, o.ResourceKey, o.Incarnation, s.ago(o.Seen))
		}
		request.After = response.Next
		return len(response.Orphans), response.Next != "", nil
	})
	result.more = more
	return result, err
}

func (s *session) disownCommand() *cobra.Command {
	return s.orderCommand(&cobra.Command{
		Use:   "disown ASSET",
		Short: "Forget an orphan and its claim; production stays as it is",
		Long: `Forget an orphan: something that Lehr once enforced and that intent does not name any
more.

Production stays as it is. Lehr no longer lists the orphan, and any partition may
claim its resource. Disown what is gone, or what somebody else looks after now. To
remove the resource from production, use lehr turndown.`,
		Example: `  lehr get orphans
  lehr disown web/a --reason "moved to partition web"`,
		Args: cobra.ExactArgs(1),
	}, "why, for whoever finds the real thing", func(ctx context.Context, o order) (proto.Message, func(), error) {
		response, err := o.client.Orphans.DisownOrphan(ctx, &apipb.DisownOrphanRequest{Partition: o.partition, Asset: o.asset, Reason: o.reason})
		return response, func() {
			fmt.Fprintf(s.Out, "Disowned %s. Production is left as it is; its resource may be claimed by another asset.\n", plain(o.asset))
		}, err
	})
}
