// Command lehr-caddy looks after HTTP balancers in running Caddies; Lehr
// starts it. "lehr-caddy run" is such a Caddy. docs/use/caddy.md describes both.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"lehr.dev/plugins/caddy/balancer"
	"lehr.dev/plugins/caddy/proxy"
	"lehr.dev/sdk/serve"
)

const usage = `
lehr-caddy run --admin ADDRESS [--dir DIR] runs a Caddy for balancers.
`

func main() { os.Exit(run(os.Args[1:])) }

func run(arguments []string) int {
	if len(arguments) == 0 || strings.HasPrefix(arguments[0], "-") {
		code := serve.Main(serve.Plugin{Name: "lehr-caddy", Version: "1", Resources: []serve.Kind{
			serve.For(balancer.New(), balancer.Serving()),
		}})
		if code == 2 {
			fmt.Fprint(os.Stderr, usage)
		}
		return code
	}
	if arguments[0] != "run" {
		fmt.Fprintf(os.Stderr, "lehr-caddy: no command %q\n%s", arguments[0], usage)
		return 2
	}
	options, err := proxy.Parse(arguments[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = proxy.Run(options)
	}
	fmt.Fprintln(os.Stderr, "lehr-caddy:", err)
	return 1
}
