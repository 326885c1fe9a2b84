package external

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"lehr.dev/internal/ground/fault"
)

// Ran is what a program did: how it exited, and what it wrote, as UTF-8.
type Ran struct {
	Exit int
	// Text is its standard output, Complaint the beginning of its standard error.
	Text, Complaint string
}

// Run runs a program with an input, in an environment that has nothing but PATH, until
// it exits or the context ends; then whatever it started is ended too. It is an error,
// Unavailable, when it does not start, does not exit by itself, or writes more than
// MaxAnswer.
func Run(ctx context.Context, line []string, input string) (Ran, error) {
	const maxComplaint = 4 << 10
	command := exec.CommandContext(ctx, line[0], line[1:]...)
	command.Env, command.Dir, command.WaitDelay = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, "/", time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	output, complaint := &bounded{most: MaxAnswer}, &bounded{most: maxComplaint, quiet: true}
	command.Stdout, command.Stderr = output, complaint
	if input != "" {
		command.Stdin = strings.NewReader(input)
	}
	err := command.Run()
	if command.Process != nil {
		// What it left behind goes with it.
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
	}
	if output.exceeded {
		return Ran{}, fault.New(fault.Unavailable, "%.200s wrote more than %d bytes", line[0], MaxAnswer)
	}
	exited, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && (!ok || !exited.Exited()) {
		return Ran{}, fault.New(fault.Unavailable, "%.200s did not answer: %w", line[0], err)
	}
	return Ran{
		Exit: command.ProcessState.ExitCode(), Text: strings.ToValidUTF8(output.text.String(), "\ufffd"), Complaint: strings.ToValidUTF8(complaint.text.String(), "\ufffd"),
	}, nil
}

// bounded keeps the beginning of what is written.
type bounded struct {
	text     bytes.Buffer
	most     int
	exceeded bool
	// quiet: what is beyond is dropped, and is no error.
	quiet bool
}

func (b *bounded) Write(p []byte) (int, error) {
	remaining := b.most - b.text.Len()
	switch {
	case len(p) <= remaining:
	case b.quiet:
		b.text.Write(p[:max(0, remaining)])
		return len(p), nil
	default:
		b.exceeded = true
		return 0, errors.New("too much was written")
	}
	return b.text.Write(p)
}
