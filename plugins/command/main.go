// Command lehr-command is the plugin for resources that commands look
// after (lehr.command.v1.Command). Lehr starts it.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"lehr.dev/plugins/command/commands"
	"lehr.dev/sdk/serve"
)

func main() { os.Exit(run()) }

func run() int {
	grace := flag.Duration("grace", 10*time.Second, "longest grace period that a command may have; pushes in doubt settle so much later")
	listen := serve.Flags(flag.CommandLine)
	flag.Parse()
	lock, err := serve.Lock()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lehr-command:", err)
		return 1
	}
	return serve.Main(serve.Plugin{
		Name: "lehr-command", Version: "1", Listen: listen,
		Resources: []serve.Kind{commands.New(*grace, lock)},
	})
}
