package resolver

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"lehr.dev/internal/ground/fault"
)

// maxSecret is how long a value may be, in bytes, and what is kept in such a file.
const maxSecret = 64 << 10

// readPrivate reads a file that holds a secret or a key: a regular one, that others of
// this machine cannot read.
func readPrivate(path string, open func(string) (*os.File, error)) ([]byte, error) {
	file, err := open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o007 != 0 {
		return nil, fault.New(fault.Denied, "every user of this machine may use %s (its mode is %v)", path, info.Mode().Perm()).
			WithHint("chmod o= %s; of a volume of Kubernetes: defaultMode: 0440", path)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err == nil && len(content) > maxSecret {
		clear(content)
		return nil, fault.New(fault.Invalid, "%s has more than %d bytes", path, maxSecret).WithHint("a secret is shorter")
	}
	return content, err
}

// inode tells a file from one that took its name.
func inode(info fs.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(stat.Dev, " ", stat.Ino, " ", stat.Ctim)
	}
	return ""
}
