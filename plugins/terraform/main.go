// Command lehr-terraform is the plugin for root modules of Terraform and OpenTofu
// (lehr.terraform.v1.Module). Lehr starts it; it starts itself as the keeper of each apply.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/plugins/terraform/applykeeper"
	"lehr.dev/plugins/terraform/enginelist"
	"lehr.dev/plugins/terraform/modules"
	"lehr.dev/sdk/allowlist"
	"lehr.dev/sdk/keeper"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

const name = "lehr-terraform"

func main() { os.Exit(run()) }

func run() int {
	if len(os.Args) > 1 && os.Args[1] == applykeeper.Command {
		return applykeeper.Keep(os.Stdin, os.Stdout)
	}
	// Plans, states and settings hold secrets: they are this user's alone.
	unix.Umask(0o077)
	if len(os.Args) > 1 && os.Args[1] == outputCommand {
		return printOutput(os.Args[2:])
	}
	options := modules.Options{Program: keeper.Self}
	engines := flag.String("engines", "", "FILE that lists the Terraform and OpenTofu programs that may be used; none is without it")
	flag.StringVar(&options.Folder, "folder", defaultFolder(), "folder of modules that are laid out, and of records of applies on this machine")
	flag.StringVar(&options.Host, "host", hostName(), "name of this machine, which nobody else has and which it keeps")
	flag.DurationVar(&options.Every, "every", 10*time.Minute, "pause between two plans of a module that nothing has changed")
	flag.IntVar(&options.PlansAtOnce, "plans", 4, "how many plans are made at once")
	flag.IntVar(&options.AppliesAtOnce, "applies", 4, "how many applies are under way at once")
	options.Secrets = resolver.Flag(flag.CommandLine, name)
	listen := serve.Flags(flag.CommandLine)
	flag.Parse()
	if err := complete(&options, *engines); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		return 1
	}
	return serve.Main(serve.Plugin{Name: name, Version: "1", Listen: listen, Resources: []serve.Kind{modules.New(options)}})
}

// complete checks the flags.
func complete(o *modules.Options, engines string) (err error) {
	switch {
	case o.Host == "" || len(o.Host) > 100 || strings.ContainsAny(o.Host, "/ \t\n"):
		return fmt.Errorf("--host %q is no name of a machine: give it one without slashes and blanks, of at most 100 bytes", o.Host)
	case o.Every < time.Second || o.Every > 12*time.Hour:
		return fmt.Errorf("--every is %s: write 1s to 12h", o.Every)
	case o.PlansAtOnce < 1 || o.PlansAtOnce > 256 || o.AppliesAtOnce < 1 || o.AppliesAtOnce > 256:
		return fmt.Errorf("--plans is %d and --applies %d: write 1 to 256", o.PlansAtOnce, o.AppliesAtOnce)
	}
	if o.Folder, err = filepath.Abs(o.Folder); err != nil {
		return err
	}
	// A list that is wrong permits nothing until it is right, and says so with each module.
	if o.Engines, err = allowlist.Open[enginelist.Engine](engines, enginelist.Kind); o.Engines == nil {
		return errors.Join(errors.New("opening the list of engines"), err)
	} else if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
	}
	o.Lock, err = serve.Lock()
	return err
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
		return filepath.Join(state, "lehr", "terraform")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/var/lib"
	}
	return filepath.Join(home, ".local", "state", "lehr", "terraform")
}
