package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lehr.dev/test/pgserver"
)

// instructions are the commands of the blocks under a heading of
// docs/operating.md, as they stand there.
func instructions(t *testing.T, heading string) (blocks [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("docs/operating.md has no %q", heading)
	}
	if end := regexp.MustCompile(`(?m)^##+ `).FindStringIndex(section); end != nil {
		section = section[:end[0]]
	}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, strings.Split(strings.TrimSpace(block[1]), "\n"))
	}
	return blocks
}

// TestDatabaseIsRestoredAsDocumented does what docs/operating.md says, command
// by command, with PostgreSQL's own tools and a real server: what is restored
// pushes nothing until it is adopted (S15).
func TestDatabaseIsRestoredAsDocumented(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	server.Execute(server.URL("postgres"), "CREATE ROLE lehr LOGIN CREATEDB")
	server.Execute(server.URL("postgres"), "CREATE DATABASE lehr OWNER lehr")
	blocks := instructions(t, "#### A database")
	if len(blocks) != 2 {
		t.Fatalf("it has %d blocks of commands: %q", len(blocks), blocks)
	}
	w := newWorld(t, partition{name: "dumped"})
	person := &shell{world: w, folder: t.TempDir(), bin: server.Programs(),
		here: strings.NewReplacer("lehr@db.example", "lehr@"+server.Address(), "lehr serve", ":")}

	w.want(values{"a": 1})
	w.serve("--database", "postgres://lehr@"+server.Address()+"/lehr")
	w.converges(values{"a": 1})
	person.does(blocks[0])
	w.want(values{"a": 2, "b": 1})
	w.converges(values{"a": 2, "b": 1})
	_, shown, _ := w.epochs()
	w.kill()
	w.want(values{"a": 3, "b": 1})

	before, after := blocks[1], []string(nil)
	for n, line := range blocks[1] {
		if strings.HasPrefix(line, "lehr serve") {
			before, after = blocks[1][:n], blocks[1][n+1:]
		}
	}
	if after == nil {
		t.Fatal("it does not say when to serve")
	}
	if told := person.does(before); !strings.Contains(told, "Verified") {
		t.Errorf("lehr store verify: %s", told)
	}
	w.serve("--database", "postgres://lehr@"+server.Address()+"/lehr_monday")
	w.waitsForAdoption(values{"a": 2, "b": 1}, `lost the last \d+ commits|another than was served|another than before`)
	if told := person.does(after); !strings.Contains(told, "Adopted as generation 2") {
		t.Errorf("lehr store adopt: %s", told)
	}
	w.converges(values{"a": 3, "b": 1})
	if _, high, _ := w.epochs(); high <= shown {
		t.Errorf("pushed under epoch %d; up to %d were shown before", high, shown)
	}
}

// shell is where a person types.
type shell struct {
	*world
	folder, bin string
	// here has the names that are in the instructions, and those of this test.
	here *strings.Replacer
	// typed is what was exported.
	typed []string
}

// does types the commands, one after the other, and stops at the first that
// fails. What they print is returned.
func (s *shell) does(commands []string) string {
	s.Helper()
	script := strings.Join(append(append([]string{"set -e"}, s.typed...), commands...), "\n")
	for _, line := range commands {
		if strings.HasPrefix(line, "export ") {
			s.typed = append(s.typed, line)
		}
	}
	command := exec.CommandContext(s.Context(), "bash", "-c", s.here.Replace(script))
	command.Dir = s.folder
	command.Env = append(os.Environ(), "PATH="+s.programs+":"+s.bin+":"+os.Getenv("PATH"), "LEHR_STORE="+s.store)
	told, err := command.CombinedOutput()
	if err != nil {
		s.Fatalf("%s\n%v\n%s", script, err, told)
	}
	return string(told)
}
