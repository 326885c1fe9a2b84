package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/intent"
)

func (s *session) authCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "auth",
		Short: "Log in and out, and ask who may do what",
		Long: `Log in to a server and out of it, ask it who you are and what you may do, and make
and revoke tokens.

On the server's machine, the user who started it may do everything. Everybody else
logs in, or sets a token in LEHR_TOKEN, and names the server with --server or
LEHR_SERVER. The server's access policy (lehr serve --access FILE) and access: in
each partition's lehr.yaml grant what they may do.`,
	}
	command.AddCommand(s.loginCommand(), s.logoutCommand(), s.whoamiCommand(), s.canCommand(), s.tokenCommand())
	return command
}

func (s *session) whoamiCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show who you are to the server, and what you may do",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := s.connect(command.Context())
			if err != nil {
				return err
			}
			identity, err := c.Auth.WhoAmI(command.Context(), &apipb.WhoAmIRequest{})
			if err != nil {
				return err
			}
			if s.json() {
				return printMessage(s.Out, identity)
			}
			method := map[string]string{"local": "the user of the server's machine", "token": "a token", "login": "a login"}[identity.By]
			fields(s.Out, "name", identity.Name, "groups", strings.Join(identity.Groups, ", "), "by", method, "token", identity.Token, "ends", s.remaining(identity.Until))
			if len(identity.Grants) == 0 {
				fmt.Fprintln(s.Out, "Nothing is granted.")
				return nil
			}
			var rows [][]string
			for _, g := range identity.Grants {
				rows = append(rows, []string{roleName(g.Role), partitionName(g.Partition), g.Subject, g.Source})
			}
			table(s.Out, []string{"ROLE", "PARTITION", "GRANTED TO", "BY"}, rows)
			return nil
		},
	}
}

func roleName(role apipb.Role) string { return string(access.FromRole(role)) }

func partitionName(partition string) string {
	if partition == "" {
		return "all"
	}
	return partition
}

func (s *session) canCommand() *cobra.Command {
	request := &apipb.CanRequest{}
	command := &cobra.Command{
		Use:   "can ROLE|CALL",
		Short: "Show whether you may do something, and which grant allows it",
		Long: `Show whether you may use a role or make a call in the partition of -p, or in all
partitions where -p is not given. An admin may ask about other people.

Exit codes: 0 allowed, 1 not allowed.`,
		Example: `  lehr auth can operator -p shop
  lehr auth can lehr.api.v1.BrakeService/SetStop
  lehr auth can approver -p shop --as ann@example.com --groups sre,leads`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			c, err := s.connect(command.Context())
			if err != nil {
				return err
			}
			if request.Partition = s.partition; strings.Contains(args[0], "/") {
				request.Call = args[0]
			} else {
				role, err := intent.ParseRole(args[0])
				if err != nil {
					return err
				}
				request.Role = access.ToRole(role)
			}
			answer, err := c.Auth.Can(command.Context(), request)
			if err != nil {
				return err
			}
			switch {
			case s.json():
				err = printMessage(s.Out, answer)
			case answer.Allowed:
				fmt.Fprintf(s.Out, "yes: %s\n", plain(answer.Reason))
			default:
				fmt.Fprintf(s.Out, "no: %s\n", plain(answer.Reason))
			}
			if err == nil && !answer.Allowed {
				err = exit{exitError}
			}
			return err
		},
	}
	command.Flags().StringVar(&request.Name, "as", "", "ask about another person, by name")
	command.Flags().StringSliceVar(&request.Groups, "groups", nil, "groups that this person is in")
	return command
}

func (s *session) tokenCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke tokens",
	}
	command.AddCommand(s.createTokenCommand(), s.listTokensCommand(), s.revokeTokenCommand())
	return command
}

