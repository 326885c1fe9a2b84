package client_test

import (
	"os"
	"path/filepath"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

func TestCredentialsAreTheUsersAlone(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "lehr")
	kept := client.NewCredentials(folder)
	if _, err := kept.Get("https://a"); !fault.Is(err, fault.NotFound) {
		t.Fatalf("before: %v", err)
	}
	a, b := client.Credential{Token: "1", Secret: "s", Name: "ann"}, client.Credential{Token: "2", Secret: "t", Name: "ann"}
	for server, credential := range map[string]client.Credential{"https://a": a, "https://b": b} {
		if err := kept.Set(server, credential); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]os.FileMode{folder: 0o700, kept.Path(): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s is %v, %v", path, info.Mode(), err)
		}
	}
	if err := kept.Remove("https://b"); err != nil {
		t.Fatal(err)
	}
	if found, err := kept.Get("https://a"); err != nil || found != a {
		t.Errorf("kept %+v, %v", found, err)
	}
	if _, err := kept.Get("https://b"); !fault.Is(err, fault.NotFound) {
		t.Errorf("removed: %v", err)
	}
	if err := os.Chmod(kept.Path(), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Get("https://a"); !fault.Is(err, fault.Denied) {
		t.Errorf("that others can read: %v", err)
	}
	if err := kept.Set("https://c", a); !fault.Is(err, fault.Denied) {
		t.Errorf("into a file that others can read: %v", err)
	}
}

func TestParseServer(t *testing.T) {
	for text, want := range map[string]string{
		"https://Lehr.example.com/": "https://lehr.example.com", "https://lehr.example.com:443": "https://lehr.example.com",
		"https://lehr.example.com:7474": "https://lehr.example.com:7474", "http://127.0.0.1:7474": "http://127.0.0.1:7474", "http://[::1]:1": "http://[::1]:1",
		"http://localhost:1": "http://localhost:1",
	} {
		if got, err := client.ParseServer(text); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "lehr.example.com", "http://lehr.example.com", "http://10.0.0.1:7474", "http://localhost.example.com", "ftp://a", "https://u:p@a", "https://a?b"} {
		if got, err := client.ParseServer(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q is taken for %q: %v", text, got, err)
		}
	}
}

// There are more roots, and never none.
func TestRoots(t *testing.T) {
	if roots, err := client.Roots(""); roots != nil || err != nil {
		t.Errorf("no file: %v, %v", roots, err)
	}
	if _, err := client.Roots(filepath.Join(t.TempDir(), "gone")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a file that is gone: %v", err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Roots(empty); !fault.Is(err, fault.Invalid) {
		t.Errorf("a file without certificates: %v", err)
	}
}
