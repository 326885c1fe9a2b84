// Command lehr-http is the plugin for things behind JSON REST APIs
// (lehr.http.v1.Resource). Lehr starts it.
package main

import (
	"flag"
	"fmt"
	"os"

	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/plugins/http/objects"
	"lehr.dev/sdk/serve"
)

func main() { os.Exit(run()) }

func run() int {
	list := flag.String("endpoints", "", "FILE that lists the APIs that may be used, and their secrets; none is without it")
	listen := serve.Flags(flag.CommandLine)
	flag.Parse()
	source, err := endpoint.OpenSource(*list, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lehr-http:", err)
		return 1
	}
	return serve.Main(serve.Plugin{
		Name: "lehr-http", Version: "1", Listen: listen,
		Resources: []serve.Kind{objects.Objects{Source: source}},
	})
}
