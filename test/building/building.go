// Package building builds programs for tests, each once for as long as its sources stay
// the same, whichever test asks: linking one takes seconds, and dozens of tests run the
// same few. Only tests import it.
package building

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// RaceVariable has the flags of go build that let programs tell of data races, as "make race"
// has it. Where it is empty they are as people have them, also when the test is under -race.
const RaceVariable = "LEHR_RACE"

// RaceFlags are what go build is given beside its other flags, with an environment beside the
// test's, so that the program tells of data races if it is to: a static program, and one
// for another system, cannot.
func RaceFlags(environment ...string) []string {
	possible := os.Getenv("CGO_ENABLED") != "0"
	for _, variable := range environment {
		switch name, value, _ := strings.Cut(variable, "="); name {
		case "CGO_ENABLED":
			possible = value != "0"
		case "GOOS", "GOARCH":
			return nil
		}
	}
	if !possible {
		return nil
	}
	return strings.Fields(os.Getenv(RaceVariable))
}

// Program of a module.
type Program struct {
	// Of is the folder of its package, from that of the test.
	Of string
	// Flags of go build, and Env beside the test's environment.
	Flags, Env []string
}

// At puts it at a path of the test's own. What was built is kept in bin, which make clean
// removes; that it is as the sources are, go build says each time.
func (p Program) At(path string) error {
	shelf, err := p.shelf()
	if err != nil {
		return p.build(path) // Nothing can be kept here.
	}
	lock, err := os.OpenFile(shelf+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if err := p.seed(shelf); err != nil {
		return err
	}
	if err := p.build(shelf); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// A copy, for what a test does to its own. Another process writes it: what this one has
	// open to write, a process that it starts meanwhile has open too, and nothing runs it then.
	// In large pieces, for a file system in memory takes huge pages then, from which a program starts sooner.
	if output, err := exec.Command("dd", "if="+shelf, "of="+path, "bs=8M", "status=none").CombinedOutput(); err != nil {
		return fmt.Errorf("copying %s: %w\n%s", p.Of, err, output)
	}
	return os.Chmod(path, 0o755)
}

// shelf is where it is kept, apart from the same of another folder or by other flags.
func (p Program) shelf() (string, error) {
	of, err := filepath.Abs(p.Of)
	if err != nil {
		return "", err
	}
	root, err := findRoot()
	if err != nil {
		return "", err
	}
	kept := filepath.Join(root, "bin/tests")
	told := fmt.Sprintf("%q", []any{of, p.flags(), p.Env})
	return filepath.Join(kept, fmt.Sprintf("%.8x", sha256.Sum256([]byte(told)))), os.MkdirAll(kept, 0o755)
}

// seed puts what "make build" made of the same folder where nothing is kept yet: where it was made
// by the same flags of the same sources, go build links nothing, and else it links anew.
func (p Program) seed(shelf string) error {
	if _, err := os.Stat(shelf); err == nil {
		return nil
	}
	folder, err := filepath.Abs(p.Of)
	if err != nil {
		return err
	}
	name := filepath.Base(folder)
	if name != "lehr" {
		name = "lehr-" + name
	}
	made := filepath.Join(filepath.Dir(filepath.Dir(shelf)), name)
	if _, err := os.Stat(made); err != nil {
		return nil // It is not built by make, or not yet.
	}
	if output, err := exec.Command("cp", "--", made, shelf).CombinedOutput(); err != nil {
		return fmt.Errorf("copying %s: %w\n%s", made, err, output)
	}
	return nil
}

// findRoot returns the root of the checkout: the folder above the test's whose go.mod is
// Lehr's own. A file's own path does not tell, for -trimpath removes it.
func findRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for folder := start; ; folder = filepath.Dir(folder) {
		text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if line, _, _ := strings.Cut(string(text), "\n"); err == nil && line == "module lehr.dev" {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("no folder above %s has the go.mod of lehr.dev", start)
		}
	}
}

// flags are its own, and those of the race detector.
func (p Program) flags() []string { return append(RaceFlags(p.Env...), p.Flags...) }

func (p Program) build(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	arguments := append([]string{"build", "-o", path}, p.flags()...)
	command := exec.Command("go", append(arguments, ".")...)
	command.Dir, command.Env = p.Of, os.Environ()
	if len(RaceFlags(p.Env...)) == 0 {
		command.Env = append(command.Env, "CGO_ENABLED=0") // As make builds it, also where the test has C.
	}
	command.Env = append(command.Env, p.Env...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", strings.TrimSpace(p.Of+" "+strings.Join(p.Flags, " ")), err, output)
	}
	return nil
}
