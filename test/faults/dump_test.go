package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lehr.dev/test/pgserver"
)

// instructions are the commands of the blocks under a heading of
// docs/operate/operating.md, as they stand there.
func instructions(t *testing.T, heading string) (blocks [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operate/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("docs/operate/operating.md has no %q", heading)
	}
	if end := regexp.MustCompile(`(?m)^##+ `).FindStringIndex(section); end != nil {
		section = section[:end[0]]
	}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, strings.Split(strings.TrimSpace(block[1]), "\n"))
	}
	return blocks
}

// TestDatabaseIsRestoredAsDocumented does what docs/operate/operating.md says, command
// by command, with PostgreSQL's own tools and a real server: what is restored
// pushes nothing until it is adopted (S15).
func TestDatabaseIsRestoredAsDocumented(t *testing.T) {
	t.Parallel()
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
		here: strings.NewReplacer("lehr@db.example", "lehr@"+server.Address())}

	w.want(values{"a": 1})
	w.serve("--database", "postgres://lehr@"+server.Address()+"/lehr")
	w.converges(values{"a": 1})
	person.does(blocks[0])
	w.want(values{"a": 2, "b": 1})
	w.converges(values{"a": 2, "b": 1})
	_, shown, _ := w.epochs()
	w.kill()
	w.want(values{"a": 3, "b": 1})

	before, after := untilServed(t, blocks[1])
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

// untilServed are the commands before "lehr serve", and those after it.
func untilServed(t *testing.T, commands []string) (before, after []string) {
	t.Helper()
	n := slices.IndexFunc(commands, func(line string) bool { return strings.HasPrefix(line, "lehr serve") })
	if n < 0 {
		t.Fatal("it does not say when to serve")
	}
	return commands[:n], commands[n+1:]
}

// TestDatabaseIsRecoveredAsDocumented takes a cluster back to a moment, as
// docs/operate/operating.md says, by PostgreSQL's own archive of its log.
func TestDatabaseIsRecoveredAsDocumented(t *testing.T) {
	t.Parallel()
	server := pgserver.New(t)
	recovered := server.Beside()
	backup := filepath.Join(server.Folder(), "backup")
	here := func(at *pgserver.Server, moment string) *strings.Replacer {
		return strings.NewReplacer("lehr@db.example", "lehr@"+at.Address(), "/backup/", backup+"/", "/srv/recovered", recovered.Data(), "2026-03-02 09:30:00+00", moment)
	}
	blocks := instructions(t, "#### A database, as it was at a moment")
	if len(blocks) != 2 {
		t.Fatalf("it has %d blocks of commands: %q", len(blocks), blocks)
	}
	w := newWorld(t, partition{name: "recovered"})
	owner := &shell{world: w, folder: server.Folder(), bin: server.Programs(), as: server.AsOwner, here: here(server, "")}
	owner.does([]string{"mkdir -p /backup/log"})
	server.Start("archive_mode=on", owner.here.Replace("archive_command=cp %p /backup/log/%f"))
	server.Execute(server.URL("postgres"), "CREATE ROLE lehr LOGIN REPLICATION")
	server.Execute(server.URL("postgres"), "CREATE DATABASE lehr OWNER lehr")
	ask := func(of *pgserver.Server, query string) string {
		t.Helper()
		told, err := of.Query(of.URL("postgres"), query)
		if err != nil {
			t.Fatal(err)
		}
		return told
	}

	w.want(values{"a": 1})
	w.serve("--database", "postgres://lehr@"+server.Address()+"/lehr")
	w.converges(values{"a": 1})
	owner.does(blocks[0])
	w.want(values{"a": 2})
	w.converges(values{"a": 2})
	moment := ask(server, "SELECT clock_timestamp()::text")
	w.want(values{"a": 3, "b": 1})
	w.converges(values{"a": 3, "b": 1})
	_, shown, _ := w.epochs()
	w.kill()
	written := ask(server, "SELECT pg_walfile_name(pg_switch_wal())")
	w.await("the log is archived", func() string {
		if last := ask(server, "SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver"); last < written {
			return last
		}
		return ""
	})
	server.Crash()
	w.want(values{"a": 4, "b": 1})

	before, after := untilServed(t, blocks[1])
	owner.here = here(server, moment)
	owner.does(before)
	recovered.Start()
	w.await("it takes writes", func() string {
		return strings.TrimPrefix(ask(recovered, "SELECT pg_is_in_recovery()::text"), "false")
	})
	w.serve("--database", "postgres://lehr@"+recovered.Address()+"/lehr")
	w.waitsForAdoption(values{"a": 3, "b": 1}, `lost the last \d+ commits|another than before`)
	person := &shell{world: w, folder: t.TempDir(), bin: server.Programs(), here: here(recovered, moment), typed: owner.typed}
	if told := person.does(after); !strings.Contains(told, "Adopted as generation 2") {
		t.Errorf("lehr store adopt: %s", told)
	}
	w.converges(values{"a": 4, "b": 1})
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
	// as, unless nil, makes a command that of another user.
	as func(*exec.Cmd)
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
	if s.as != nil {
		s.as(command)
	}
	told, err := command.CombinedOutput()
	if err != nil {
		s.Fatalf("%s\n%v\n%s", script, err, told)
	}
	return string(told)
}
