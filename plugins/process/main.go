// Command lehr-process is the plugin for jobs of local processes
// (lehr.process.v1.Job). Lehr starts it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"lehr.dev/plugin/serve"
	"lehr.dev/plugins/process/job"
)

func main() { os.Exit(run()) }

func run() int {
	logs := flag.String("logs", defaultLogs(), "folder of the tasks' logs, as <job>/<task>.log")
	listen := serve.Flags(flag.CommandLine)
	flag.Parse()
	folder, err := filepath.Abs(*logs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lehr-process:", err)
		return 1
	}
	return serve.Main(serve.Plugin{
		Name: "lehr-process", Version: "1", Listen: listen,
		Resources: []serve.Kind{serve.For(job.Jobs{Logs: folder}, job.Serving())},
	})
}

// defaultLogs follows the XDG base directories, else a folder of this user's
// in the one for temporary files.
func defaultLogs() string {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "lehr", "process")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "lehr", "process")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("lehr-process-%d", os.Geteuid()))
}
