// Command lehr-kubernetes keeps objects of Kubernetes clusters as intent says
// (lehr.kubernetes.v1.Object). Lehr starts it. docs/use/clusters.md describes it.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"

	"lehr.dev/plugins/kubernetes/clusterfile"
	"lehr.dev/plugins/kubernetes/kubeobject"
	"lehr.dev/plugins/kubernetes/storagemark"
	"lehr.dev/sdk/serve"
)

func main() { os.Exit(run()) }

func run() int {
	name := flag.String("clusters", os.Getenv(clusterfile.Variable), "`FILE` that lists the clusters, credentials and partitions; default: $"+clusterfile.Variable)
	state := flag.String("state", os.Getenv(storagemark.Variable), "`FILE` in which is kept how far the storage of each cluster had come, so that a restored backup is noticed after a restart of the plugin, too; default: $"+storagemark.Variable+", or else nothing is kept")
	listen := serve.Flags(flag.CommandLine)
	flag.Parse()
	list := &clusterfile.File{}
	if *name != "" {
		var err error
		if list, err = clusterfile.Read(*name); err != nil {
			fmt.Fprintln(os.Stderr, "lehr-kubernetes:", err)
			return 1
		}
	}
	marks, err := storagemark.Open(*state)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lehr-kubernetes:", err)
		return 1
	}
	return serve.Main(serve.Plugin{
		Name: "lehr-kubernetes", Version: cmp.Or(version, "1"), Listen: listen, Resources: []serve.Kind{kubeobject.New(list, marks)},
	})
}

// version may be set when the program is linked.
var version string
