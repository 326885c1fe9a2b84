package cli

import "github.com/spf13/cobra"

func (s *session) authCommand() *cobra.Command {
	command := family("auth", "Log in to a server, and out")
	command.AddCommand(s.loginCommand(), s.logoutCommand())
	return command
}
