package faults

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lehr.dev/sdk/subprocess"
)

// process is one line of the system's process table.
type process struct {
	pid, parent int
	arguments   []string
}

// rest is how long to wait before the next look at production, when one began then: so
// long that looks take a fifth of one core, and at least as long as said.
func rest(began time.Time, least time.Duration) time.Duration {
	return max(least, 4*time.Since(began))
}

// processes lists those that a filter takes.
func processes(take func(process) bool) []process {
	var found []process
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		pid, _ := strconv.Atoi(filepath.Base(folder))
		stat, err := os.ReadFile(folder + "/stat")
		if err != nil {
			continue
		}
		line, err := os.ReadFile(folder + "/cmdline")
		if err != nil || len(line) == 0 {
			continue // It has ended.
		}
		// The name before the bracket may hold anything.
		after := bytes.LastIndexByte(stat, ')')
		var state string
		p := process{pid: pid, arguments: strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")}
		if _, err := fmt.Sscan(string(stat[after+1:]), &state, &p.parent); err == nil && state != "Z" && take(p) {
			found = append(found, p)
		}
	}
	return found
}

func (p process) is(program string) bool { return filepath.Base(p.arguments[0]) == program }

func (p process) has(argument string) bool { return slices.Contains(p.arguments, argument) }

// plugins are the living children of the server that a program runs in.
func (w *world) plugins(program string) []process {
	return processes(func(p process) bool {
		return w.server != nil && p.parent == w.server.Process.Pid && p.is(program)
	})
}

// guards are lehr-command's own children, each of which runs one command.
func (w *world) guards() []process {
	return processes(func(p process) bool { return p.has(subprocess.GuardName) && p.has(w.production) })
}

// pushes are the push commands under way.
func (w *world) pushes() []process {
	return processes(func(p process) bool {
		return len(p.arguments) > 2 && p.arguments[1] == "production:push" && p.arguments[2] == w.production
	})
}

// tasks are the processes of the world's jobs, whoever started them.
func (w *world) tasks() []process {
	return processes(func(p process) bool {
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		return err == nil && bytes.Contains(environment, []byte("LEHR_JOB="+w.identity+"/"))
	})
}

// killAll kills processes, and returns how many of them it met alive.
func killAll(list []process) (met int) {
	for _, p := range list {
		if syscall.Kill(p.pid, syscall.SIGKILL) == nil {
			met++
		}
	}
	return met
}
