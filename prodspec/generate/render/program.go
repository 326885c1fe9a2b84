package render

import (
	"crypto/sha256"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"lehr.dev/fault"
	"lehr.dev/files"
	"lehr.dev/intent"
	"lehr.dev/prodspec/generate/work"
)

// Program is a renderer that is a program of its own; without a path it is not
// there.
type Program struct {
	Path   string
	Digest intent.Digest
}

// Programs finds them, and remembers the digests of files that have not changed.
// It is used by one goroutine.
type Programs struct{ known map[string]known }

type known struct {
	file    identity
	program Program
}

// identity of a file's content, as far as can be told without reading it.
type identity struct {
	device, inode  uint64
	size, modified int64
}

// NewPrograms returns one that knows none.
func NewPrograms() *Programs { return &Programs{known: map[string]known{}} }

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
	if status, is := info.Sys().(*syscall.Stat_t); is {
		now.device, now.inode = status.Dev, status.Ino
	}
	if last := p.known[path]; last.file == now {
		return last.program
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return Program{}
	}
	found := Program{Path: path, Digest: intent.Sum("lehr.renderer.v1", sum.Sum(nil))}
	p.known[path] = known{now, found}
	return found
}

// LookUp finds the program of a format: beside the lehr binary, then in PATH.
// NotFound: it is in neither.
func LookUp(format string) (string, error) {
	name, beside := work.ProgramOf(format), "?"
	if lehr, err := os.Executable(); err == nil {
		beside = filepath.Join(filepath.Dir(lehr), name)
		if path, err := exec.LookPath(beside); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", fault.New(fault.NotFound, "the renderer %s is a program, %s, which is neither at %s (beside lehr) nor in PATH=%s", format, name, beside, os.Getenv("PATH")).
			WithHint("make build makes it: put it in one of these; it is looked for every 15 s")
	}
	return path, nil
}
