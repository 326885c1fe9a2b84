// Command lehr is the one binary: server, commands, and the child processes in
// which generators run, sources are tried and seeds are simulated. It only puts the
// parts together.
package main

import (
	"os"

	"lehr.dev/internal/cli"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/sim/campaign"
)

func main() { os.Exit(run()) }

func run() int {
	// A generator child limits itself before it looks at anything.
	if len(os.Args) > 1 && os.Args[1] == generate.ChildCommand {
		return generate.ChildMain(os.Stdin, os.Stdout)
	}
	if len(os.Args) > 1 && os.Args[1] == prodspec.TrialCommand {
		return prodspec.TrialMain(os.Args[2:], os.Stdout)
	}
	if len(os.Args) > 1 && os.Args[1] == campaign.ChildCommand {
		return campaign.ChildMain(os.Stdin, os.Stdout)
	}
	return cli.Main(local())
}
