package generate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/allowance"
	"lehr.dev/internal/prodspec/generate/native"
	"lehr.dev/internal/prodspec/generate/render"
	"lehr.dev/internal/prodspec/generate/work"
)

// Options of the process runner.
type Options struct {
	// Child is the command of a child; it must end up in ChildMain.
	Child []string
	// Environment of the child besides GOGC; empty in production.
	Environment []string
	Limits      Limits
	// Cache is a folder for compiled modules, in which each partition has one of
	// its own; empty: every child compiles anew.
	Cache string
	// Native says what native programs of a partition are allowed; Denied, and
	// nil: they do not run.
	Native func(intent.PartitionID) (native.Policy, error)
	// Elsewhere has jobs run in another order, each in a child of its own, with
	// another clock and other chance, to see whether they depend on any of it.
	Elsewhere bool
	// Turns that children wait for; nil: they start at once.
	Turns *Turns
	// Progress is told of each run that ended; nil: nobody waits to see it.
	Progress *measure.Progress
}

// DefaultOptions starts this very binary, even if its file was replaced.
func DefaultOptions() Options {
	return Options{Child: []string{"/proc/self/exe", ChildCommand}, Limits: DefaultLimits()}
}

// Process runs jobs in child processes: one child for many jobs in sequence,
// a fresh one after each that dies.
type Process struct {
	options Options
	// partition for which it works; empty: any.
	partition intent.PartitionID
}

// NewProcess returns the process runner.
func NewProcess(options Options) *Process { return &Process{options: options} }

// Of returns the runner of one partition: children take its turns.
func (p *Process) Of(partition intent.PartitionID) *Process {
	return &Process{options: p.options, partition: partition}
}

// Run implements Runner.
func (p *Process) Run(ctx context.Context, schemas *schema.Set, jobs []Job, open Opener) ([]Result, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	first, err := p.setup(schemas, jobs[0])
	if fault.Is(err, fault.Denied) || fault.Is(err, fault.NotFound) {
		return refused(jobs, err), nil
	}
	if err != nil {
		return nil, err
	}
	if p.options.Elsewhere {
		return p.runApart(ctx, first, jobs, open)
	}
	var results []Result
	for len(results) < len(jobs) && sizeOf(results) < mostHeld {
		some, err := p.runSome(ctx, first, jobs[len(results):], open)
		results = append(results, some...)
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

// mostHeld is how many bytes of results are held at once, but for those of the last
// run (S12).
const mostHeld = 64 << 20

func sizeOf(results []Result) (bytes int) {
	for i := range results {
		bytes += results[i].size()
	}
	return bytes
}

func (r *Result) size() (bytes int) {
	for i := range r.Assets {
		bytes += len(r.Assets[i].Body)
	}
	for i := range r.Blobs {
		bytes += len(r.Blobs[i].Bytes)
	}
	return bytes
}

// runApart runs each job in a child of its own, the last one first.
func (p *Process) runApart(ctx context.Context, first setup, jobs []Job, open Opener) ([]Result, error) {
	results := make([]Result, len(jobs))
	for i := len(jobs) - 1; i >= 0; i-- {
		result, err := p.runSome(ctx, first, jobs[i:i+1], open)
		if err != nil {
			return nil, err
		}
		results[i] = result[0]
	}
	return results, nil
}

// setup is what a child for a job is told first. Denied and NotFound: there is to
// be none.
func (p *Process) setup(schemas *schema.Set, job Job) (setup, error) {
	first := setup{Limits: p.options.Limits, Language: job.Language, Native: apart(job), Elsewhere: p.options.Elsewhere}
	if schemas.Digest() != schema.Builtin().Digest() {
		first.Schema = schemas.Files()
	}
	var err error
	switch {
	case apart(job) && job.Renderer == "":
		_, err = render.LookUp(job.Program)
	case job.Language == work.WASM && p.options.Cache != "":
		first.Cache, err = roomInCache(p.options.Cache, job.Partition)
	case job.Language == work.Native && p.options.Native == nil:
		err = fault.New(fault.Denied, "nobody said that partition %s may run native programs", job.Partition).
			WithHint("have whoever runs the server list the partition in the file of --generators, or build it for WASI")
	case job.Language == work.Native:
		first.Policy, err = p.options.Native(job.Partition)
	}
	return first, err
}

// apart: the job is for a renderer that is a program of its own.
func apart(job Job) bool { return job.Language == work.Render && work.Apart(job.Program) }

// refused is the result of jobs that may not run: later they may.
func refused(jobs []Job, err error) []Result {
	results := make([]Result, len(jobs))
	for i, job := range jobs {
		f := intent.Finding{Rule: "generate", Severity: intent.Error, File: job.Where(), Line: 1, Message: err.Error()}
		if e, ok := errors.AsType[*fault.Error](err); ok {
			f.Message, f.Hint = e.Message, e.Hint
		}
		results[i] = Result{Result: work.Result{Findings: []intent.Finding{f}, Reads: work.Everything(job), Stopped: true}}
	}
	return results
}

// runSome runs jobs in one child, until it dies, others wait, or enough is held. It returns at least one
// result, or an error, or both.
func (p *Process) runSome(ctx context.Context, first setup, jobs []Job, open Opener) (results []Result, err error) {
	err = p.withChild(ctx, first, func(s *session) error {
		s.open = open
		size := 0
		for _, job := range jobs {
			s.begin()
			result, err := s.run(job)
			s.turn.Done()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				return err
			}
			results = append(results, result)
			p.options.Progress.AddDone(1)
			if result.Died || job.Language == work.WASM && len(result.Findings) > 0 {
				// A module that failed may have left the child without room.
				break
			}
			if size += result.size(); size >= mostHeld || s.turn.Over() {
				break
			}
		}
		return nil
	})
	return results, err
}

// withChild is the life of one child.
func (p *Process) withChild(ctx context.Context, first setup, use func(*session) error) error {
	turn, err := p.options.Turns.Take(ctx, p.partition)
	if err != nil {
		return err
	}
	defer turn.End()
	// The child is killed when the thread that started it ends, so that no
	// child outlives this process; the thread must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &session{turn: turn, limits: p.options.Limits, native: first.Native || first.Language == work.Native}
	if err := s.start(p.options); err != nil {
		return err
	}
	defer s.end()
	stop := context.AfterFunc(ctx, s.kill)
	defer stop()
	if err := s.setup(first); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.end()
		return fault.New(fault.Unavailable, "the generator child %s did not start: %w: %s", strings.Join(p.options.Child, " "), err, s.lastWords()).
			WithHint("the binary must answer its %s argument; check its memory limits", ChildCommand)
	}
	return use(s)
}

