// Command lehr-sqlschema is the plugin for database schemas
// (lehr.sqlschema.v1.Schema). Lehr starts it.
package main

import (
	"flag"
	"os"

	"lehr.dev/plugins/sqlschema/schemas"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

// name of the plugin, by which the operator's lists know it.
const name = "lehr-sqlschema"

func main() {
	listen := serve.Flags(flag.CommandLine)
	secrets := resolver.Flag(flag.CommandLine, name)
	flag.Parse()
	os.Exit(serve.Main(serve.Plugin{
		Name: name, Version: "1", Listen: listen,
		Resources: []serve.Kind{serve.For(schemas.New(secrets), schemas.Serving())},
	}))
}
