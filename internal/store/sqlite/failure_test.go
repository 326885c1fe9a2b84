package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"lehr.dev/internal/ground/fault"
)

// TestErrorsOfTheDiskSaySo: also where the system tells them, and not SQLite.
func TestErrorsOfTheDiskSaySo(t *testing.T) {
	for cause, word := range map[error]string{syscall.EIO: "check the disk", syscall.ENOSPC: "free space", syscall.EDQUOT: "free space"} {
		told := &fs.PathError{Op: "write", Path: "lehr.db-wal", Err: cause}
		for _, err := range []error{failure("opening the store", fmt.Errorf("wrapped: %w", told)), openFailure("opening the store", told)} {
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), word) || !errors.Is(err, cause) {
				t.Errorf("%v is told as %q: %v", cause, fault.KindOf(err), err)
			}
		}
	}
}