// session is one child and the pipes to it.
type session struct {
	turn   *Turn
	limits Limits
	// native: the jobs are programs of this machine.
	native  bool
	open    Opener
	command *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	stderr  work.LastWords
	endOnce sync.Once
}

func (s *session) start(options Options) error {
	s.command = exec.Command(options.Child[0], options.Child[1:]...)
	s.command.Env = slices.Concat([]string{fewCollections}, RaceEnvironment(), options.Environment)
	s.command.Dir = "/"
	s.command.Stderr = &s.stderr
	s.command.WaitDelay = time.Second
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := s.command.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		return err
	}
	s.stdin, s.stdout = stdin, bufio.NewReaderSize(stdout, 64<<10)
	if err := s.command.Start(); err != nil {
		return fault.New(fault.Unavailable, "cannot start the generator child %s: %w", options.Child[0], err)
	}
	return nil
}

// fewCollections keeps a child from collecting garbage while its packages are initialized, which
// saves a tenth of its start. ChildMain restores the usual setting.
const fewCollections = "GOGC=400"

// begin says that a run begins. What a native program does is not this child's
// time, so it makes no way.
func (s *session) begin() {
	pid := s.command.Process.Pid
	if s.native {
		pid = 0
	}
	s.turn.Begin(pid)
}

// end makes sure that the child is gone.
func (s *session) end() {
	s.endOnce.Do(func() {
		s.stdin.Close()
		s.kill()
		// How it ended is of no interest any more: every result was whole.
		_ = s.command.Wait()
	})
}

func (s *session) kill() {
	if s.native {
		// What a program without a sandbox has started may have left the group.
		native.KillBelow(s.command.Process.Pid)
	}
	// The group, so that nothing a child may have started stays.
	_ = syscall.Kill(-s.command.Process.Pid, syscall.SIGKILL)
}

func (s *session) setup(first setup) error {
	timer := time.AfterFunc(startTimeout, s.kill)
	defer timer.Stop()
	if err := writeJSON(s.stdin, frameSetup, first); err != nil {
		return err
	}
	kind, _, err := read(s.stdout, 1<<10)
	if err == nil && kind != frameReady {
		err = fmt.Errorf("it answered with a frame %q", kind)
	}
	return err
}

const (
	startTimeout = 20 * time.Second
	// graceTime is how much longer than its own limit a child may take: it
	// ends a run itself where it can, and can name the place then.
	graceTime = time.Second
	// compileTime is for making machine code of a module, which is done once.
	compileTime = time.Minute
)

