// Package subprocess runs programs for a plugin: terraform, kubectl, a script. A program
// gets the arguments, the variables and the input that it is given and nothing else of the
// plugin. It has limits, and ends with all that it started when its time is over, when the
// permit ends or when the plugin dies. The package gives nothing to a shell, and takes no
// output for an outcome. A program that is to outlive the plugin is none of its business.
//
// Whoever links the package needs to do nothing for that: the program starts itself again
// as a guard, which the package's init takes over before main begins.
package subprocess

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
)

const (
	// DefaultTime and DefaultAtOnce are limits that nobody gave.
	DefaultTime   = time.Minute
	DefaultAtOnce = 8
	// KillMargin is what a program that must end may take beyond its grace: a plugin whose
	// effects are programs declares its longest grace and this as its longest effect.
	KillMargin = 500 * time.Millisecond

	mostTime   = 24 * time.Hour
	mostKept   = 64 << 20
	defaultDir = "/"
)

// Options of a Runner.
type Options struct {
	// Lock is the plugin's, of serve.Lock; nil without one. The guards of programs hold it,
	// so that no other process of the plugin pushes before they ended (S3). The programs
	// themselves do not have it.
	Lock *os.File
	// AtOnce is how many programs of one queue run at a time; default DefaultAtOnce.
	AtOnce int
	// Redact hides secrets in what Output.Text and errors show; nil: nothing is hidden.
	Redact func(text string) string
}

// Runner runs programs. Its methods may be called from many goroutines.
type Runner struct {
	lock   *os.File
	redact func(string) string
	queues *queues
}

// New returns a runner.
func New(options Options) *Runner {
	if options.AtOnce <= 0 {
		options.AtOnce = DefaultAtOnce
	}
	return &Runner{lock: options.Lock, redact: options.Redact, queues: newQueues(options.AtOnce)}
}

// Command is one run of a program.
type Command struct {
	// Argv is the program, by its path or its name in PATH of its environment, and its
	// arguments. What is secret is no argument: every user of the machine reads them.
	Argv []string
	// Directory in which it runs, absolute; default "/".
	Directory string
	// Keep names the variables of the plugin that the program gets, such as PATH and HOME.
	// Set has others by name, and wins. There are no more.
	Keep []string
	Set  map[string]string
	// Input is its standard input.
	Input []byte
	// Queue names what it shares with others of the Runner, such as a working folder, of
	// which Options.AtOnce run at a time; the others wait, as long as ctx lets them. Empty:
	// it does not wait.
	Queue  string
	Limits Limits
	// Tell is told what the program writes on both streams, as lines, while it runs: at most five times a
	// second, at most the last 200 lines since. It is not called after Run has returned, and has secrets
	// that Options.Redact does not know. Nil: nobody is told.
	Tell func(lines string)
}

// Limits of one run.
type Limits struct {
	// Time bounds the run by the clock, once it has begun; default DefaultTime, at most 24 h.
	Time time.Duration
	// Grace is from SIGTERM, which its process group gets when it must end, to SIGKILL.
	// Default 0: SIGKILL at once.
	Grace time.Duration
	// CPU bounds the processor time of each of its processes, not of all together, in whole
	// seconds, rounded up (RLIMIT_CPU: SIGXCPU, and SIGKILL a second later). 0: none.
	CPU time.Duration
	// AddressSpace bounds the virtual memory of each of its processes, in bytes
	// (RLIMIT_AS): to ask for more fails. Programs in Go, Java and JavaScript reserve far
	// more than they use, and need GiBs. 0: none.
	AddressSpace int64
	// Stdout and Stderr say what is kept of what it writes; it may write more.
	Stdout, Stderr Kept
}

// Kept is how many bytes are kept of a stream: the first Head and the last Tail. Without
// either they are 48 KiB and 16 KiB.
type Kept struct{ Head, Tail int }

func (k Kept) orDefault() Kept {
	if k.Head == 0 && k.Tail == 0 {
		return Kept{Head: 48 << 10, Tail: 16 << 10}
	}
	return k
}

// check fills in the defaults. Invalid: the command cannot be run as it is written.
func (c Command) check() (Command, error) {
	invalid := func(hint, format string, arguments ...any) (Command, error) {
		return c, fault.New(fault.Invalid, format, arguments...).WithHint("%s", hint)
	}
	if c.Directory == "" {
		c.Directory = defaultDir
	}
	if c.Limits.Time == 0 {
		c.Limits.Time = DefaultTime
	}
	c.Limits.Stdout, c.Limits.Stderr = c.Limits.Stdout.orDefault(), c.Limits.Stderr.orDefault()
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return invalid("name the program first, and then its arguments", "there is no program to run")
	}
	for _, word := range c.Argv {
		if strings.ContainsRune(word, 0) {
			return invalid("write it without that byte", "an argument of %s holds a NUL byte, which no program can be given", c.Argv[0])
		}
	}
	switch l := c.Limits; {
	case !filepath.IsAbs(c.Directory):
		return invalid("write the whole path", "the folder %q, in which %s is to run, is no absolute path", c.Directory, c.Argv[0])
	case l.Time < 0 || l.Time > mostTime || l.Grace < 0 || l.Grace > mostTime:
		return invalid("write times from 0 to 24 h", "%s has %v to run and %v to end", c.Argv[0], l.Time, l.Grace)
	case l.CPU < 0 || l.AddressSpace < 0:
		return invalid("0 is none, and others are above", "%s has %v of processor time and %d bytes of address space", c.Argv[0], l.CPU, l.AddressSpace)
	}
	for _, k := range []Kept{c.Limits.Stdout, c.Limits.Stderr} {
		if k.Head < 0 || k.Tail < 0 || k.Head+k.Tail > mostKept {
			return invalid("keep at most 64 MiB of a stream", "%d and %d bytes of what %s writes are to be kept", k.Head, k.Tail, c.Argv[0])
		}
	}
	return c, nil
}

// Run runs a program to its end. The error says that it did not come to an end of its own:
// it could not be started (NotFound, Denied, Invalid, Unavailable), ErrTookTooLong, or the
// cause of ctx. The result then holds what is known of it. When Run returns nothing is left
// of what the program started, not even what left its process group: unless that runs as another
// user, or the program killed its guard. One that ends by itself has no error, whatever its exit
// status.
func (r *Runner) Run(ctx context.Context, command Command) (Result, error) {
	command, err := command.check()
	if err != nil {
		return Result{}, err
	}
	environment, err := command.environment()
	if err != nil {
		return Result{}, err
	}
	leave, err := r.queues.enter(ctx, command.Queue)
	if err != nil {
		return Result{}, err
	}
	defer leave()
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	return r.run(ctx, command, environment)
}
