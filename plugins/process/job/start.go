package job

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	processpb "lehr.dev/gen/lehr/process/v1"
)

// child is a task that this life of the plugin started. It is a child of the
// plugin while that lives, which is how its end is told, and reaped; then
// init inherits it.
type child struct {
	// done is closed when it has ended; ending then says how.
	done   chan struct{}
	ending string
	log    string
}

// start starts a task as intended: in a session of its own, with nothing of
// the plugin's but PATH and HOME.
func start(logs string, job *processpb.Job, secrets secrets, number uint32, push string) (*child, error) {
	task := intended(job, number)
	name := filepath.Join(logs, job.Name, fmt.Sprintf("%d.log", number))
	log, err := openLog(name)
	if err != nil {
		return nil, fmt.Errorf("opening the log of task %d of job %s: %w", number, job.Name, err)
	}
	defer log.Close()
	// Whatever this process was given by its own parent stays with it.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("keeping open files from task %d of job %s: %w", number, job.Name, err)
	}
	command := &exec.Cmd{
		Path: task.Binary, Args: append([]string{task.Binary}, task.Args...), Dir: "/",
		Env:    append(taskEnvironment(job, task, number, push), secrets.variables()...),
		Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting task %d of job %s: %w%s", number, job.Name, err, remedy(task.Binary, err))
	}
	c := &child{done: make(chan struct{}), log: name}
	go func() {
		_ = command.Wait() // its error is the state, told below
		c.ending = command.ProcessState.String()
		close(c.done)
	}()
	return c, nil
}

// taskEnvironment is a function of the intent, but for PATH, HOME and the
// push's name. Secrets are not in it.
func taskEnvironment(job *processpb.Job, task *processpb.Task, number uint32, push string) []string {
	names := slices.Sorted(maps.Keys(task.Env))
	environment := []string{
		variableJob + "=" + job.Name,
		fmt.Sprintf("%s=%d", variableTask, number),
		variableVersion + "=" + job.Version,
		variableNames + "=" + strings.Join(names, ","),
		variablePush + "=" + push,
	}
	for _, name := range names {
		environment = append(environment, name+"="+task.Env[name])
	}
	for _, name := range []string{"PATH", "HOME"} {
		if _, ok := task.Env[name]; !ok && os.Getenv(name) != "" {
			environment = append(environment, name+"="+os.Getenv(name))
		}
	}
	return environment
}

// startable says why a binary cannot be started, before a running task is
// stopped for it.
func startable(binary string) error {
	info, err := os.Stat(binary)
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder", binary)
	} else if err == nil {
		err = unix.Access(binary, unix.X_OK)
	}
	if err != nil {
		return fmt.Errorf("%w%s", err, remedy(binary, err))
	}
	return nil
}

func remedy(binary string, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf(": there is no %s (or no interpreter for it); install this version there, or mend the path in the intent", binary)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf(": make %s executable for the user that runs the plugin", binary)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Sprintf(": %s is no program for this machine", binary)
	}
	return ""
}

// openLog keeps the log of the task's life before as <name>.previous, so that
// logs are bounded by two lives.
func openLog(name string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	if err := os.Rename(name, name+".previous"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
}

// lastWords are the end of a log, for an error.
func lastWords(log string) string {
	const most, lines = 2000, 5
	file, err := os.Open(log)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	end := make([]byte, min(info.Size(), most))
	n, _ := file.ReadAt(end, info.Size()-int64(len(end)))
	all := bytes.Split(bytes.TrimSpace(end[:n]), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	text := bytes.Join(all, []byte(" | "))
	if len(text) == 0 {
		return "its log " + log + " is empty"
	}
	return fmt.Sprintf("its log %s ends with: %s", log, bytes.ToValidUTF8(text, []byte("?")))
}
