package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/test/building"
)

// shop has programs, and root modules that somebody applied by hand.
type shop struct {
	t *testing.T
	// folder has the programs, repository the root modules, each below it.
	folder, repository, terraform string
}

// monorepo is two root modules, one of which reads the other's state, and one that plans elsewhere.
var monorepo = map[string]string{
	"network/main.tf": `terraform {
  backend "local" {}
}
module "net" {
  source = "../modules/net"
  env    = var.env
}
variable "env" {}
output "name" { value = module.net.name }
`,
	"network/terraform.tfvars": "env = \"prod\"\n",
	"modules/net/net.tf": `variable "env" {}
resource "terraform_data" "net" { input = "net-${var.env}" }
output "name" { value = terraform_data.net.output }
`,
	"app/main.tf": `terraform {
  backend "local" {}
}
variable "where" {}
data "terraform_remote_state" "network" {
  backend = "local"
  config  = { path = var.where }
}
resource "terraform_data" "app" {
  input = "app in ${data.terraform_remote_state.network.outputs.name}"
}
`,
	"elsewhere/main.tf": "terraform {\n  cloud {}\n}\n",
}

func newShop(t *testing.T) *shop {
	t.Helper()
	if testing.Short() {
		t.Skip("runs Terraform")
	}
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		t.Skip("there is no terraform in PATH: install one from https://developer.hashicorp.com/terraform/install")
	}
	folder, err := filepath.EvalSymlinks(t.TempDir())
	err = errors.Join(err,
		(building.Program{Of: "../../cmd/lehr"}).At(filepath.Join(folder, "lehr")),
		(building.Program{Of: ".", Flags: []string{"-ldflags", "-s -w"}}).At(filepath.Join(folder, "lehr-terraform")),
	)
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, folder: folder, repository: filepath.Join(folder, "infra"), terraform: terraform}
	for name, text := range monorepo {
		s.write(name, text)
	}
	where, _ := json.Marshal(filepath.Join(s.repository, "network", "terraform.tfstate"))
	s.write("app/terraform.tfvars", "where = "+string(where)+"\n")
	s.apply("network")
	s.apply("app")
	return s
}

func (s *shop) write(name, text string) {
	s.t.Helper()
	at := filepath.Join(s.repository, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
		s.t.Fatal(err)
	}
}

// apply is what people did before Lehr.
func (s *shop) apply(module string) {
	s.t.Helper()
	for _, arguments := range [][]string{{"init", "-input=false"}, {"apply", "-input=false", "-auto-approve"}} {
		command := exec.Command(s.terraform, arguments...)
		command.Dir, command.Env = filepath.Join(s.repository, module), append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE=/dev/null")
		if text, err := command.CombinedOutput(); err != nil {
			s.t.Fatalf("terraform %v in %s: %v\n%s", arguments, module, err, text)
		}
	}
}

// lehr runs it, with its exit code.
func (s *shop) lehr(arguments ...string) (output string, code int) {
	s.t.Helper()
	command := exec.Command(filepath.Join(s.folder, "lehr"), arguments...)
	command.Dir = s.folder
	command.Env = append(os.Environ(), "HOME="+s.folder, "XDG_STATE_HOME="+s.folder, "LEHR_SERVER=", "LEHR_STORE="+filepath.Join(s.folder, "none.db"))
	text, err := command.CombinedOutput()
	ended, isEnd := errors.AsType[*exec.ExitError](err)
	if err != nil && !isEnd {
		s.t.Fatal(err)
	}
	if isEnd {
		code = ended.ExitCode()
	}
	return string(text), code
}

func (s *shop) says(output string, words ...string) {
	s.t.Helper()
	for _, word := range words {
		if !strings.Contains(output, word) {
			s.t.Fatalf("it does not say %q:\n%s", word, output)
		}
	}
}

// TestWhatWasImportedIsInSync: root modules that people applied are imported with their states,
// differ by nothing, and by what is so once somebody changes one; no state is moved or changed.
func TestWhatWasImportedIsInSync(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	states := func() string {
		first, errFirst := os.ReadFile(filepath.Join(s.repository, "network", "terraform.tfstate"))
		second, errSecond := os.ReadFile(filepath.Join(s.repository, "app", "terraform.tfstate"))
		if err := errors.Join(errFirst, errSecond); err != nil {
			t.Fatal(err)
		}
		return string(first) + string(second)
	}
	before := states()
	output, code := s.lehr("import", "terraform", "--module", "infra", "--to", "adopted")
	if code != 2 {
		t.Fatalf("it ended with %d, and elsewhere cannot be taken over:\n%s", code, output)
	}
	s.says(output, "2 root modules", "1 edge", "elsewhere/main.tf:2: the block cloud")
	definition := filepath.Join("adopted", "lehr.yaml")
	s.useList()
	output, code = s.lehr("plan", definition)
	if code != 0 {
		t.Errorf("plan ended with %d", code)
	}
	s.says(output, "0 to change, 2 the same, 0 unknown")
	if output := s.output("network", "name"); output != "net-prod" {
		t.Errorf("lehr-terraform output prints %q", output)
	}
	s.write("network/terraform.tfvars", "env = \"dev\"\n")
	output, code = s.lehr("plan", definition)
	if code != 2 {
		t.Errorf("plan ended with %d", code)
	}
	s.says(output, "1 to change, 1 the same, 0 unknown", "net-dev")
	if states() != before {
		t.Error("a state was changed")
	}
}

// output is what lehr-terraform prints of one, as for a command of the list of secrets.
func (s *shop) output(module, name string) string {
	s.t.Helper()
	command := exec.Command(filepath.Join(s.folder, "lehr-terraform"), "output", "--engines", filepath.Join(s.folder, "adopted", "engines.yaml"), "--partition", "adopted", "--asset", "terraform/"+module, name)
	command.Env = append(os.Environ(), "HOME="+s.folder, "XDG_STATE_HOME=")
	text, err := command.Output()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		s.t.Fatalf("%v: %s", err, ended.Stderr)
	} else if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// useList names the operator's list by its path, as the import says is to be done.
func (s *shop) useList() {
	s.t.Helper()
	at := filepath.Join(s.folder, "adopted", "lehr.yaml")
	text, err := os.ReadFile(at)
	if err == nil {
		err = os.WriteFile(at, []byte(strings.Replace(string(text), "engines.yaml]", filepath.Join(s.folder, "adopted", "engines.yaml")+"]", 1)), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
