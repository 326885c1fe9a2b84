// Command lehr-workflow is the plugin for things that are changed by a workflow
// (lehr.workflow.v1.Procedure): a push runs it. Lehr starts it.
package main

import (
	"flag"
	"fmt"
	"os"

	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/plugins/workflow/procedures"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

const name = "lehr-workflow"

func main() { os.Exit(run()) }

func run() int {
	list := flag.String("endpoints", "", "FILE that lists the APIs that may be called; none is without it")
	secrets := resolver.Flag(flag.CommandLine, name)
	listen := serve.Flags(flag.CommandLine)
	flag.Parse()
	source, err := endpoint.OpenSource(*list, secrets, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		return 1
	}
	return serve.Main(serve.Plugin{
		Name: name, Version: "1", Listen: listen,
		Resources: []serve.Kind{procedures.New(source)},
	})
}
