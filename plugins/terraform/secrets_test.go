package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lehr.dev/test/building"
	"lehr.dev/test/canary"
)

// leaky is a module that shows its secrets wherever a module can: in a value, an output, what a
// program prints, the error with which it fails, and a check.
const leaky = `terraform {
  backend "local" {}
}
variable "password" { sensitive = true }
variable "sly" {}
resource "terraform_data" "holder" {
  input = { password = var.password, sly = sensitive(var.sly) }
  provisioner "local-exec" {
    command = "echo it prints $TF_VAR_password and $TF_VAR_sly"
  }
}
resource "terraform_data" "fails" {
  depends_on = [terraform_data.holder]
  input      = "shown"
  provisioner "local-exec" {
    command = "test -e \"$HOME/mended\" || { echo \"it fails with $TF_VAR_sly\" >&2; exit 1; }"
  }
}
output "password" {
  value     = var.password
  sensitive = true
}
output "plain" { value = "a public one" }
check "says" {
  assert {
    condition     = terraform_data.fails.output == "other"
    error_message = "the check says ${nonsensitive(terraform_data.holder.output.sly)}"
  }
}
`

// vault is a server over one module whose variables are secrets of the operator's list.
type vault struct {
	t       *testing.T
	folder  string
	secrets canary.Canaries
	// password is one of the secrets.
	password string
	// log is a file in the folder, which is searched as all are.
	log       *os.File
	server    *exec.Cmd
	isServing bool
}

// TestSecretsOfModulesShowNowhere plants secrets where modules have them, and looks for them in the
// log, the store, reports, plans, pushes, and all that the plugin keeps: they are in the state and
// in the operator's files alone (S13).
func TestSecretsOfModulesShowNowhere(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.await("approval") // What failed is tainted, so it is to be destroyed.
	v.searchAll()
	v.write("mended", "")
	v.await("in-sync")
	v.searchAll()
	if outputs := v.ask("document", "get", "outputs"); !strings.Contains(outputs, "a public one") {
		t.Errorf("outputs are %s", outputs)
	}
	text, err := os.ReadFile(filepath.Join(v.folder, "states", "leaky.tfstate"))
	if err != nil || !bytes.Contains(text, []byte(v.password)) {
		t.Errorf("the state has no secret to be found: %v", err)
	}
	v.stop()
	v.searchAll()
}

// await waits until the report of the module has a word.
func (v *vault) await(word string) {
	v.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		reports := v.ask("get", "reports")
		if strings.Contains(reports, word) {
			return
		}
		if strings.Contains(reports, "needs a person's approval") {
			v.ask("approve", "terraform/leaky", "--reason", "it was never whole")
		}
		if v.t.Failed() || time.Now().After(deadline) {
			v.t.Fatalf("no report says %q:\n%s%s%s", word, reports, v.ask("get", "pushes"), v.ask("why", "terraform/leaky"))
		}
	}
}

// searchAll looks through what people and files show, but for the operator's files and the state.
func (v *vault) searchAll() {
	v.t.Helper()
	if v.isServing {
		for _, line := range []string{
			"get reports -o json", "get assets -o json", "get pushes -o json", "describe report terraform/leaky", "describe asset terraform/leaky", "why terraform/leaky",
			"document get outputs", "history terraform/leaky", "audit list", "plan --head",
		} {
			v.ask(strings.Fields(line)...)
		}
	}
	but := []string{}
	for _, name := range []string{"password", "sly", "states", "infra", "lehr", "lehr-terraform"} {
		but = append(but, filepath.Join(v.folder, name))
	}
	v.secrets.SearchFolder(v.t, v.folder, but...)
}