func (s *session) createTokenCommand() *cobra.Command {
	request := &apipb.CreateTokenRequest{}
	var partitions []string
	var lasts time.Duration
	var roles []string
	command := &cobra.Command{
		Use:   "create",
		Short: "Make a token; its secret is shown only once",
		Long: `Make a token. Whoever uses it may do what its owner may do at that time, within the
token's own limits. Its secret is shown only once; the server keeps a hash.

A token is valid for a day, or for the time of --for, at most a year. A token that
was made with another token may do no more than that one, ends with it at the
latest, and is revoked with it.`,
		Example: `  lehr auth token create --owner ci --role approver -p shop --for 720h --description "pipeline of shop"
  export LEHR_TOKEN=$(lehr auth token create --role viewer -o json | jq -r .secret)`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			for _, name := range roles {
				role, err := intent.ParseRole(name)
				if err != nil {
					return err
				}
				request.Roles = append(request.Roles, access.ToRole(role))
			}
			if request.Partitions = partitions; len(partitions) == 0 && s.partition != "" {
				request.Partitions = []string{s.partition}
			}
			request.Period = period(lasts)
			c, err := s.connect(command.Context())
			if err != nil {
				return err
			}
			created, err := c.Auth.CreateToken(command.Context(), request)
			if err != nil {
				return err
			}
			if s.json() {
				return printMessage(s.Out, created)
			}
			fmt.Fprintln(s.Out, plain(created.Secret))
			fmt.Fprintf(s.Err, "Token %s of %s, %s. It ends %s; earlier with: lehr auth token revoke %s\n",
				created.Token.Id, plain(created.Token.Owner), plain(tokenLimits(created.Token)), s.remaining(created.Token.Until), created.Token.Id)
			if len(created.Grants) == 0 {
				fmt.Fprintf(s.Err, "It may do nothing yet: nothing of that is granted to %s. Grant a role with access: in lehr.yaml, or in the file of lehr serve --access\n", plain(created.Token.Owner))
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&request.Owner, "owner", "", "owner of the token (default: you); an admin may name somebody else")
	flags.StringVar(&request.Description, "description", "", "what the token is for")
	flags.StringSliceVar(&roles, "role", nil, "at most this role; may be repeated (default: the owner's)")
	flags.StringSliceVarP(&partitions, "partition", "p", nil, "only in this partition; may be repeated (env LEHR_PARTITION; default: the owner's)")
	flags.DurationVar(&lasts, "for", 0, "how long it lasts (default 24h)")
	return command
}

// tokenLimits says what a token is limited to.
func tokenLimits(token *apipb.Token) string {
	if len(token.Roles)+len(token.Partitions) == 0 {
		return "not limited"
	}
	limits := "only"
	if len(token.Roles) > 0 {
		names := make([]string, len(token.Roles))
		for i, role := range token.Roles {
			names[i] = roleName(role)
		}
		limits += " as " + strings.Join(names, ", ")
	}
	if len(token.Partitions) > 0 {
		limits += " in " + strings.Join(token.Partitions, ", ")
	}
	return limits
}

func (s *session) listTokensCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List your tokens; for an admin, everybody's",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := s.connect(command.Context())
			if err != nil {
				return err
			}
			var tokens []*apipb.Token
			for request := (&apipb.ListTokensRequest{Limit: 1000}); ; {
				page, err := c.Auth.ListTokens(command.Context(), request)
				if err != nil {
					return err
				}
				tokens = append(tokens, page.Tokens...)
				if request.After = page.Next; request.After == "" {
					break
				}
			}
			result := listing{header: []string{"TOKEN", "OWNER", "KIND", "LIMITS", "MADE", "ENDS", "DESCRIPTION"}}
			for _, token := range tokens {
				ends := s.ends(token.Until)
				if token.Revoked != nil {
					ends = "revoked " + s.ago(token.Revoked)
				}
				result.add(token, token.Id, token.Owner, token.Kind, tokenLimits(token), s.ago(token.Created), ends, token.Description)
			}
			if s.json() {
				return printMessages(s.Out, result.messages)
			}
			if len(result.rows) == 0 {
				fmt.Fprintln(s.Out, "There are no tokens.")
				return nil
			}
			table(s.Out, result.header, result.rows)
			return nil
		},
	}
}

func (s *session) revokeTokenCommand() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use:   "revoke TOKEN...",
		Short: "Revoke tokens, and those made with them, at once; works without a server",
		Long: `Revoke tokens at once, and all tokens that were made with them. Name a token by its
id or by its secret. Streams that it opened end within a second.

Where the store is a file, the command needs nothing else, like lehr stop.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			c, err := s.connectOrOpen(command.Context())
			if err != nil {
				return err
			}
			slices.Sort(args)
			for _, id := range slices.Compact(args) {
				if named, _, err := access.ParseBearer(id); err == nil {
					id = named
				}
				revoked, err := c.Auth.RevokeToken(command.Context(), &apipb.RevokeTokenRequest{Id: id, Reason: reason})
				if err != nil {
					return err
				}
				if s.json() {
					if err := printMessage(s.Out, revoked.Token); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(s.Out, "Revoked %s of %s.\n", plain(revoked.Token.Id), plain(revoked.Token.Owner))
			}
			return nil
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	return command
}
