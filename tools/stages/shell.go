package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runShell returns a runner that runs a stage's script in a shell. The output goes to a
// log of its own, and to standard output once the stage has ended: those of
// stages that run beside each other are not mixed.
func runShell(logs string, files temporary) runner {
	var printing sync.Mutex
	return func(ctx context.Context, s stage) (cost, error) {
		files := files
		path := filepath.Join(logs, s.Name+".log")
		log, err := os.Create(path)
		if err != nil {
			return cost{Stage: s.Name}, err
		}
		defer log.Close()
		if s.OnDisk {
			files = temporary{}
		}
		command := exec.CommandContext(ctx, "nice", "-n", strconv.Itoa(s.Lane.nice()), "bash", "-euo", "pipefail", "-c", files.script(s.command()))
		command.Stdout, command.Stderr = log, log
		command.Env = withDefaults(os.Environ(), environment)
		// A group of its own, so that all of it ends with a stage that is interrupted.
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Unshareflags: files.unshare()}
		command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
		command.WaitDelay = 30 * time.Second

		start := time.Now()
		say := func(format string, values ...any) {
			printing.Lock()
			defer printing.Unlock()
			fmt.Printf("== %s %s: "+format+"\n", append([]any{start.Format("15:04:05"), s.Name}, values...)...)
		}
		say("begins")
		err = command.Run()
		c := cost{Stage: s.Name, Clock: time.Since(start)}
		if state := command.ProcessState; state != nil {
			c.Computing = state.UserTime() + state.SystemTime()
		}
		output, readErr := os.ReadFile(path)
		if readErr != nil {
			output = []byte(readErr.Error())
		}
		result := "ok"
		if err != nil {
			result = "FAILED: " + err.Error()
		}
		printing.Lock()
		defer printing.Unlock()
		fmt.Printf("== %s: %s after %s, %s of computing\n%s\n", s.Name, result, seconds(c.Clock), seconds(c.Computing), bytes.TrimRight(output, "\n"))
		return c, err
	}
}

// withDefaults returns an environment with the variables that it lacks.
func withDefaults(variables, defaults []string) []string {
	all := slices.Clone(variables)
	for _, variable := range defaults {
		name, _, _ := strings.Cut(variable, "=")
		if !slices.ContainsFunc(variables, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			all = append(all, variable)
		}
	}
	return all
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Round(time.Second).Seconds())) + " s" }
