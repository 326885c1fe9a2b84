package pgserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Signal sends one to every process of the server.
func (s *Server) Signal(signal syscall.Signal) {
	pid := s.process.Process.Pid
	_ = s.process.Process.Signal(signal)
	for _, child := range children(pid) {
		_ = syscall.Kill(child, signal)
	}
}

// Kill ends every process of the server at once, as a power cut would, if it
// runs.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	pid := s.process.Process.Pid
	// Stopped, it starts no more of them.
	_ = s.process.Process.Signal(syscall.SIGSTOP)
	for _, child := range children(pid) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	_ = s.process.Process.Kill()
	<-s.ended
	s.process = nil
}

// children of a process.
func children(pid int) (list []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}
