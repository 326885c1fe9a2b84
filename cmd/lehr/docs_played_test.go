package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/cli"
	"lehr.dev/test/interpreter"
)

var (
	block = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	// named is a file that a block holds: its first line says where.
	named = regexp.MustCompile(`^(?:#|//|--) (\S+\.\w+)(?:[:,].*)?\n`)
)

// play does what a document tells from one place to another, in a new folder:
// files are written as they are shown, and commands that need no server are run
// and must print what is shown. It returns how many were.
func play(t *testing.T, document, from, to string) (commands int) {
	t.Helper()
	text := documents(t)[document]
	_, text, begins := strings.Cut(text, from)
	if to != "" {
		text, _, _ = strings.Cut(text, to)
	}
	if !begins {
		t.Fatalf("%s does not say %q", document, from)
	}
	folder := t.TempDir()
	t.Chdir(folder)
	for _, found := range block.FindAllStringSubmatch(text, -1) {
		language, content := found[1], found[2]
		if file := named.FindStringSubmatch(content); language != "console" && file != nil {
			path := filepath.Join(folder, file[1])
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if language != "console" {
			continue
		}
		for _, part := range strings.Split("\n"+content, "\n$ lehr ")[1:] {
			line, want, _ := strings.Cut(part, "\n")
			arguments := words("lehr " + line)[1:]
			if !slices.Contains([]string{"build", "lint", "schema", "import", "workflow"}, arguments[0]) {
				continue
			}
			commands++
			var out strings.Builder
			cli.Run(t.Context(), cli.Local{Build: build, Lint: lint, Imports: imports()}, cli.Terminal{Out: &out, Err: &out, Getenv: func(string) string { return "" }}, arguments)
			if got := strings.TrimSpace(out.String()); got != strings.TrimSpace(want) {
				t.Errorf("%s: lehr %s shows\n%s\nand prints\n%s", document, line, want, got)
			}
		}
	}
	return commands
}

func TestResolversOfTheDocument(t *testing.T) {
	if n := play(t, "docs/use/partition.md", "### Resolvers", "### Limits, and"); n != 1 {
		t.Errorf("%d commands", n)
	}
}

func TestEvolutionOfTheDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("builds every step of a page")
	}
	if n := play(t, "docs/use/evolution.md", "## Where it begins", "## What was meant"); n != 5 {
		t.Errorf("%d commands", n)
	}
}

func TestTasksOfTheDocument(t *testing.T) {
	if n := play(t, "docs/use/task.md", "# Tasks", "## When it runs"); n != 1 {
		t.Errorf("%d commands", n)
	}
}

func TestProceduresOfTheDocument(t *testing.T) {
	if n := play(t, "docs/use/procedures.md", "# Pushes", "## What an asset says"); n != 2 {
		t.Errorf("%d commands", n)
	}
}

func TestWorkflowsOfTheDocument(t *testing.T) {
	if n := play(t, "docs/use/workflows.md", "## An example", "## Keys"); n != 2 {
		t.Errorf("%d commands", n)
	}
}

func TestModelsOfTheDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("builds every step of a page")
	}
	if n := play(t, "docs/use/models.md", "# Service models", ""); n != 5 {
		t.Errorf("%d commands", n)
	}
}

// TestPythonTutorial does what the page on plugins in Python tells: it writes the files that
// are shown, and runs all that a shell can.
func TestPythonTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("holds two plugins to the protocol")
	}
	t.Setenv("PATH", interpreter.Folder(t)+string(os.PathListSeparator)+os.Getenv("PATH"))
	folder, runs := t.TempDir(), 0
	for _, found := range block.FindAllStringSubmatch(documents(t)["docs/extend/python.md"], -1) {
		if file := named.FindStringSubmatch(found[2]); file != nil {
			if err := os.WriteFile(filepath.Join(folder, file[1]), []byte(found[2]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if found[1] != "sh" {
			continue
		}
		runs++
		command := exec.Command("sh", "-ec", found[2])
		command.Dir = folder
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s%v\n%s", found[2], err, output)
		}
	}
	if runs != 4 {
		t.Errorf("%d blocks were run", runs)
	}
}

func TestKeelOfTheDocument(t *testing.T) {
	if n := play(t, "docs/use/from-keel.md", "# Coming from", ""); n != 2 {
		t.Errorf("%d commands", n)
	}
}

func TestCanariesOfTheDocument(t *testing.T) {
	if n := play(t, "docs/use/from-argo-rollouts.md", "# Coming from", ""); n != 4 {
		t.Errorf("%d commands", n)
	}
}

func TestKargoOfTheDocument(t *testing.T) {
	const page = "docs/use/from-kargo.md"
	text := documents(t)[page]
	if n := play(t, page, "# Coming from", ""); n != 1 {
		t.Errorf("%d commands", n)
	}
	made, err := os.ReadFile(filepath.Join("shop", "lehr.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(text, "```yaml\n      production:")
	shown, _, _ = strings.Cut("      production:"+shown, "```")
	if len(shown) < 100 || !strings.Contains(string(made), shown) {
		t.Errorf("%s shows\n%s\nand the import makes\n%s", page, shown, made)
	}
}

func TestAddonsOfTheDocument(t *testing.T) {
	if n := play(t, "docs/use/addons.md", "# Addons on anything", "## Which one counts"); n != 1 {
		t.Errorf("%d commands", n)
	}
}
