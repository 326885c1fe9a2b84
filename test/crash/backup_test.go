package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
	"lehr.dev/test/crash/disk"
)

// keeping is a backup of a store, or a restore of one, in a process of its own.
type keeping struct {
	Restore       bool
	Store, Backup string
}

// keep does it. Everything happens on one thread, as far as that is possible:
// strace counts the calls of each by itself.
func keep(argument string) error {
	runtime.LockOSThread()
	var k keeping
	if err := json.Unmarshal([]byte(argument), &k); err != nil {
		return err
	}
	return k.do(context.Background())
}

func (k keeping) do(ctx context.Context) (err error) {
	if k.Restore {
		_, _, err = sqlite.Restore(ctx, k.Backup, k.Store, now)
	} else {
		_, err = sqlite.Backup(ctx, k.Store, k.Backup)
	}
	return err
}

var callOfAny = regexp.MustCompile(`^\d+ +(\w+)\(`)

// changing are the calls of the system that change files.
const changing = "write,pwrite64,ftruncate,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat"

// interrupted does it while strace does something to each thread's k-th of those
// calls. What it said is empty when it succeeded; made are all that were made.
func (k keeping) interrupted(t *testing.T, injection, calls string, call int) (said string, made map[string]int) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argument, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	command := exec.CommandContext(t.Context(), "strace", "-f", "-o", trace, "-e", "trace="+changing,
		"-e", fmt.Sprintf("inject=%s:"+injection, calls, call), executable)
	command.Env = append(os.Environ(), kept+"="+string(argument))
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err = command.Run()
	made = map[string]int{}
	if text, _ := os.ReadFile(trace); len(text) == 0 {
		if os.Getenv("CI") == "" && (exec.Command("strace", "-V").Run() != nil || bytes.Contains(output.Bytes(), []byte("Operation not permitted"))) {
			t.Skipf("SKIPPED: strace is not to be had: %v\n%s", err, &output)
		}
		t.Fatalf("%v\n%s", err, &output)
	} else {
		for line := range strings.Lines(string(text)) {
			if found := callOfAny.FindStringSubmatch(line); found != nil {
				made[found[1]]++
			}
		}
	}
	if err == nil {
		return "", made
	}
	return fmt.Sprintf("%v: %s", err, &output), made
}

// lost are what tells a store from a backup of it, which is older.
var lost = []string{"incarnation", "member", "body", "hold", "label"}

// rows are the tables that tell, past the store.
func rows(ctx context.Context, path string) (contents, error) {
	db, err := sqlite.Connect(path)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	all, err := dump(ctx, db)
	maps.DeleteFunc(all, func(table, _ string) bool { return !slices.Contains(lost, table) })
	return all, err
}

// stores are what backups and restores start from.
type stores struct {
	// old is a store, killed one of which the server was killed, and backup one
	// of it as it was before.
	old, killed, backup disk.Image
	before, after       contents
}

