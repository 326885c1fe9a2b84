package processes

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// process is what /proc says of one.
type process struct {
	pid, parent int
	// executable is the file that runs, binary a path by which it is started,
	// with the arguments.
	executable, binary string
	arguments          []string
	folder             string
	// variables are names alone.
	variables []string
	// ports on which it, or what it started of the same program, listens.
	ports []int
	// task is the job that it is a task of.
	task string
	// deleted: its file is not there any more. retitled: its command line is not
	// what it was started with.
	deleted, retitled bool
}

// running lists this user's processes, by pid. One that ends meanwhile, or of
// another user, is none.
func running() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	listening, err := listeners()
	if err != nil {
		return nil, err
	}
	var all []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, err := read(pid, listening)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if p != nil {
			all = append(all, *p)
		}
	}
	slices.SortFunc(all, func(a, b process) int { return a.pid - b.pid })
	adoptPorts(all)
	return all, nil
}

// adoptPorts gives a process the ports of its children of the same program: a
// server that forks often lets those listen.
func adoptPorts(all []process) {
	at := map[int]int{}
	for i, p := range all {
		at[p.pid] = i
	}
	for i := range all {
		for child := all[i]; ; {
			j, ok := at[child.parent]
			if !ok || all[j].executable != child.executable || child.pid == child.parent {
				break
			}
			for _, port := range all[i].ports {
				if !slices.Contains(all[j].ports, port) {
					all[j].ports = append(all[j].ports, port)
				}
			}
			child = all[j]
		}
	}
	for i := range all {
		slices.Sort(all[i].ports)
	}
}

// read returns nil for what is no program of this user: a kernel's thread, a
// zombie.
func read(pid int, listening map[string]int) (*process, error) {
	folder := fmt.Sprintf("/proc/%d", pid)
	info, err := os.Stat(folder)
	if err != nil {
		return nil, err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Getuid() {
		return nil, nil
	}
	p := &process{pid: pid}
	if p.executable, err = os.Readlink(folder + "/exe"); err != nil {
		return nil, err
	}
	p.executable, p.deleted = strings.CutSuffix(p.executable, " (deleted)")
	if p.folder, err = os.Readlink(folder + "/cwd"); err != nil {
		return nil, err
	}
	line, err := os.ReadFile(folder + "/cmdline")
	if err != nil || len(line) == 0 {
		return nil, err
	}
	words := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	p.binary, p.arguments = p.program(words[0]), words[1:]
	p.retitled = p.binary == ""
	if p.binary == "" {
		p.binary, p.arguments = p.executable, nil
	}
	environment, err := os.ReadFile(folder + "/environ")
	if err != nil {
		return nil, err
	}
	for variable := range strings.SplitSeq(string(environment), "\x00") {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case name == "LEHR_JOB":
			p.task = value
		case name != "" && name != "PATH" && name != "HOME" && isName(name) && !slices.Contains(p.variables, name):
			p.variables = append(p.variables, name)
		}
	}
	slices.Sort(p.variables)
	if p.parent, err = parentOf(folder); err != nil {
		return nil, err
	}
	p.ports, err = portsOf(folder, listening)
	return p, err
}

// isName excludes what a program wrote over its environment.
func isName(text string) bool {
	return len(text) <= 200 && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// program is a path that leads to the executable, by the name that the process
// was started as where that does: some programs act by it. It is empty when the
// name is of no program at all.
func (p process) program(name string) string {
	path := strings.TrimPrefix(name, "-") // As login shells are called.
	switch {
	case filepath.IsAbs(path):
	case strings.Contains(path, "/"):
		path = filepath.Join(p.folder, path)
	default:
		if resolved, err := exec.LookPath(path); err == nil {
			path = resolved
		}
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.IsAbs(path) && same(real, p.executable) {
		return path
	}
	if strings.ContainsAny(name, " :") || name == "" {
		return ""
	}
	// A script's interpreter, or a name of its own choosing.
	return p.executable
}

func same(a, b string) bool {
	if a == b {
		return true
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

func parentOf(folder string) (int, error) {
	stat, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return 0, err
	}
	// The name, in brackets, may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return 0, fmt.Errorf("%s/stat has %d fields", folder, len(fields))
	}
	return strconv.Atoi(fields[1])
}

// listeners are the ports of this machine's listening TCP sockets, by inode.
func listeners() (map[string]int, error) {
	const listen = "0A"
	ports := map[string]int{}
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Without IPv6.
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || fields[3] != listen {
				continue
			}
			_, port, _ := strings.Cut(fields[1], ":")
			if number, err := strconv.ParseUint(port, 16, 16); err == nil {
				ports[fields[9]] = int(number)
			}
		}
		err = lines.Err()
		file.Close()
		if err != nil {
			return nil, err
		}
	}
	return ports, nil
}

func portsOf(folder string, listening map[string]int) (ports []int, err error) {
	entries, err := os.ReadDir(folder + "/fd")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		target, err := os.Readlink(folder + "/fd/" + entry.Name())
		if err != nil {
			continue // Closed meanwhile.
		}
		inode, ok := strings.CutPrefix(target, "socket:[")
		if port := listening[strings.TrimSuffix(inode, "]")]; ok && port != 0 && !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports, nil
}
