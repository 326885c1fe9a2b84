// Package gitrepo makes git repositories for tests, as people do.
package gitrepo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Author of all commits.
const Author = "Ann Author <ann@example.com>"

// Repository is a person's, with a work tree. Its branch is main.
type Repository struct {
	testing.TB
	Folder string
}

// New makes an empty one, for as long as the test.
func New(t testing.TB) *Repository {
	t.Helper()
	r := &Repository{t, filepath.Join(t.TempDir(), "origin")}
	r.Git("init", "--quiet", "--initial-branch=main", r.Folder)
	return r
}

// Git runs git there, and returns what it says.
func (r *Repository) Git(arguments ...string) string {
	r.Helper()
	command := exec.Command("git", arguments...)
	if _, err := os.Stat(r.Folder); err == nil {
		command.Dir = r.Folder
	}
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ann Author", "GIT_AUTHOR_EMAIL=ann@example.com",
		"GIT_COMMITTER_NAME=Ann Author", "GIT_COMMITTER_EMAIL=ann@example.com", "GIT_COMMITTER_DATE=2026-03-01T12:00:00Z", "GIT_AUTHOR_DATE=2026-03-01T12:00:00Z")
	output, err := command.CombinedOutput()
	if err != nil {
		r.Fatalf("git %v: %v: %s", arguments, err, output)
	}
	return strings.TrimSpace(string(output))
}

// Write a file, which the next commit has.
func (r *Repository) Write(name, content string) {
	r.Helper()
	full := filepath.Join(r.Folder, name)
	err := os.MkdirAll(filepath.Dir(full), 0o755)
	if err == nil {
		err = os.WriteFile(full, []byte(content), 0o644)
	}
	if err != nil {
		r.Fatal(err)
	}
}

// Commit all, and return the commit.
func (r *Repository) Commit(subject string) string {
	r.Helper()
	r.Git("add", "--all")
	r.Git("commit", "--quiet", "--allow-empty", "-m", subject)
	return r.Git("rev-parse", "HEAD")
}