func makeStores(t *testing.T) (s stores) {
	t.Helper()
	ctx, folder := t.Context(), scratch(t)
	path := filepath.Join(folder, "lehr.db")
	read := func() disk.Image {
		image, err := disk.Read(folder, "lehr.db")
		if err != nil {
			t.Fatal(err)
		}
		return image
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(operation{run: published}.whole(ctx, folder, nil, nil))
	backup := filepath.Join(scratch(t), "monday.db")
	_, err := sqlite.Backup(ctx, path, backup)
	must(err)
	s.backup, err = disk.Read(filepath.Dir(backup), "monday.db")
	must(err)
	s.before, err = rows(ctx, backup)
	must(err)
	must(operation{run: func(ctx context.Context, w *world) error {
		err := errors.Join(publish(ctx, w), brakes(ctx, w))
		s.killed = read()
		return err
	}}.whole(ctx, folder, nil, nil))
	s.old = read()
	s.after, err = rows(ctx, path)
	must(err)
	return s
}

// TestInterruptedBackups: whatever a backup is interrupted at, by a kill, by an
// error of the disk or by a full one, what has its name is whole, what was
// there is as it was, and so is the store.
func TestInterruptedBackups(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	// Not beside other tests: a process that one of them is just starting has
	// the locks of this one's stores until it runs its own program.
	s := makeStores(t)
	for name, injection := range map[string]string{"killed": "signal=SIGKILL:when=%d", "an error": "error=EIO:when=%d", "a full disk": "error=ENOSPC:when=%d+"} {
		t.Run(name, func(t *testing.T) {
			interrupt(t, injection, func(run func(keeping) string) {
				folder := scratch(t)
				defer os.RemoveAll(folder)
				if err := errors.Join(s.killed.Write(folder), s.backup.Write(folder)); err != nil {
					t.Fatal(err)
				}
				k := keeping{Store: filepath.Join(folder, "lehr.db"), Backup: filepath.Join(folder, "tuesday.db")}
				said := run(k)
				err := s.judgeBackup(t.Context(), k, said)
				if err != nil {
					t.Errorf("%s: %v", said, err)
				}
			})
		})
	}
}

// interrupt calls try with what interrupts one call after the other: every one
// that gives a file another name, and many of those that write.
func interrupt(t *testing.T, injection string, try func(run func(keeping) string)) {
	t.Helper()
	const never = 65535
	var all map[string]int
	try(func(k keeping) (said string) {
		said, all = k.interrupted(t, injection, changing, never)
		return said
	})
	count := 0
	for name, calls := range all {
		for call := 1; call <= calls && !t.Failed(); call += 1 + calls*40 / *points {
			try(func(k keeping) (said string) {
				said, _ = k.interrupted(t, injection, name, call)
				return said
			})
			count++
		}
	}
	t.Logf("%d interruptions of %v", count, all)
	if count < 20 {
		t.Error("that is too few")
	}
}

// judgeBackup looks at what an interrupted backup left.
func (s stores) judgeBackup(ctx context.Context, k keeping, said string) error {
	folder := filepath.Dir(k.Store)
	if left, err := os.ReadFile(filepath.Join(folder, "monday.db")); err != nil || !bytes.Equal(left, s.backup["monday.db"]) {
		return fmt.Errorf("the backup of before was changed: %v", err)
	}
	_, err := os.Stat(k.Backup)
	if there := err == nil; !there && said == "" {
		return errors.New("it succeeded, and there is none")
	}
	// What has its name is whole, and what has not is whole or refused.
	all, err := filepath.Glob(k.Backup + "*")
	if err != nil {
		return err
	}
	for _, file := range all {
		if err := s.judgeCopy(ctx, file, file == k.Backup); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	w, err := serve(ctx, folder, nil)
	if err != nil {
		return fmt.Errorf("the store that was backed up: %w", err)
	}
	defer w.close()
	h, err := w.store.History(ctx)
	if err != nil || h.Stop != nil {
		return fmt.Errorf("the store that was backed up is suspect: %+v %w", h.Stop, errors.Join(err))
	}
	if err := errors.Join(w.sound(ctx), w.as(ctx, s.after)); err != nil {
		return err
	}
	again := keeping{Store: k.Store, Backup: k.Backup + ".again"}
	if err := again.do(ctx); err != nil {
		return fmt.Errorf("another backup: %w", err)
	}
	return nil
}

// judgeCopy restores a backup elsewhere.
func (s stores) judgeCopy(ctx context.Context, file string, mustBeWhole bool) error {
	folder, err := os.MkdirTemp(filepath.Dir(file), "elsewhere-")
	if err != nil {
		return err
	}
	restore := keeping{Restore: true, Store: filepath.Join(folder, "lehr.db"), Backup: file}
	if err := restore.do(ctx); err != nil {
		if !mustBeWhole && (fault.Is(err, fault.Invalid) || fault.Is(err, fault.Internal)) {
			return nil
		}
		return fmt.Errorf("it cannot be restored: %w", err)
	}
	found, err := rows(ctx, restore.Store)
	if err != nil {
		return err
	}
	if differ := found.difference(s.after); len(differ) > 0 {
		return fmt.Errorf("it is restored, and the tables %v differ from the store's", differ)
	}
	return nil
}

// as: the tables that tell are so.
func (w *world) as(ctx context.Context, want contents) error {
	found, err := rows(ctx, w.path)
	if err != nil {
		return err
	}
	if differ := found.difference(want); len(differ) > 0 {
		return fmt.Errorf("the tables %v differ", differ)
	}
	return nil
}

// TestInterruptedRestores: whatever a restore is interrupted at, the next server
// has the store that was there, as it was, or the one that was restored, which
// pushes nothing before it is adopted (S15); and the restore can be done again.
func TestInterruptedRestores(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	// Not beside other tests: a process that one of them is just starting has
	// the locks of this one's stores until it runs its own program.
	s := makeStores(t)
	damaged := maps.Clone(s.killed)
	damaged["lehr.db"] = slices.Clone(damaged["lehr.db"])
	for i := 2000; i < len(damaged["lehr.db"]); i += 4096 {
		damaged["lehr.db"][i] ^= 1
	}
	beheaded := maps.Clone(s.killed)
	delete(beheaded, "lehr.db")
	for name, c := range map[string]struct {
		start     disk.Image
		injection string
	}{
		"killed":                               {s.old, "signal=SIGKILL:when=%d"},
		"killed, like the server before":       {s.killed, "signal=SIGKILL:when=%d"},
		"an error, and a killed server before": {s.killed, "error=EIO:when=%d"},
		"a full disk":                          {s.old, "error=ENOSPC:when=%d+"},
		"killed, over a damaged store":         {damaged, "signal=SIGKILL:when=%d"},
		"killed, where only a log is left":     {beheaded, "signal=SIGKILL:when=%d"},
	} {
		t.Run(name, func(t *testing.T) {
			restored := 0
			interrupt(t, c.injection, func(run func(keeping) string) {
				folder := scratch(t)
				defer os.RemoveAll(folder)
				if err := errors.Join(c.start.Write(folder), s.backup.Write(folder)); err != nil {
					t.Fatal(err)
				}
				k := keeping{Restore: true, Store: filepath.Join(folder, "lehr.db"), Backup: filepath.Join(folder, "monday.db")}
				said := run(k)
				whole := c.start["lehr.db"] != nil && !bytes.Equal(c.start["lehr.db"], damaged["lehr.db"])
				is, err := s.judgeRestore(t.Context(), k, whole)
				if err == nil && said == "" && !is {
					err = errors.New("it succeeded, and the store is the old one")
				}
				if err != nil {
					t.Errorf("%s: %v", said, err)
				}
				if is {
					restored++
				}
			})
			if restored == 0 {
				t.Error("it was never restored")
			}
		})
	}
}

// judgeRestore looks at what an interrupted restore left, and restores again.
// whole: the old store can be read.
func (s stores) judgeRestore(ctx context.Context, k keeping, whole bool) (restored bool, err error) {
	folder := filepath.Dir(k.Store)
	_, missing := os.Stat(k.Store)
	if missing != nil && whole {
		return false, errors.New("no store is left")
	}
	if missing == nil {
		if restored, err = s.judgeStore(ctx, folder, whole); err != nil {
			return restored, err
		}
	}
	if all, err := filepath.Glob(k.Store + ".before-*"); err != nil || restored && whole && len(all) == 0 {
		return restored, fmt.Errorf("the store that was there is gone: %w", errors.Join(err))
	}
	again := k
	again.Restore = true
	if _, _, err := sqlite.Restore(ctx, again.Backup, again.Store, now.AddDate(0, 0, 1)); err != nil {
		return restored, fmt.Errorf("doing it again: %w", err)
	}
	is, err := s.judgeStore(ctx, folder, whole)
	if err == nil && !is {
		err = errors.New("it was done again, and the store is the old one")
	}
	if err != nil {
		return restored, fmt.Errorf("after doing it again: %w", err)
	}
	w, err := serve(ctx, folder, nil)
	if err != nil {
		return restored, err
	}
	defer w.close()
	if _, err := w.store.Adopt(ctx, store.Adoption{Reason: "test", By: storetest.Tester, At: now}); err != nil {
		return restored, fmt.Errorf("adopting it: %w", err)
	}
	if err := errors.Join(w.begin(ctx), publish(ctx, w), w.sound(ctx)); err != nil {
		return restored, fmt.Errorf("going on: %w", err)
	}
	return restored, nil
}

// judgeStore serves what is there.
func (s stores) judgeStore(ctx context.Context, folder string, whole bool) (restored bool, err error) {
	w, err := serve(ctx, folder, nil)
	if err != nil {
		if !whole && fault.Is(err, fault.Internal) && strings.Contains(err.Error(), "lehr restore") {
			return false, nil
		}
		return false, fmt.Errorf("serving it: %w", err)
	}
	defer w.close()
	h, err := w.store.History(ctx)
	if err != nil {
		return false, err
	}
	if h.Stop == nil {
		return false, w.as(ctx, s.after)
	}
	if err := errors.Join(w.as(ctx, s.before), w.sound(ctx)); err != nil {
		return true, fmt.Errorf("it is stopped (%s): %w", h.Stop.Reason, err)
	}
	if err := w.store.Resume(ctx, "", "test", intent.Actor{Name: "person", Origin: "cli"}); err == nil {
		return true, errors.New("a person's resume ended the stop of a restored store")
	}
	return true, nil
}
