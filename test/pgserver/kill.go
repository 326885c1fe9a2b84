package pgserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Kill ends every process of the server at once, as a power cut would, if it
// runs.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	pid := s.process.Process.Pid
	// Stopped, it starts no more of them.
	_ = s.process.Process.Signal(syscall.SIGSTOP)
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for text := range strings.FieldsSeq(string(children)) {
			if child, err := strconv.Atoi(text); err == nil {
				_ = syscall.Kill(child, syscall.SIGKILL)
			}
		}
	}
	_ = s.process.Process.Kill()
	<-s.ended
	s.process = nil
}
