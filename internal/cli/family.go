package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// family is a command that only holds others. Cobra would answer a misspelt
// one of them with help and success.
func family(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, SuggestionsMinimumDistance: 2, DisableFlagsInUseLine: true,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			err := fmt.Errorf("unknown command %q for %q", args[0], command.CommandPath())
			if suggestions := command.SuggestionsFor(args[0]); len(suggestions) > 0 {
				err = fmt.Errorf("%w%s%s", err, didYouMean, strings.Join(suggestions, "\n"))
			}
			return err
		},
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
}
