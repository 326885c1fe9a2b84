package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"lehr.dev/access"
	"lehr.dev/fault"
)

func (s *session) pageCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "page",
		Short: "Print a link that lets one browser in to the status page",
		Long: `Print a link to the status page of the server that runs on the store. It lets
one browser in, once; the browser stays in until the server ends.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			found := access.Rendezvous{Token: s.Getenv("LEHR_TOKEN")}
			if len(s.servers) > 0 {
				found.URL = s.servers[0]
			} else {
				var err error
				if found, err = access.ReadRendezvous(s.store); err != nil {
					return err
				}
			}
			if _, _, err := access.ParseBearer(found.Token); err == nil {
				return fault.New(fault.Denied, "a token lets no browser in: only the launch token of the server does").
					WithHint("run lehr page on the server's machine, as the user who started it")
			}
			// A server that died leaves its word behind.
			c, err := s.connect()
			if err != nil {
				return err
			}
			if _, err := c.Server.GetServer(command.Context(), serverRequest); err != nil {
				return err
			}
			link := access.PageLink(found.URL, found.Token)
			if s.json() {
				return printJSON(s.Out, map[string]string{"page": link})
			}
			fmt.Fprintln(s.Out, link)
			return nil
		},
	}
}
