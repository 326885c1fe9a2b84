// Command lehr-task is the plugin for programs that must have run (lehr.task.v1.Task). Lehr
// starts it; it starts itself as the keeper of each run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	_ "time/tzdata"

	"lehr.dev/plugins/task/runkeeper"
	"lehr.dev/plugins/task/tasks"
	"lehr.dev/sdk/allowlist"
	"lehr.dev/sdk/serve"
)

func main() { os.Exit(run()) }

func run() int {
	if len(os.Args) > 1 && os.Args[1] == runkeeper.Command {
		return runkeeper.Keep(os.Stdin, os.Stdout)
	}
	folder := flag.String("records", defaultFolder(), "folder of what ran on this machine; who loses it loses what long runs came to")
	host := flag.String("host", hostName(), "name of this machine, which nobody else has and which it keeps; a run that began here is repeated nowhere else unasked")
	await := flag.Duration("await", 30*time.Second, "how long a push stays to see its run end, and to have Lehr keep how it ended; the run goes on")
	programs := flag.String("programs", "", "FILE that lists the programs that may be run, by path; all may without it")
	listen := serve.Flags(flag.CommandLine)
	flag.Parse()
	options, err := options(*folder, *host, *await, *programs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lehr-task:", err)
		return 1
	}
	return serve.Main(serve.Plugin{Name: "lehr-task", Version: "1", Listen: listen, Resources: []serve.Kind{tasks.New(options)}})
}

// options checks the flags.
func options(folder, host string, await time.Duration, programs string) (o tasks.Options, err error) {
	o = tasks.Options{Host: host, Await: await, Program: runkeeper.Self}
	if host == "" || len(host) > 100 || strings.ContainsAny(host, "/ \t\n") {
		return o, fmt.Errorf("--host %q is no name of a machine: give it one without slashes and blanks, of at most 100 bytes", host)
	}
	if await < 0 || await > 10*time.Minute {
		return o, fmt.Errorf("--await is %v: write at most 10m", await)
	}
	if o.Folder, err = filepath.Abs(folder); err != nil {
		return o, err
	}
	if programs != "" {
		// A list that is wrong permits nothing until it is right, and says so with each task.
		o.Programs, err = allowlist.Open[tasks.Program](programs, tasks.ProgramList)
		if o.Programs == nil {
			return o, errors.Join(errors.New("opening the list of programs"), err)
		}
	}
	return o, nil
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// defaultFolder follows the XDG base directories. It returns a folder that outlives a reboot.
func defaultFolder() string {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "lehr", "task")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/var/lib"
	}
	return filepath.Join(home, ".local", "state", "lehr", "task")
}
