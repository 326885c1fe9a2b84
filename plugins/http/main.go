// Command lehr-http is the plugin for things behind JSON REST APIs
// (lehr.http.v1.Resource). Lehr starts it.
package main

import (
	"flag"
	"fmt"
	"os"

	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/plugins/http/objects"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

func main() { os.Exit(run()) }

func run() int {
	list := flag.String("endpoints", "", "FILE that lists the APIs that may be used; none is without it")
	secrets := resolver.Flag(flag.CommandLine, endpoint.Plugin)
	listen := serve.Flags(flag.CommandLine)
	flag.Parse()
	source, err := endpoint.OpenSource(*list, secrets, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, endpoint.Plugin+":", err)
		return 1
	}
	return serve.Main(serve.Plugin{
		Name: endpoint.Plugin, Version: "1", Listen: listen,
		Resources: []serve.Kind{objects.Objects{Source: source}},
	})
}
