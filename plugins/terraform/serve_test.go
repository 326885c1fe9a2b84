package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lehr.dev/test/building"
)

// TestABucketReachesAService runs the example bucket-and-service on real processes: the output
// of a module that Terraform applied becomes intent of a service, and so does each later one.
func TestABucketReachesAService(t *testing.T) {
	if testing.Short() {
		t.Skip("runs Terraform")
	}
	t.Parallel()
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		t.Skip("there is no terraform in PATH: install one from https://developer.hashicorp.com/terraform/install")
	}
	folder := t.TempDir()
	lehr := filepath.Join(folder, "lehr")
	err = errors.Join(
		os.CopyFS(folder, os.DirFS("../../examples/bucket-and-service")),
		(building.Program{Of: "../../cmd/lehr"}).At(lehr), (building.Program{Of: "../command"}).At(filepath.Join(folder, "lehr-command")),
		(building.Program{Of: ".", Flags: []string{"-ldflags", "-s -w"}}).At(filepath.Join(folder, "lehr-terraform")),
	)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(name string, pairs ...string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	version, err := exec.Command(terraform, "version", "-json").Output()
	var told struct {
		Version string `json:"terraform_version"`
	}
	if err != nil || json.Unmarshal(version, &told) != nil {
		t.Fatalf("%v: %s", err, version)
	}
	edit("engines.yaml", "/usr/local/bin/terraform", terraform, "1.11.4", told.Version)
	edit("lehr.yaml", "/tmp/lehr-bucket-and-service", folder)
	edit("service.yaml", "/tmp/lehr-bucket-and-service", folder)
	startServer(t, folder, lehr, filepath.Join(folder, "lehr.yaml"))
	settings := filepath.Join(folder, "service.env")
	holds(t, settings, "BUCKET=https://logo-dev.buckets.example\n")
	edit("lehr.yaml", "env=dev", "env=prod")
	holds(t, settings, "BUCKET=https://logo-prod.buckets.example\n")
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(path)
		if string(text) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has %q (%v), not %q", path, text, err, want)
		}
	}
}

// startServer runs lehr serve until the test ends.
func startServer(t *testing.T, folder, lehr, definition string) {
	t.Helper()
	log := &bytes.Buffer{}
	command := exec.Command(lehr, "serve", "--store", filepath.Join(folder, "store"), "-p", definition, "--listen", "127.0.0.1:0", "--sweep", "2s")
	command.Dir, command.Env = folder, append(os.Environ(), "HOME="+folder)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("lehr serve said\n%s", log)
		}
	})
}
