package job

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ports that TCP sockets listen on, each with the inodes of its sockets.
type ports map[uint32][]string

// listeners reads the listening sockets of this network namespace.
func listeners() (ports, error) {
	const listening = "0A" // TCP_LISTEN of linux/tcp_states.h
	found := ports{}
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.Open(path)
		if os.IsNotExist(err) {
			continue // no IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("reading which ports are in use: %w", err)
		}
		lines := bufio.NewScanner(table)
		lines.Scan() // the heading
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			// The kernel lists listening sockets first. There may be very
			// many others, and writing them out is slow.
			if len(fields) < 10 || fields[3] != listening {
				break
			}
			_, hexadecimal, _ := strings.Cut(fields[1], ":")
			if number, err := strconv.ParseUint(hexadecimal, 16, 16); err == nil {
				found[uint32(number)] = append(found[uint32(number)], fields[9])
			}
		}
		table.Close()
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("reading which ports are in use: %w", err)
		}
	}
	return found, nil
}

// heldBy reports whether the process, or a part of it, listens on the port.
func (p ports) heldBy(port uint32, holder process) bool {
	inodes := p[port]
	if len(inodes) == 0 {
		return false
	}
	return slices.ContainsFunc(append([]process{holder}, holder.parts...), func(part process) bool {
		return holdsSocket(part.pid, inodes)
	})
}

func holdsSocket(pid int, inodes []string) bool {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(entries, func(entry os.DirEntry) bool {
		target, err := os.Readlink(filepath.Join(folder, entry.Name()))
		inode, socket := strings.CutPrefix(target, "socket:[")
		return err == nil && socket && slices.Contains(inodes, strings.TrimSuffix(inode, "]"))
	})
}

// holder returns the process that listens on the port; ok is false for one that this user may not see.
func (p ports) holder(port uint32) (pid int, ok bool) {
	inodes := p[port]
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && holdsSocket(pid, inodes) {
			return pid, true
		}
	}
	return 0, false
}

// describeHolder names the process that listens on the port, for people.
func (p ports) describeHolder(port uint32) string {
	pid, ok := p.holder(port)
	if !ok {
		return "a process that this user may not see"
	}
	cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	command := strings.TrimSpace(strings.ReplaceAll(string(cmdline), "\x00", " "))
	return fmt.Sprintf("process %d (%.120s)", pid, command)
}

// isExiting reports whether the kernel is taking a process apart. It takes its memory, by which
// a task counts as gone, before its sockets.
func isExiting(pid int) bool {
	const exiting = 0x4 // PF_EXITING of linux/sched.h
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // It is gone.
	}
	// The name, in parentheses, may have anything. The flags are the seventh field after it: proc_pid_stat(5).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return err == nil && flags&exiting != 0
}
