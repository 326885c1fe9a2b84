package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lehr.dev/test/building"
)

var (
	shownBlock = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	shownName  = regexp.MustCompile(`^# (\S+\.\w+)\n`)
)

// tour plays a page: a shell in a folder of its own, with the programs in its PATH.
type tour struct {
	t      *testing.T
	folder string
	blocks [][]string
}

// TestFromTerraformPipelines does what the page tells, and the two modules become what it says.
func TestFromTerraformPipelines(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs Terraform")
	}
	if _, err := exec.LookPath("terraform"); err != nil {
		t.Skip("there is no terraform in PATH: install one from https://developer.hashicorp.com/terraform/install")
	}
	page, err := os.ReadFile("../../docs/use/from-terraform-pipelines.md")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.EvalSymlinks(t.TempDir())
	err = errors.Join(err,
		(building.Program{Of: "../../cmd/lehr"}).At(filepath.Join(folder, "lehr")),
		(building.Program{Of: ".", Flags: []string{"-ldflags", "-s -w"}}).At(filepath.Join(folder, "lehr-terraform")),
	)
	if err != nil {
		t.Fatal(err)
	}
	r := &tour{t: t, folder: folder, blocks: shownBlock.FindAllStringSubmatch(string(page), -1)}
	r.layFiles()
	shells := r.of("sh")
	if len(shells) != 5 || !strings.HasPrefix(shells[3], "lehr serve") {
		t.Fatalf("the page has other commands than are played here: %q", shells)
	}
	r.run(shells[0])
	r.runShown()
	r.run(shells[1])
	r.run(shells[2])
	startServer(t, folder, filepath.Join(folder, "lehr"), filepath.Join(folder, "shop", "lehr.yaml"))
	r.run(shells[4])
	r.becomes("infra/network", "net-dev")
	r.becomes("infra/service", "service in net-dev")
}

// of lists the blocks of a language.
func (r *tour) of(language string) (texts []string) {
	for _, block := range r.blocks {
		if block[1] == language {
			texts = append(texts, block[2])
		}
	}
	return texts
}

// layFiles writes the files that the page shows.
func (r *tour) layFiles() {
	r.t.Helper()
	files := 0
	for _, block := range r.blocks {
		name := shownName.FindStringSubmatch(block[2])
		if name == nil {
			continue
		}
		files++
		at := filepath.Join(r.folder, name[1])
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(block[2]), 0o600)); err != nil {
			r.t.Fatal(err)
		}
	}
	if files != 4 {
		r.t.Fatalf("the page shows %d files", files)
	}
}

// run commands of a shell.
func (r *tour) run(commands string) string {
	r.t.Helper()
	command := exec.CommandContext(r.t.Context(), "sh", "-ec", commands)
	command.Dir = r.folder
	command.Env = append(os.Environ(), "PATH="+r.folder+":"+os.Getenv("PATH"), "HOME="+r.folder, "TF_CLI_CONFIG_FILE=/dev/null", "CHECKPOINT_DISABLE=1")
	output, err := command.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s%v\n%s", commands, err, output)
	}
	return string(output)
}

// runShown runs the command whose output the page shows.
func (r *tour) runShown() {
	r.t.Helper()
	shown := r.of("console")
	if len(shown) != 1 {
		r.t.Fatalf("the page shows the output of %d commands", len(shown))
	}
	line, want, _ := strings.Cut(strings.TrimPrefix(shown[0], "$ "), "\n")
	if got := strings.ReplaceAll(r.run(line), r.folder, "FOLDER"); got != want {
		r.t.Errorf("the page shows\n%s\nand it prints\n%s", want, got)
	}
}

// becomes waits until the state of a module has a resource with such an input.
func (r *tour) becomes(module, want string) {
	r.t.Helper()
	path := filepath.Join(r.folder, module, "terraform.tfstate")
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var state struct {
			Resources []struct {
				Instances []struct {
					Attributes struct {
						Input struct{ Value string }
					}
				}
			}
		}
		text, err := os.ReadFile(path)
		isRead := err == nil && json.Unmarshal(text, &state) == nil && len(state.Resources) == 1 && len(state.Resources[0].Instances) == 1
		if isRead && state.Resources[0].Instances[0].Attributes.Input.Value == want {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s does not become %q (%v):\n%s", module, want, err, text)
		}
	}
}
