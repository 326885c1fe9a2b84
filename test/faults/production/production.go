// Package production is what the faults' pushes change: a folder with one file with a value for
// each resource, one that pushes lock while they work, and a log of everything that pushes ever
// did. Its programs are linked without the tests: thousands of them start.
package production

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Exit codes of the commands, see lehr.command.v1.Command.
const (
	exitInSync  = 0
	exitDiffers = 2
	exitBroken  = 3
	// exitContended: two pushes of one resource at a time (S3).
	exitContended = 4
)

// Effect is one line of the log.
type Effect struct {
	// Step is "start", "beat" while the push works, "end" after the value
	// was written, or "contended".
	Step     string
	Push     string
	Resource string
	Value    int
	PID      int
	// At is in Unix nanoseconds.
	At int64
}

// EffectLog is the name of the log in the folder.
const EffectLog = "effects.log"

// ValuePath is the file with the value of a resource.
func ValuePath(folder, resource string) string { return filepath.Join(folder, resource+".value") }

// ReadValue returns the value of a resource, and 0 for one that is not there yet.
func ReadValue(folder, resource string) (int, error) {
	content, err := os.ReadFile(ValuePath(folder, resource))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

// Diff compares a resource with a value, FOLDER RESOURCE VALUE, and returns its exit code.
func Diff(arguments []string) int {
	folder, resource, wanted := arguments[0], arguments[1], arguments[2]
	have, err := ReadValue(folder, resource)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitBroken
	}
	if strconv.Itoa(have) == wanted {
		return exitInSync
	}
	fmt.Printf("value: %d, should be %s\n", have, wanted)
	return exitDiffers
}

// Push gives a resource a value, slowly, FOLDER RESOURCE VALUE, and returns its exit code.
func Push(arguments []string) int {
	folder, resource := arguments[0], arguments[1]
	value, err := strconv.Atoi(arguments[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitBroken
	}
	record := func(step string) error {
		return appendEffect(folder, Effect{
			Step: step, Push: os.Getenv("LEHR_PUSH"), Resource: resource, Value: value, PID: os.Getpid(), At: time.Now().UnixNano(),
		})
	}
	lock, err := os.OpenFile(filepath.Join(folder, resource+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitBroken
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		fmt.Fprintln(os.Stderr, errors.Join(err, record("contended")))
		return exitContended
	}
	err = record("start")
	for end := time.Now().Add(work(os.Getenv("LEHR_PUSH"))); err == nil && (time.Now().Before(end) || held(folder, resource)); {
		const beat = 4 * time.Millisecond
		time.Sleep(beat)
		err = record("beat")
	}
	if err == nil {
		err = ReplaceFile(ValuePath(folder, resource), fmt.Sprintln(value))
	}
	if err == nil {
		err = record("end")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitBroken
	}
	return 0
}

// held reports whether pushes of the resource do not end by themselves.
func held(folder, resource string) bool {
	_, err := os.Stat(HeldPath(folder, resource))
	return err == nil
}

// HeldPath is the file that is there while pushes of a resource do not end by themselves.
func HeldPath(folder, resource string) string { return filepath.Join(folder, resource+".held") }

// work is how long a push takes: most are quick, and some so long that whoever
// outlives its plugin is seen to.
func work(push string) time.Duration {
	const quick, long, longEvery = 80, 1500 * time.Millisecond, 8
	hash := fnv.New32a()
	hash.Write([]byte(push))
	if sum := hash.Sum32(); sum%longEvery > 0 {
		return time.Duration(sum/longEvery%quick) * time.Millisecond
	}
	return long
}

// Task is a process of a job, PORT TEST, and returns its exit code. It listens on the port, unless
// that is 0, and ends with the process of the test.
func Task(arguments []string) int {
	if arguments[0] != "0" {
		if _, err := net.Listen("tcp", "127.0.0.1:"+arguments[0]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	test, _ := strconv.Atoi(arguments[1])
	if err := AwaitEnd(test); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// appendEffect writes one line, which is on the disk when it returns.
func appendEffect(folder string, e Effect) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(folder, EffectLog), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(append(line, '\n')); err != nil {
		return err
	}
	if e.Step == "beat" {
		return nil
	}
	return file.Sync()
}

// ReplaceFile writes a file as a whole or not at all.
func ReplaceFile(path, content string) error {
	passing := fmt.Sprintf("%s.%d.new", path, os.Getpid())
	if err := os.WriteFile(passing, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(passing, path)
}

// AwaitEnd waits until a process has ended.
func AwaitEnd(pid int) error {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	for err == nil || errors.Is(err, unix.EINTR) {
		var n int
		if n, err = unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1); n > 0 {
			return unix.Close(pidfd)
		}
	}
	return err
}