// run carries one job. A child that dies on it makes a result; an input that
// cannot be opened makes an error.
func (s *session) run(job Job) (Result, error) {
	timeout := s.timeout()
	if job.Language == work.WASM {
		// Until it says that the module was compiled.
		timeout += compileTime
	}
	watch := s.watch(timeout)
	defer watch.stop()
	err := writeJSON(s.stdin, frameJob, job)
	for err == nil {
		var kind frameKind
		var payload []byte
		if kind, payload, err = read(s.stdout, s.frameLimit()); err != nil {
			break
		}
		switch kind {
		case frameResult:
			var result work.Result
			if late := watch.reason(); late != "" {
				// Of a program that was killed for its time the child tells only that it was killed.
				s.end()
				return s.post(job, err, late, timeout), nil
			}
			if err = json.Unmarshal(payload, &result); err == nil {
				return Result{Result: result}, nil
			}
		case frameWant:
			var w want
			if err = json.Unmarshal(payload, &w); err != nil {
				break
			}
			content, openErr := s.open(w.Kind, w.Input)
			if openErr != nil {
				return Result{}, openErr
			}
			err = write(s.stdin, frameContent, content)
		case frameReady:
			if timeout > s.timeout() {
				timeout = s.timeout()
				watch.anew(timeout)
			}
		default:
			err = fmt.Errorf("unknown frame %q", kind)
		}
	}
	s.end()
	return s.post(job, err, watch.reason(), timeout), nil
}

// watch kills the child when it takes longer than it may.
type watch struct {
	session *session
	late    atomic.Bool
	timer   *time.Timer
	mutex   sync.Mutex
	stopped bool
	// cause says why it was killed.
	cause     string
	allowance *allowance.Allowance
}

func (s *session) watch(timeout time.Duration) *watch {
	w := &watch{session: s}
	if s.native {
		// The child ends the program in time; what it reads meanwhile counts here.
		timeout *= 2
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.allowance = s.allow(timeout)
	w.timer = time.AfterFunc(w.allowance.FirstLook(), w.look)
	return w
}

// anew gives the child so long from now on, whatever it was given before.
func (w *watch) anew(timeout time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.allowance = w.session.allow(timeout)
	w.timer.Reset(w.allowance.FirstLook())
}

// allow gives a run its time. A native program has not started anything yet, so only this child's core
// time counts.
func (s *session) allow(timeout time.Duration) *allowance.Allowance {
	return allowance.New(timeout+graceTime, time.Now(), allowance.Had(s.command.Process.Pid))
}

// look kills the child, or looks again later.
func (w *watch) look() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.stopped {
		return
	}
	reason, wait := w.allowance.Look(time.Now(), w.session.used())
	if reason == "" {
		w.timer.Reset(wait)
		return
	}
	w.cause = reason
	w.late.Store(true)
	w.session.kill()
}

// reason is why the child was killed.
func (w *watch) reason() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.cause
}

// used is the time that the child had a core, or wanted one, with what it started.
func (s *session) used() allowance.Use {
	pid := s.command.Process.Pid
	if s.native {
		return allowance.Of(append(native.Below(pid), pid)...)
	}
	return allowance.Of(pid)
}

// timeout of one run.
func (s *session) timeout() time.Duration {
	return time.Duration(s.limits.Milliseconds) * time.Millisecond
}

func (w *watch) stop() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.stopped = true
	w.timer.Stop()
}

// frameLimit leaves room for base64, reads and findings.
func (s *session) frameLimit() int { return 2*s.limits.OutputBytes + 64<<20 }

// crashed is the exit code of a Go program that its own runtime ended.
const crashed = 2

// post says of what a child died.
func (s *session) post(job Job, err error, late string, timeout time.Duration) Result {
	memory := s.limits.MemoryBytes >> 20
	words := s.lastWords()
	switch state := s.command.ProcessState; {
	case late != "":
		return stopped(died(job, fmt.Sprintf("took longer than %s and was killed: %s", timeout, late), native.LateHint))
	case strings.Contains(words, "out of memory") || strings.Contains(words, "cannot allocate memory"):
		return died(job, fmt.Sprintf("needed more than %d MB of memory", memory),
			"make smaller values, or use for_each: file; this input is not run again until it changes")
	case strings.Contains(words, "stack exceeds") || strings.Contains(words, "stack overflow"):
		return died(job, "nested too deeply",
			"make the data flatter; this input is not run again until it changes")
	case fault.Is(err, fault.Invalid):
		return died(job, "gave too much: "+err.Error(), "split the generator, or use for_each: file")
	case state != nil && state.Exited() && state.ExitCode() == crashed:
		// Where memory is refused, the runtime mostly says so, and sometimes
		// trips over it.
		return died(job, fmt.Sprintf("took its child process along (%s), most likely by needing more than %d MB of memory", words, memory),
			"make smaller values, or use for_each: file; this input is not run again until it changes")
	default:
		reason := fmt.Sprintf("lost its child process (%s)", state)
		if words != "" {
			reason += ": " + words
		}
		return stopped(died(job, reason, "something outside may have killed it; it is tried again in "+Quarantine.String()+", or when one of its inputs changes"))
	}
}

func stopped(r Result) Result {
	r.Stopped = true
	return r
}

// lastWords is the first line a dying child wrote.
func (s *session) lastWords() string { return s.stderr.First() }
