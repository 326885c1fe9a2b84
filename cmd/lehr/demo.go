package main

import (
	"os"

	"github.com/spf13/cobra"

	"lehr.dev/internal/demo"
)

// demoCommand plays the example on this machine.
func demoCommand() *cobra.Command {
	var options demo.Options
	command := &cobra.Command{
		Use:   "demo",
		Short: "Run the Shakespeare service of the paper on this machine",
		Long: `Start two local clusters of four real processes each, balancers before them and
a database, enforced by a real server in a folder of its own, and show them live
until Ctrl-C. The first line has the address of the status page: open it to follow
there what happens. With --exit, play a story of changes and faults instead, check
every claim against the processes and their sockets, and end with 0, or with 1 at
the first thing that is not so. Every process that was started has ended afterwards.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			options.Program, options.Out = program, command.OutOrStdout()
			return demo.Run(command.Context(), options)
		},
	}
	command.Flags().BoolVar(&options.Exit, "exit", false, "play the story unattended, then end")
	command.Flags().StringVar(&options.Directory, "dir", "", "empty folder to play in (default: a temporary one, removed at the end)")
	return command
}
