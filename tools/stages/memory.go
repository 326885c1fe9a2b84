package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// hugePagesFiles hold the kernel's settings for memory that asked for nothing, as
// "always [madvise] never": the word in brackets is in force. The second one is for memory
// that processes share, as PostgreSQL's do.
var hugePagesFiles = []string{
	"/sys/kernel/mm/transparent_hugepage/enabled",
	"/sys/kernel/mm/transparent_hugepage/shmem_enabled",
}

// useHugePages lets all programs have huge pages, by one of the settings, until restore is
// called. Go's runtime does not ask for them, and a run of the tests starts thousands of
// processes: on a virtual machine whose hypervisor keeps page tables itself, that saves a
// third of the computing, and of shared memory a sixth of what the tests of PostgreSQL compute.
// It reports whether it changed the setting: that takes root, and where it fails, the run is
// slower and else the same.
func useHugePages(path string) (restore func(), changed bool) {
	nothing := func() {}
	text, err := os.ReadFile(path)
	if err != nil {
		return nothing, false
	}
	_, after, _ := strings.Cut(string(text), "[")
	before, _, ok := strings.Cut(after, "]")
	if !ok || before == "always" || os.WriteFile(path, []byte("always"), 0o644) != nil {
		return nothing, false
	}
	return func() {
		if err := os.WriteFile(path, []byte(before), 0o644); err != nil {
			fmt.Fprintf(os.Stderr, "stages: the setting of huge pages stays \"always\", and was %q: %v\n", before, err)
		}
	}, true
}

// temporary is the folder of temporary files that a stage has in memory, gone when its last process ends.
// The zero value: the stage has the caller's TMPDIR, on a disk.
type temporary struct{ folder string }

// mountTemporary is the start of a stage's script: it mounts its own file system in memory on the folder.
// A program that is linked or copied there lies in huge pages, as far as its size goes
// (within_size): to start one then takes half of the page faults. Small files take what they need.
const mountTemporary = `mount -t tmpfs -o huge=within_size,mode=1777,size=70%% lehr-tests %q
export TMPDIR=%[1]q GOTMPDIR=%[1]q
`

// memoryNeeded is how much must be free, in kB, for temporary files to lie in memory beside the processes of all stages.
const memoryNeeded = 16 << 20

// useMemory returns temporary files in memory, and what removes the folder, where the caller may mount file systems
// and has enough memory; otherwise the run is slower and else the same.
func useMemory(ctx context.Context) (t temporary, remove func()) {
	nothing := func() {}
	if available, err := availableMemory("/proc/meminfo"); err != nil || available < memoryNeeded {
		return temporary{}, nothing
	}
	// A short path: those of sockets lie below it.
	folder, err := os.MkdirTemp("", "lt")
	if err != nil {
		return temporary{}, nothing
	}
	remove = func() {
		if err := os.Remove(folder); err != nil {
			fmt.Fprintf(os.Stderr, "stages: the folder of temporary files stays: %v\n", err)
		}
	}
	t = temporary{folder: folder}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	trial := exec.CommandContext(ctx, "bash", "-euc", t.script("true"))
	trial.SysProcAttr = &syscall.SysProcAttr{Unshareflags: t.unshare()}
	if trial.Run() != nil {
		remove()
		return temporary{}, nothing
	}
	return t, remove
}

// script returns what a shell runs, with temporary files in memory.
func (t temporary) script(command string) string {
	if t.folder == "" {
		return command
	}
	return fmt.Sprintf(mountTemporary, t.folder) + command
}

// unshare returns the flags of clone(2) for the shell: what it mounts, no other process sees.
func (t temporary) unshare() uintptr {
	if t.folder == "" {
		return 0
	}
	return syscall.CLONE_NEWNS
}

// availableMemory returns how much memory processes may still take, in kB, by a file such as /proc/meminfo.
func availableMemory(path string) (kilobytes int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			_, err := fmt.Sscanf(rest, "%d kB", &kilobytes)
			return kilobytes, err
		}
	}
	return 0, fmt.Errorf("%s does not say MemAvailable", path)
}
