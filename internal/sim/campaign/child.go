package campaign

import (
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/sim"
)

// ChildCommand is the first argument of a process that makes runs for another.
const ChildCommand = "__simulate"

// ChildMain makes the runs whose options it reads, until there are no more, and
// writes what came of each. It returns the exit code.
func ChildMain(in io.Reader, w io.Writer) int {
	read, write := gob.NewDecoder(in), gob.NewEncoder(w)
	for {
		var o sim.Options
		if err := read.Decode(&o); errors.Is(err, io.EOF) {
			return 0
		} else if err != nil {
			fmt.Fprintln(os.Stderr, "lehr: reading what to simulate:", err)
			return 1
		}
		outcome, err := sim.Run(context.Background(), o)
		answer := answer{Outcome: outcome}
		if err != nil {
			answer.Err = err.Error()
		}
		if err := write.Encode(answer); err != nil {
			fmt.Fprintln(os.Stderr, "lehr: writing what was simulated:", err)
			return 1
		}
	}
}

// answer is what came of a run, or why it could not be made.
type answer struct {
	Outcome sim.Outcome
	Err     string
}

// child is a process that makes runs. In a run one task goes on at a time: a process
// of more than one thread only hands it from core to core, which takes half as long again.
type child struct {
	command *exec.Cmd
	in      io.WriteCloser
	asks    *gob.Encoder
	answers *gob.Decoder
}

// ChildEnv is the environment of a process that makes runs, beside its parent's. One
// thread: see child. The memory of many short runs may grow before it is
// collected. And a run starts tens of thousands of goroutines that all use deep
// stacks (SQL, protobuf): as the runtime starts them with the stack that is usual, it
// copies no stacks that grow, which took a sixth of the computing.
var ChildEnv = []string{"GOMAXPROCS=1", "GOGC=400", "GODEBUG=adaptivestackstart=1"}

// newChild starts one; it ends with the context.
func newChild(ctx context.Context, program []string) (*child, error) {
	command := exec.CommandContext(ctx, program[0], program[1:]...)
	command.Env = append(os.Environ(), ChildEnv...)
	command.Stderr = os.Stderr
	// Ctrl-C is for this process, which tells what was found until then.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fault.New(fault.Unavailable, "cannot start a process that simulates: %w", err)
	}
	return &child{command, in, gob.NewEncoder(in), gob.NewDecoder(out)}, nil
}

// run makes a run there.
func (c *child) run(_ context.Context, o sim.Options) (sim.Outcome, error) {
	var a answer
	if err := c.asks.Encode(o); err != nil {
		return sim.Outcome{}, c.gone(o, err)
	}
	if err := c.answers.Decode(&a); err != nil {
		return sim.Outcome{}, c.gone(o, err)
	}
	if a.Err != "" {
		return sim.Outcome{}, fault.New(fault.Internal, "%s", a.Err)
	}
	return a.Outcome, nil
}

func (c *child) gone(o sim.Options, err error) error {
	return fault.New(fault.Internal, "the process that simulated seed %d ended: %w", o.Seed, cmp.Or(c.end(), err)).
		WithHint("what it said last is above; with the same flags, but --seed %d --runs 1, that one is simulated again", o.Seed)
}

// end waits until it is gone, and returns how it failed.
func (c *child) end() error {
	_ = c.in.Close()
	return c.command.Wait()
}
