package files_test

import (
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

func write(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func linked(t *testing.T, link func(from, to string) error, from, to string) string {
	t.Helper()
	if err := link(from, to); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestOwnFilesAreOpenedByNoName(t *testing.T) {
	home := t.TempDir()
	store := write(t, filepath.Join(home, "data", "lehr.db"))
	token := write(t, store+".server.json")
	write(t, store+".sources/other/mirror")
	key := write(t, filepath.Join(home, "tls", "key.pem"))
	free := write(t, filepath.Join(home, "lehr.dbx"))
	defer files.Guard([]string{store}, []string{key})()
	names := []string{
		store, token, key, store + ".sources/other/mirror", home + "/data/../data//lehr.db",
		linked(t, os.Symlink, token, filepath.Join(home, "link")),
		linked(t, os.Link, token, filepath.Join(home, "hard.json")),
		linked(t, os.Link, key, filepath.Join(home, "hard.pem")),
		linked(t, os.Link, store, filepath.Join(home, "hard.db")),
		linked(t, os.Link, write(t, store+"-wal"), filepath.Join(home, "hard.wal")),
		linked(t, os.Link, store+".sources/other/mirror", filepath.Join(home, "hard.mirror")),
		linked(t, os.Symlink, filepath.Join(home, "data"), filepath.Join(home, "folder")) + "/lehr.db.server.json",
		"/proc/self/root" + token,
	}
	root, err := files.OpenFolder(home, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range names {
		if file, err := files.Open(name); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v, %v, want it denied", name, file, err)
		}
	}
	for _, name := range []string{"data/lehr.db", "data/lehr.db.server.json", "hard.json", "hard.pem", "hard.db", "hard.wal", "hard.mirror"} {
		if file, err := root.OpenIn(name, name); !fault.Is(err, fault.Denied) {
			t.Errorf("%s in the folder: %v, %v, want it denied", name, file, err)
		}
	}
	if _, err := files.OpenFolder(store+".sources/other", nil); !fault.Is(err, fault.Denied) {
		t.Errorf("a folder beside the store: %v", err)
	}
	file, err := files.Open(free)
	if err != nil {
		t.Fatal("another file:", err)
	}
	file.Close()
	// Whoever runs the server may name a key.
	if _, err := files.Read(key, files.MostGiven); err != nil {
		t.Error(err)
	}
}

// TestTheAddressOfADatabaseNamesRegularFiles, for its library would wait for a pipe.
func TestTheAddressOfADatabaseNamesRegularFiles(t *testing.T) {
	home := t.TempDir()
	pipe := filepath.Join(home, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	certificate := write(t, filepath.Join(home, "ca.pem"))
	for parameter, want := range map[string]bool{
		"sslrootcert=" + pipe: false, "sslcert=" + pipe: false, "sslkey=" + pipe: false, "passfile=" + pipe: false, "sslrootcert=/dev/zero": false,
		"sslrootcert=" + home: false, "sslrootcert=" + certificate: true, "sslrootcert=system": true, "sslmode=disable": true,
	} {
		address, err := url.Parse("postgres://ann@db/shop?" + parameter)
		if err != nil {
			t.Fatal(err)
		}
		if err := files.CheckDatabase(address); (err == nil) != want || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", parameter, err)
		}
	}
	if _, err := files.ReadForeign(pipe, 10); !fault.Is(err, fault.Invalid) {
		t.Errorf("a pipe is read: %v", err)
	}
}

func TestFilesAreFreeWhenTheirUserEnded(t *testing.T) {
	store := write(t, filepath.Join(t.TempDir(), "lehr.db"))
	first, second := files.Guard([]string{store}, nil), files.Guard([]string{store}, nil)
	first()
	first()
	if _, err := files.Open(store); !fault.Is(err, fault.Denied) {
		t.Error("it is open though one still has it:", err)
	}
	second()
	file, err := files.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
}

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	home := t.TempDir()
	pipe := filepath.Join(home, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := files.OpenFolder(home, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	linked(t, os.Symlink, "pipe", filepath.Join(home, "link"))
	for name, open := range map[string]func() (*os.File, error){
		"a pipe":            func() (*os.File, error) { return files.Open(pipe) },
		"a pipe of theirs":  func() (*os.File, error) { return files.OpenGiven(pipe) },
		"a pipe below":      func() (*os.File, error) { return root.OpenIn("pipe", pipe) },
		"a link to a pipe":  func() (*os.File, error) { return root.OpenIn("link", pipe) },
		"a device":          func() (*os.File, error) { return files.OpenGiven("/dev/zero") },
		"a folder":          func() (*os.File, error) { return files.OpenGiven(home) },
		"a folder by links": func() (*os.File, error) { return files.Open("/proc/self/cwd") },
	} {
		if file, err := open(); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, %v, want Invalid", name, file, err)
		}
	}
}

func TestFoldersStayWithinThoseListed(t *testing.T) {
	home := t.TempDir()
	write(t, filepath.Join(home, "shop", "a", "x"))
	write(t, filepath.Join(home, "other", "x"))
	write(t, filepath.Join(home, "shop-2", "x"))
	out := linked(t, os.Symlink, "../other", filepath.Join(home, "shop", "out"))
	within := []string{filepath.Join(home, "shop")}
	for _, name := range []string{out, filepath.Join(home, "other"), filepath.Join(home, "shop-2"), home, home + "/shop/../other"} {
		if _, err := files.OpenFolder(name, within); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v, want it denied", name, err)
		}
	}
	for _, name := range []string{filepath.Join(home, "shop"), filepath.Join(home, "shop", "a")} {
		folder, err := files.OpenFolder(name, within)
		if err != nil {
			t.Fatal(err)
		}
		folder.Close()
	}
	if folder, err := files.OpenFolder(out, append(within, filepath.Join(home, "other"))); err != nil {
		t.Error(err)
	} else {
		folder.Close()
	}
}

func TestFoldersThatHoldOwnFilesAreTold(t *testing.T) {
	home := t.TempDir()
	store := write(t, filepath.Join(home, "data", "deep", "lehr.db"))
	write(t, filepath.Join(home, "other", "x"))
	link := linked(t, os.Symlink, filepath.Join(home, "data"), filepath.Join(home, "other", "link"))
	defer files.Guard([]string{store}, nil)()
	for _, folder := range []string{"/", home, filepath.Join(home, "data"), link, "/proc/self/root" + home} {
		if err := files.Holds(folder); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", folder, err)
		}
	}
	if err := files.Holds(filepath.Join(home, "other")); err != nil {
		t.Error(err)
	}
}
