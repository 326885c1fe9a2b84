// Command lehr-process is the plugin for jobs of local processes
// (lehr.process.v1.Job), and for programs that run at certain times
// (lehr.process.v1.Schedule). Lehr starts it; it starts itself as the keeper of
// each schedule.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata"

	"lehr.dev/plugins/process/job"
	"lehr.dev/plugins/process/schedule"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

// name of the plugin, by which the operator's lists know it.
const name = "lehr-process"

func main() { os.Exit(run()) }

func run() int {
	if len(os.Args) > 1 && os.Args[1] == schedule.Command {
		return schedule.Keep()
	}
	logs := flag.String("logs", defaultLogs(), "folder of the tasks' logs, as <job>/<task>.log")
	listen := serve.Flags(flag.CommandLine)
	secrets := resolver.Flag(flag.CommandLine, name)
	flag.Parse()
	folder, err := filepath.Abs(*logs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lehr-process:", err)
		return 1
	}
	self, err := schedule.Self()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lehr-process:", err)
		return 1
	}
	return serve.Main(serve.Plugin{
		Name: name, Version: "1", Listen: listen,
		Resources: []serve.Kind{
			serve.For(job.Jobs{Logs: folder, Secrets: secrets, Exits: job.NewExits()}, job.Serving()),
			serve.For(schedule.Schedules{Logs: folder, Program: self, Exits: job.NewExits()}, schedule.Serving()),
		},
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
