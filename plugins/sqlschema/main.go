// Command lehr-sqlschema is the plugin for database schemas
// (lehr.sqlschema.v1.Schema). Lehr starts it.
package main

import (
	"os"

	"lehr.dev/plugins/sqlschema/schemas"
	"lehr.dev/sdk/serve"
)

func main() {
	os.Exit(serve.Main(serve.Plugin{
		Name: "lehr-sqlschema", Version: "1",
		Resources: []serve.Kind{serve.For(schemas.New(), schemas.Serving())},
	}))
}
