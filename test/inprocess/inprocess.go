// Package inprocess runs the commands of lehr that only speak with a server inside a test's own process.
//
// To start a program takes 60 to 125 ms of computing on a machine whose page tables a
// hypervisor keeps, a hundred times what such a command does then; and tests wait with
// thousands of them. What a command does and prints is the same: package cli runs it.
package inprocess

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/internal/cli"
)

// commands speak with a server, and read no file but the store's.
var commands = []string{"delivery", "describe", "get", "rollout status", "timeline", "top", "why", "workflow list", "workflow status"}

// Allows reports whether Run may run a command of lehr: it speaks with a server, reads no files
// beside the store, and names no store, which it would open itself where no server answers.
func Allows(args []string) bool {
	if slices.ContainsFunc(args, func(arg string) bool {
		return strings.HasPrefix(arg, "--database") || strings.HasPrefix(arg, "--store")
	}) {
		return false
	}
	words := strings.Join(args, " ") + " "
	return slices.ContainsFunc(commands, func(command string) bool { return strings.HasPrefix(words, command+" ") })
}

// Run runs a command in a folder with an environment, and returns what it printed on standard output.
// An error tells its exit code and what it printed on standard error. local is for what a command
// does where no server answers.
func Run(ctx context.Context, local cli.Local, folder string, getenv func(string) string, args ...string) (string, error) {
	environment := func(name string) string {
		value := getenv(name)
		if name != "LEHR_STORE" {
			return value
		}
		// What is found from the folder is named, for this process is elsewhere.
		if value == "" && getenv("LEHR_SERVER") == "" && getenv("LEHR_DATABASE") == "" {
			value = ".lehr/lehr.db"
		}
		if value != "" && !filepath.IsAbs(value) {
			value = filepath.Join(folder, value)
		}
		return value
	}
	var out, errs bytes.Buffer
	if code := cli.Run(ctx, local, cli.Terminal{Out: &out, Err: &errs, Getenv: environment}, args); code != 0 {
		return out.String(), fmt.Errorf("lehr %s: exit status %d: %s", strings.Join(args, " "), code, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}