func newVault(t *testing.T) *vault {
	t.Helper()
	if testing.Short() {
		t.Skip("runs Terraform")
	}
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		t.Skip("there is no terraform in PATH: install one from https://developer.hashicorp.com/terraform/install")
	}
	text, err := exec.Command(terraform, "version", "-json").Output()
	var told struct {
		Version string `json:"terraform_version"`
	}
	if err != nil || json.Unmarshal(text, &told) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	v := &vault{t: t, folder: t.TempDir()}
	password, sly := v.secrets.PlantWord("a variable that is sensitive"), v.secrets.PlantWord("a variable that is not declared as sensitive")
	v.password = password
	v.write("password", password)
	v.write("sly", sly)
	v.write("key", rand.Text()+rand.Text())
	v.write("infra/main.tf", leaky)
	at := func(name string) string { return filepath.Join(v.folder, name) }
	v.write("secrets.yaml", fmt.Sprintf("lehr-secrets: v1\nkey: %s\nsecrets:\n- {file: %s, partitions: [shop], plugins: [lehr-terraform]}\n- {file: %s, partitions: [shop], plugins: [lehr-terraform]}\n", at("key"), at("password"), at("sly")))
	v.write("engines.yaml", fmt.Sprintf("terraform-engines: v1\nengines:\n- {name: default, partitions: [shop], binary: %s, version: %s, locked_backends: true, secrets: {TF_VAR_password: {file: %s}, TF_VAR_sly: {file: %s}}}\n", terraform, told.Version, at("password"), at("sly")))
	v.write("lehr.yaml", fmt.Sprintf(`lehr: v1
partition: shop
mode: enforce
sources: {infra: {dir: infra, files: ["*.tf"]}}
generate:
  leaky: {render: terraform, from: infra, with: {backend: [path=%s]}}
plugins:
  lehr.terraform.v1.Module: {run: [%s, --engines, %s, --secret-list, %s, --folder, %s]}
`, at("states/leaky.tfstate"), at("lehr-terraform"), at("engines.yaml"), at("secrets.yaml"), at("plugin")))
	err = errors.Join(os.Mkdir(at("states"), 0o700),
		(building.Program{Of: "../../cmd/lehr"}).At(at("lehr")), (building.Program{Of: ".", Flags: []string{"-ldflags", "-s -w"}}).At(at("lehr-terraform")))
	if err != nil {
		t.Fatal(err)
	}
	v.serve()
	return v
}

func (v *vault) write(name, text string) {
	v.t.Helper()
	path := filepath.Join(v.folder, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		v.t.Fatal(err)
	}
}

// serve runs the server until the test ends.
func (v *vault) serve() {
	v.t.Helper()
	var err error
	if v.log, err = os.Create(filepath.Join(v.folder, "server.log")); err != nil {
		v.t.Fatal(err)
	}
	v.server = exec.Command(filepath.Join(v.folder, "lehr"), "serve", "--store", filepath.Join(v.folder, "store", "lehr.db"), "-p", filepath.Join(v.folder, "lehr.yaml"), "--listen", "127.0.0.1:0", "--sweep", "2s")
	v.server.Dir, v.server.Env = v.folder, append(os.Environ(), "HOME="+v.folder)
	v.server.Stdout, v.server.Stderr = v.log, v.log
	v.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := errors.Join(os.Mkdir(filepath.Join(v.folder, "store"), 0o700), v.server.Start()); err != nil {
		v.t.Fatal(err)
	}
	v.isServing = true
	v.t.Cleanup(v.stop)
}

func (v *vault) said() string {
	text, err := os.ReadFile(v.log.Name())
	if err != nil {
		v.t.Error(err)
	}
	return string(text)
}

func (v *vault) stop() {
	if !v.isServing {
		return
	}
	v.isServing = false
	_ = v.server.Process.Signal(os.Interrupt)
	_ = v.server.Wait()
	if v.t.Failed() {
		v.t.Logf("lehr serve said\n%s", v.said())
	}
}

// ask asks the server; what it answers is searched.
func (v *vault) ask(arguments ...string) string {
	v.t.Helper()
	command := exec.Command(filepath.Join(v.folder, "lehr"), arguments...)
	command.Dir, command.Env = v.folder, append(os.Environ(), "HOME="+v.folder, "LEHR_SERVER=", "LEHR_STORE="+filepath.Join(v.folder, "store", "lehr.db"))
	output, _ := command.CombinedOutput()
	v.secrets.Search(v.t, "lehr "+strings.Join(arguments, " "), output)
	return string(output)
}
