package render

import (
	"crypto/sha256"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate/work"
)

// Program is a renderer that is a program of its own; without a path it is not
// there.
type Program struct {
	Path   string
	Digest intent.Digest
}

// Programs finds them, and remembers the digests of files that have not changed.
// It is used by one goroutine.
type Programs struct{ cache map[string]cachedProgram }

type cachedProgram struct {
	file    identity
	program Program
}

// identity of a file's content, as far as can be told without reading it.
type identity struct {
	device, inode  uint64
	size, modified int64
}

// NewPrograms returns one that knows none.
func NewPrograms() *Programs { return &Programs{cache: map[string]cachedProgram{}} }

// Find returns the program of a format as it is now.
func (p *Programs) Find(format string) Program {
	path, err := LookUp(format)
	if err != nil {
		return Program{}
	}
	file, err := files.OpenGiven(path)
	if err != nil {
		return Program{}
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Program{}
	}
	now := identity{size: info.Size(), modified: info.ModTime().UnixNano()}
	if status, ok := info.Sys().(*syscall.Stat_t); ok {
		now.device, now.inode = status.Dev, status.Ino
	}
	if last := p.cache[path]; last.file == now {
		return last.program
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return Program{}
	}
	program := Program{Path: path, Digest: intent.Sum("lehr.renderer.v1", sum.Sum(nil))}
	p.cache[path] = cachedProgram{now, program}
	return program
}

// LookUp finds the program of a format: beside the lehr binary, then in PATH.
// NotFound: it is in neither.
func LookUp(format string) (string, error) {
	name, sibling := work.ProgramOf(format), "?"
	if lehr, err := os.Executable(); err == nil {
		sibling = filepath.Join(filepath.Dir(lehr), name)
		if path, err := exec.LookPath(sibling); err == nil {
			return path, nil
		}
	}
	kind := "renderer"
	if slices.Contains(work.CheckNames(), format) {
		kind = "check"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", fault.New(fault.NotFound, "the %s %s is a program, %s, which is neither at %s (beside lehr) nor in PATH=%s", kind, format, name, sibling, os.Getenv("PATH")).
			WithHint("make build makes it: put it in one of these; it is looked for every 15 s")
	}
	return path, nil
}
