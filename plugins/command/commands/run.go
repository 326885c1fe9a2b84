package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	commandpb "lehr.dev/gen/lehr/command/v1"
	"lehr.dev/sdk/subprocess"
)

const (
	maxOutput = 64 << 10
	tailBytes = 2000
)

// invocation is one run of one of a resource's commands.
type invocation struct {
	command   *commandpb.Command
	argv      []string
	variables map[string]string
	grace     time.Duration
	// tell is told the lines that it writes; nil: nobody is.
	tell func(lines string)
}

// result is how a command ended.
type result struct {
	subprocess.Result
	output     []byte
	overflowed bool
}

// code is the exit code as shells tell it, of one that a signal ended, too.
func (r result) code() int32 {
	if r.Signal != 0 {
		return 128 + int32(r.Signal)
	}
	return int32(r.Exit)
}

// written is how a diff command ended: many say on standard output why they failed, which
// would be shown as the difference.
func (r result) written() string {
	output := bytes.TrimSpace(r.output)
	if r.Stderr.Written > 0 || len(output) == 0 {
		return r.String()
	}
	return fmt.Sprintf("%s, and wrote: %s", r, strings.ToValidUTF8(string(output[max(0, len(output)-tailBytes):]), ""))
}

// run returns an error when a command could not be run to its end: it could not be started,
// ctx ended, or it took too long.
func (c Commands) run(ctx context.Context, i invocation) (result, error) {
	ended, err := c.runner.Run(ctx, subprocess.Command{
		Argv: i.argv, Directory: i.command.Directory, Input: []byte(i.command.Input),
		Keep: []string{"PATH", "HOME"}, Set: i.variables,
		Limits: subprocess.Limits{
			Time: timeout(i.command), Grace: i.grace,
			Stdout: subprocess.Kept{Head: maxOutput}, Stderr: subprocess.Kept{Tail: tailBytes},
		},
		Tell: i.tell,
	})
	if errors.Is(err, subprocess.ErrTookTooLong) {
		err = fmt.Errorf("%s took longer than its timeout of %v and was stopped", i.argv[0], timeout(i.command))
	}
	return result{Result: ended, output: ended.Stdout.Head, overflowed: ended.Stdout.Truncated()}, err
}
