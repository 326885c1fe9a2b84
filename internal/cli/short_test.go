package cli_test

import (
	"testing"

	"github.com/spf13/cobra"

	"lehr.dev/internal/cli"
)

// TestSummariesFitALine: what a list of commands says of each fits beside its name.
func TestSummariesFitALine(t *testing.T) {
	const longest = 80
	var look func(*cobra.Command)
	look = func(command *cobra.Command) {
		if n := len(command.Short); n > longest || n == 0 && command.HasParent() {
			t.Errorf("%s: its summary has %d bytes, want 1 to %d: %q", command.CommandPath(), n, longest, command.Short)
		}
		for _, child := range command.Commands() {
			look(child)
		}
	}
	look(cli.Command(cli.Local{}))
}
