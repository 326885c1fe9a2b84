package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
)

func (s *session) pageCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "page",
		Short: "Print a link that opens the status page in one browser",
		Long: `Print a link to the status page of the server that runs on the store. The link works
once, in one browser, which may then use the page until the server ends. For a
server behind https, print its address, where browsers log in.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			// A server that died leaves its word behind.
			c, err := s.connect(command.Context())
			if err != nil {
				return err
			}
			if _, err := c.Server.GetServer(command.Context(), serverRequest); err != nil {
				return err
			}
			link, err := s.pageLink(c.URL)
			if err != nil {
				return err
			}
			if s.json() {
				return printJSON(s.Out, map[string]string{"page": link})
			}
			fmt.Fprintln(s.Out, link)
			return nil
		},
	}
}

// pageLink lets a browser in to a server's pages.
func (s *session) pageLink(server string) (string, error) {
	if strings.HasPrefix(server, "https://") {
		return server + "/", nil
	}
	rendezvous := access.Rendezvous{URL: server, Token: s.Getenv("LEHR_TOKEN")}
	if len(s.servers) == 0 {
		var err error
		if rendezvous, err = access.ReadRendezvous(s.store); err != nil {
			return "", err
		}
	}
	if _, _, err := access.ParseBearer(rendezvous.Token); err == nil || rendezvous.Token == "" {
		return "", fault.New(fault.Denied, "a token lets no browser in: only the launch token of the server does").
			WithHint("run lehr page on the server's machine, as the user who started it")
	}
	return access.PageLink(rendezvous.URL, rendezvous.Token), nil
}
