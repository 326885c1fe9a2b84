// Command lehr-secrets reads the secrets that references name for a plugin that is no
// program of Go. The package for plugins in Python starts it, as the plugin's child; it
// ends when its standard input does.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/secret/secretpipe"
)

func main() { os.Exit(run()) }

func run() int {
	plugin := flag.String("plugin", "", "the `NAME` of the plugin, as the operator's list has it")
	protocol := flag.Int("protocol", 0, "the version of the messages that the plugin speaks")
	list := flag.String("secret-list", "", "the operator's list of secrets, a `FILE` of YAML")
	flag.Parse()
	err := check(*plugin, *protocol)
	if err == nil {
		// Signals to the group are meant for the plugin, whose pushes still need it.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT)
		err = secretpipe.Serve(context.Background(), resolver.New(*plugin, *list), os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lehr-secrets:", err)
		return 2
	}
	return 0
}

func check(plugin string, protocol int) error {
	switch {
	case plugin == "" || flag.NArg() > 0:
		return fault.New(fault.Invalid, "it is the package for plugins in Python that starts this program, with --plugin and --protocol").
			WithHint("docs/extend/python.md tells how a plugin asks for a secret")
	case protocol != secretpipe.Protocol:
		return fault.New(fault.Invalid, "the plugin %s speaks version %d of the messages, and this program version %d", plugin, protocol, secretpipe.Protocol).
			WithHint("write the plugin's package anew by this Lehr: lehr plugin generate")
	}
	return nil
}
