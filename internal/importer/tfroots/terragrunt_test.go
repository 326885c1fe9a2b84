package tfroots

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const block = "terraform {\n  backend \"s3\" {}\n}\n"

// estate is a repository of Terragrunt, as its manual lays one out.
var estate = map[string]string{
	"root.hcl": `locals {
  account = read_terragrunt_config(find_in_parent_folders("account.hcl")).locals.name
}
remote_state {
  backend = "s3"
  config = {
    bucket         = "states-${local.account}"
    key            = "${path_relative_to_include()}/terraform.tfstate"
    region         = "eu-central-1"
    use_lockfile   = true
    s3_bucket_tags = { made = "by Terragrunt" }
  }
}
inputs = { env = "none", account = local.account }
`,
	"live/account.hcl": `locals { name = "prod" }`,
	"modules/vpc/main.tf": block + `variable "env" {}
variable "account" {}
output "id" { value = 1 }
`,
	"modules/app/main.tf": block + `variable "env" {}
variable "vpc" {}
variable "ports" {}
variable "token" {}
variable "home" {}
`,
	"live/vpc/terragrunt.hcl": `include "root" { path = find_in_parent_folders("root.hcl") }
terraform { source = "../../modules//vpc" }
inputs = { env = "prod", undeclared = 1 }
`,
	"live/app/terragrunt.hcl": `include "root" {
  path   = find_in_parent_folders("root.hcl")
  expose = true
}
dependency "vpc" {
  config_path  = "../vpc"
  mock_outputs = { id = "mock" }
}
dependencies { paths = ["../dns"] }
terraform {
  source = "${get_repo_root()}/modules/app"
  extra_arguments "x" { commands = ["plan"] }
}
inputs = {
  env   = "${include.root.locals.account}-app"
  vpc   = "net/${dependency.vpc.outputs.id}"
  ports = [80, 443]
  token = "q7Rt2Zm4Kx9"
  home  = get_env("HOME")
}
`,
	"live/dns/terragrunt.hcl": `include "root" { path = find_in_parent_folders("root.hcl") }
`,
	"live/dns/main.tf": block + ``,
}

// TestTerragrunt: includes are evaluated, inputs become variables, and outputs of other units
// those of their assets.
func TestTerragrunt(t *testing.T) {
	top := lay(t, estate)
	result, d := mustRead(t, top)
	if len(d.Generate) != 3 {
		t.Fatalf("%v\n%+v", d.Generate, result.LeftOut)
	}
	vpc, app := d.Generate["live-vpc"], d.Generate["live-app"]
	equal(t, "id", vpc.With.ID, "terraform/live/vpc")
	equal(t, "module", vpc.With.Module, top+"/modules/vpc")
	equal(t, "backend", vpc.With.Backend, []string{"bucket=states-prod", "key=live/vpc/terraform.tfstate", "region=eu-central-1", "use_lockfile=true"})
	equal(t, "variables", vpc.With.Variables, []string{"account=prod", "env=prod"})
	equal(t, "variables", app.With.Variables, []string{"env=prod-app", "ports=[80,443]", "vpc=net/${output:terraform/live/vpc#id}"})
	equal(t, "edges", app.edges(), []string{"terraform/live/dns", "terraform/live/vpc"})
	equal(t, "module", d.Generate["live-dns"].With.Module, top+"/live/dns")
	leftOut(t, result, "live/app/terragrunt.hcl: extra_arguments", "not read", true)
	leftOut(t, result, "live/app/terragrunt.hcl: inputs.home", "live/app/terragrunt.hcl:19", true)
	leftOut(t, result, "live/app/terragrunt.hcl: inputs.token", "secret", false)
	if text := result.Definition + fmt.Sprint(result.LeftOut, result.Hints); strings.Contains(text, "q7Rt2") {
		t.Errorf("a secret is copied:\n%s", text)
	}
	if !slices.Contains(result.Read, "Terragrunt: 3 units") {
		t.Errorf("read %q", result.Read)
	}
}

// TestUnitsThatCannotBeTakenOver are listed with why not.
func TestUnitsThatCannotBeTakenOver(t *testing.T) {
	for want, unit := range map[string]string{
		"fetched from git::https://git.example.com/m.git":             `terraform { source = "git::https://git.example.com/m.git?ref=v1" }`,
		"live/odd/terragrunt.hcl:1: it writes a file":                 `generate "provider" { path = "provider.tf" }`,
		"live/odd/terragrunt.hcl:2: the hook is a program":            "terraform {\n  before_hook \"x\" {}\n}",
		"write backend \"gcs\" {} into a block terraform of live/odd": `remote_state { backend = "gcs" }`,
		"the backend remote has plans":                                `remote_state { backend = "remote" }`,
		"neither remote_state nor its module has a backend":           ``,
		"the path of what is included cannot be told":                 `include { path = get_env("X") }`,
		"lies outside of":                               `include { path = "/etc/passwd" }`,
		"include each other more than 8 deep":           `include { path = "terragrunt.hcl" }`,
		"which unit it depends on cannot be told":       `dependencies { paths = [get_env("X")] }`,
		"the setting key of the backend cannot be told": "remote_state {\n  backend = \"s3\"\n  config = { key = get_env(\"X\") }\n}",
		"its module live/none has no .tf file":          `terraform { source = "../none" }`,
	} {
		files := map[string]string{"live/odd/main.tf": `variable "a" {}`, "live/odd/terragrunt.hcl": unit}
		for name, text := range estate {
			files[name] = text
		}
		result, d := mustRead(t, lay(t, files))
		if len(d.Generate) != 3 {
			t.Errorf("%s: %d root modules", unit, len(d.Generate))
		}
		leftOut(t, result, "live/odd/terragrunt.hcl", want, true)
	}
}

// FuzzGrunt: nothing crashes the reader.
func FuzzGrunt(f *testing.F) {
	for _, text := range estate {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		files := map[string]string{"live/odd/main.tf": text, "live/odd/terragrunt.hcl": text, "live/odd/terraform.tfvars": text}
		_, _ = Read(lay(t, files), Program{})
	})
}
