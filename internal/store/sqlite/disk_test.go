package sqlite_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
)

// skip leaves a test out, loudly; in CI nothing may be left out.
func skip(t *testing.T, format string, arguments ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("CI must not skip this: "+format, arguments...)
	}
	t.Skipf("SKIPPED: "+format, arguments...)
}

// smallDisk mounts a file system of the size, which only root may.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "a small file system can be mounted by root only; run the tests as root")
	}
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		skip(t, "mounting a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, 0); err != nil {
			t.Errorf("unmounting %s: %v", folder, err)
		}
	})
	return folder
}

// TestFullDisk fills the store's disk: writes are refused with a clear word,
// reads go on, nothing acknowledged is lost, and once there is space writes
// work again in the same process.
func TestFullDisk(t *testing.T) {
	folder := smallDisk(t, 8<<20)
	ballast := filepath.Join(folder, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openFile(t, filepath.Join(folder, "lehr.db"))
	lease := storetest.Register(t, s)
	ctx := t.Context()
	value := bytes.Repeat([]byte("x"), 100_000)
	stored := 0
	var full error
	for ; full == nil && stored < 1000; stored++ {
		full = s.PutBlobs(ctx, lease, "filler", map[string][]byte{fmt.Sprint(stored): value})
	}
	stored--
	refused(t, full, fault.Unavailable, "full", "free space")
	for range 3 { // it stays refused, and stays usable for reading
		refused(t, s.PutBlobs(ctx, lease, "filler", map[string][]byte{"another": value}), fault.Unavailable, "free space")
		if _, err := s.Partition(ctx, "shop"); err != nil {
			t.Fatalf("reading from a full disk: %v", err)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := s.PutBlobs(ctx, lease, "filler", map[string][]byte{"after": value}); err != nil {
		t.Fatalf("after space was freed: %v", err)
	}
	storetest.Publish(t, s, lease, []store.Entry{storetest.Text("a", "x")})
	for i := range stored {
		read, err := s.GetBlob(ctx, "shop", "filler", fmt.Sprint(i))
		if err != nil || !bytes.Equal(read, value) {
			t.Errorf("blob %d was acknowledged and is lost: %v", i, err)
		}
	}
	if err := s.VerifyAudit(ctx, "shop"); err != nil {
		t.Error(err)
	}
}

func TestDiskFullFromTheStart(t *testing.T) {
	folder := smallDisk(t, 64<<10)
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(folder, "lehr.db")})
	refused(t, err, fault.Unavailable, "full")
}

func TestReadOnlyFileSystem(t *testing.T) {
	folder := smallDisk(t, 8<<20)
	path := filepath.Join(folder, "lehr.db")
	if err := opening(t, path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", folder, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		skip(t, "making a file system read-only: %v", err)
	}
	refused(t, opening(t, path), fault.Denied, "read-only", path)
	_, err := sqlite.OpenUnlocked(t.Context(), sqlite.Options{Path: path})
	refused(t, err, fault.Denied, "read-only")
}
